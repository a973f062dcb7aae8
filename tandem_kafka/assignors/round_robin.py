"""The round-robin assignor: all partitions in order, dealt to all members in turn."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence

from tandem_kafka.assignors.group import Assignment, Member, Topics, by_instance
from tandem_kafka.types import TopicPartition

__all__ = ["assign_round_robin"]


def assign_round_robin(members: Sequence[Member], topics: Topics) -> Assignment:
    """Deal the partitions of all topics; a member without the topic misses its turn.

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
        takers = places.get(topic)
        if not takers:
            continue
        # The first subscriber at or after the place whose turn it is.
        taker = bisect_left(takers, turn)
        for number in topics[topic]:
            place = takers[taker % len(takers)]
            assignment[ordered[place].member_id].append(TopicPartition(topic, number))
            turn = place + 1
            taker += 1
    return assignment
