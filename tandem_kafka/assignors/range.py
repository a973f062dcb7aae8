"""The range assignor, which gives each subscriber a contiguous range of each topic's partitions.

Racks take precedence if they are known (KIP-881). Even then, topics with the same subscribers and
partitions stay co-partitioned: a member gets the same partition numbers of all of them.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from tandem_kafka.assignors.group import Assignment, Member, Topics, by_instance, subscribers
from tandem_kafka.assignors.racked_placement import racks_matter
from tandem_kafka.types import TopicPartition


def assign_range(members: Sequence[Member], topics: Topics) -> Assignment:
    """Divide each topic among its subscribers; the first ones may get one more partition.

    Args:
        members: The members of the group, in any order.
        topics: Partitions by topic.

    Returns:
        The partitions of each member, sorted.
    """
    members_by_topic = subscribers(by_instance(members), topics)
    shared = [
        _SharedTopic(name, topics[name], members_by_topic[name])
        for name in sorted(members_by_topic)
    ]
    if any(member.rack for member in members):
        _assign_within_racks(shared)
    assignment: Assignment = {member.member_id: [] for member in members}
    for topic in shared:
        topic.assign_rest()
        for number, member_id in topic.owners_in_order():
            assignment[member_id].append(TopicPartition(topic.name, number))
    return assignment


class _SharedTopic:
    """The partitions of one topic, and the room of each of its subscribers."""

    def __init__(
        self, name: str, racks: Mapping[int, frozenset[str]], members: Sequence[Member]
    ) -> None:
        self.name = name
        self.racks = racks
        self.members = members
        self._owners: dict[int, str] = {}
        self._counts: dict[str, int] = defaultdict(int)
        #: The partitions per member, and the number of members that may have one more.
        self._quota, self._extra = divmod(len(racks), len(members))

    def room(self, member: Member) -> int:
        """Return how many more partitions a member may get."""
        most = self._quota + (self._extra > 0)
        return max(0, most - self._counts[member.member_id])

    def give(self, member: Member, numbers: Sequence[int]) -> None:
        """Assign partitions to a member with enough room."""
        before = self._counts[member.member_id]
        self._owners.update(dict.fromkeys(numbers, member.member_id))
        self._counts[member.member_id] = before + len(numbers)
        if before <= self._quota < before + len(numbers):
            self._extra -= 1

    def assign_within_racks(self) -> None:
        """Assign partitions to members in the same rack; members without a rack get any."""
        waiting: dict[str, Iterator[int]] = {"": iter(self.racks)}
        for rack in {member.rack for member in self.members if member.rack}:
            waiting[rack] = iter([n for n, racks in self.racks.items() if rack in racks])
        for member in self.members:
            self.give(member, self._next_free(waiting[member.rack], self.room(member)))

    def assign_rest(self) -> None:
        """Assign the remaining partitions to the members in order."""
        waiting = iter(self.racks)
        for member in self.members:
            if len(self._owners) == len(self.racks):
                break
            self.give(member, self._next_free(waiting, self.room(member)))

    def owners_in_order(self) -> Iterator[tuple[int, str]]:
        """Return the partition numbers in order, with their owners."""
        return ((number, self._owners[number]) for number in self.racks)

    def _next_free(self, waiting: Iterator[int], count: int) -> list[int]:
        return list(islice((n for n in waiting if n not in self._owners), count))


def _assign_within_racks(topics: Sequence[_SharedTopic]) -> None:
    alike: dict[tuple[tuple[str, ...], tuple[int, ...]], list[_SharedTopic]] = defaultdict(list)
    matter = {t.name for t in topics if racks_matter(t.members, t.racks.values())}
    if not matter:
        return
    for topic in topics:
        ids = tuple([member.member_id for member in topic.members])
        alike[ids, tuple(topic.racks)].append(topic)
    for together in alike.values():
        if len(together) > 1:
            _assign_together(together)
        elif together[0].name in matter:
            together[0].assign_within_racks()


def _assign_together(topics: Sequence[_SharedTopic]) -> None:
    """Assign each partition number of all these topics to the first member with room in its rack.

    All topics have the same assignment at any time, so it is enough to check the first one.
    """
    one = topics[0]
    waiting: dict[str, deque[tuple[int, Member]]] = defaultdict(deque)
    for place, member in enumerate(one.members):
        waiting[member.rack].append((place, member))
    for number in one.racks:
        racks = frozenset.intersection(*(topic.racks[number] for topic in topics))
        queues = [waiting[rack] for rack in (*racks, "") if rack in waiting]
        for queue in queues:
            while queue and not one.room(queue[0][1]):
                queue.popleft()  # it never gets room again
        heads = [queue[0] for queue in queues if queue]
        if heads:
            _, member = min(heads, key=lambda head: head[0])
            for topic in topics:
                topic.give(member, (number,))
