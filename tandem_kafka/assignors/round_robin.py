"""The round-robin assignor, which assigns all partitions in order to all members in turn."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence

from tandem_kafka.assignors.group import Assignment, Member, Topics, by_instance
from tandem_kafka.types import TopicPartition


def assign_round_robin(members: Sequence[Member], topics: Topics) -> Assignment:
    """Assign the partitions of all topics in turn; members without the topic are skipped.

    Args:
        members: The members of the group, in any order.
        topics: Partitions by topic.

    Returns:
        The partitions of each member.
    """
    ordered = by_instance(members)
    assignment: Assignment = {member.member_id: [] for member in ordered}
    places: dict[str, list[int]] = defaultdict(list)
    for place, member in enumerate(ordered):
        for topic in member.topics:
            places[topic].append(place)
    turn = 0
    for topic in sorted(topics):
        candidates = places.get(topic)
        if not candidates:
            continue
        # The first subscriber at or after the next place.
        index = bisect_left(candidates, turn)
        for number in topics[topic]:
            place = candidates[index % len(candidates)]
            assignment[ordered[place].member_id].append(TopicPartition(topic, number))
            turn = place + 1
            index += 1
    return assignment
