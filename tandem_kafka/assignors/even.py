"""The sticky assignment for members that all subscribe to the same topics."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import count

from tandem_kafka.assignors.claims import Claims
from tandem_kafka.assignors.group import Assignment, Member, Topics
from tandem_kafka.assignors.racked_placement import Placement
from tandem_kafka.types import TopicPartition


def share_evenly(
    members: Sequence[Member], topics: Topics, claims: Claims, placement: Placement
) -> Assignment:
    """Assign the same number of partitions to every member, or one more to some of them.

    Args:
        members: The members of the group, ordered by id; at least one.
        topics: The partitions of all subscribed topics.
        claims: The partitions that the members own.
        placement: The racks of members and replicas.

    Returns:
        The partitions of each member: first those that it keeps, then new ones.
    """
    shares = _Shares(members, sum(map(len, topics.values())), placement)
    for member in members:
        shares.keep(member.member_id, claims.owned.get(member.member_id, ()))
    kept = {tp for partitions in shares.assignment.values() for tp in partitions}
    every = (TopicPartition(name, number) for name in sorted(topics) for number in topics[name])
    free = [tp for tp in every if tp not in kept]
    if placement.matters:
        # Partitions with few members in their racks come first, because they have less choice.
        free = shares.fill_within_racks(sorted(free, key=placement.neighbours))
    shares.fill(free)
    return shares.assignment


class _Shares:
    """The assignment so far; each member gets `_quota` partitions, some of them one more."""

    def __init__(self, members: Sequence[Member], partitions: int, placement: Placement) -> None:
        self.assignment: Assignment = {member.member_id: [] for member in members}
        self._placement = placement
        self._quota, self._extra = divmod(partitions, len(members))
        #: Members below the quota, by id.
        self._below: list[str] = []
        #: Members at the quota, in the order in which they may get one more partition.
        self._at_quota: dict[str, None] = {}

    def keep(self, member_id: str, owned: Iterable[TopicPartition]) -> None:
        """Let a member keep the partitions that it owns, up to its share."""
        kept = [tp for tp in owned if not self._placement.mismatch(member_id, tp)]
        # A member with too many releases the partitions with the highest numbers of all topics.
        kept.sort(key=lambda tp: (tp.partition, tp.topic))
        if len(kept) < self._quota:
            self._below.append(member_id)
        elif len(kept) > self._quota and self._extra:
            self._extra -= 1
            del kept[self._quota + 1 :]
        else:
            self._at_quota[member_id] = None
            del kept[self._quota :]
        self.assignment[member_id] = kept

    def fill_within_racks(self, free: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Assign partitions to members in the racks of replicas; return the other partitions."""
        ring = _Ring(self._below, self._placement.rack_of)
        queues = _Queues(self._at_quota if self._extra else (), self._placement.rack_of)
        rest = []
        for tp in free:
            racks = self._placement.racks(tp)
            member_id = ring.next(racks)
            if member_id is not None:
                self.assignment[member_id].append(tp)
                if len(self.assignment[member_id]) == self._quota:
                    ring.remove(member_id)
                    queues.append(member_id)
            elif self._extra and (member_id := queues.pop(racks)) is not None:
                self.assignment[member_id].append(tp)
                self._extra -= 1
            else:
                rest.append(tp)
        self._below = ring.remaining()
        self._at_quota = queues.remaining()
        return rest

    def fill(self, free: Iterable[TopicPartition]) -> None:
        """Assign partitions to members below the quota in turn, then one each to others."""
        below, at_quota = deque(self._below), deque(self._at_quota)
        for tp in free:
            member_id = (below or at_quota).popleft()
            share = self.assignment[member_id]
            share.append(tp)
            if len(share) < self._quota:
                below.append(member_id)
            elif len(share) == self._quota:
                at_quota.append(member_id)


class _Ring:
    """Members that are chosen in turn, limited to certain racks."""

    def __init__(self, member_ids: Sequence[str], rack_of: Mapping[str, str]) -> None:
        self._member_ids = member_ids
        self._rack_of = rack_of
        #: The places of the members of each rack, in ascending order.
        self._places: dict[str, list[int]] = defaultdict(list)
        for place, member_id in enumerate(member_ids):
            if member_id in rack_of:
                self._places[rack_of[member_id]].append(place)
        self._removed: set[str] = set()
        self._last = -1

    def next(self, racks: Iterable[str]) -> str | None:
        """Return the next member in one of these racks, or None."""
        nearest: tuple[int, int] | None = None
        for rack in racks:
            places = self._places.get(rack)
            if places:
                place = places[bisect_right(places, self._last) % len(places)]
                distance = (place - self._last - 1) % len(self._member_ids)
                nearest = min(nearest or (distance, place), (distance, place))
        if nearest is None:
            return None
        self._last = nearest[1]
        return self._member_ids[self._last]

    def remove(self, member_id: str) -> None:
        """Remove the member that `next` returned last."""
        self._removed.add(member_id)
        self._places[self._rack_of[member_id]].remove(self._last)

    def remaining(self) -> list[str]:
        """Return the members that have not been removed, in order."""
        return [each for each in self._member_ids if each not in self._removed]


class _Queues:
    """A queue of members, from which those of certain racks can be taken."""

    def __init__(self, member_ids: Iterable[str], rack_of: Mapping[str, str]) -> None:
        self._rack_of = rack_of
        self._places: dict[str, int] = {}
        self._next_place = count()
        self._queues: dict[str, deque[str]] = defaultdict(deque)
        for member_id in member_ids:
            self.append(member_id)

    def append(self, member_id: str) -> None:
        """Add a member at the end of the queue."""
        self._places[member_id] = next(self._next_place)
        if member_id in self._rack_of:
            self._queues[self._rack_of[member_id]].append(member_id)

    def pop(self, racks: Iterable[str]) -> str | None:
        """Remove and return the first member in one of these racks, or None."""
        heads = [queue[0] for rack in racks if (queue := self._queues.get(rack))]
        if not heads:
            return None
        first = min(heads, key=self._places.__getitem__)
        self._queues[self._rack_of[first]].popleft()
        del self._places[first]
        return first

    def remaining(self) -> dict[str, None]:
        """Return the members in the queue, in order."""
        return dict.fromkeys(self._places)
