"""The sticky assignment for members that subscribe to different topics.

First, every free partition is assigned to the subscriber with the fewest partitions. Then
partitions move, one at a time, to subscribers with at least two partitions less than their owner,
until no such move is possible. Each move makes the assignment more even, so this ends.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import groupby
from operator import attrgetter

from tandem_kafka.assignors.claims import Claims
from tandem_kafka.assignors.group import Assignment, Member, Topics, subscribers
from tandem_kafka.assignors.racked_placement import Placement
from tandem_kafka.types import TopicPartition

_topic = attrgetter("topic")


def share_unevenly(
    members: Sequence[Member], topics: Topics, claims: Claims, placement: Placement
) -> Assignment:
    """Balance the partitions as far as the subscriptions allow.

    Args:
        members: The members of the group, ordered by id; at least one.
        topics: The partitions of all topics that a member subscribes to.
        claims: The partitions that the members own.
        placement: The racks of members and replicas.

    Returns:
        The partitions of each member, ordered by topic and number.
    """
    balancer = _Balancer(members, topics, claims, placement)
    # Topics with few subscribers come first, because they have less choice.
    order = sorted(topics, key=lambda name: (len(balancer.subscribers_of[name]), name))
    every = [TopicPartition(name, number) for name in order for number in topics[name]]
    free = [tp for tp in every if tp not in balancer.owners]
    balancer.place(free)
    if not balancer.revoked:
        balancer.balance(free)
    balancer.balance(every)
    assignment: Assignment = {member.member_id: [] for member in members}
    for name in sorted(topics):
        for number in topics[name]:
            tp = TopicPartition(name, number)
            assignment[balancer.owners[tp]].append(tp)
    return assignment


class _Balancer:
    """The owner of every partition, and the moves that balance them.

    Attributes:
        subscribers_of: The members that subscribe to each topic.
        owners: The owner of each partition that has one.
        revoked: Whether a member must release a partition because of its subscription or rack.
    """

    def __init__(
        self, members: Sequence[Member], topics: Topics, claims: Claims, placement: Placement
    ) -> None:
        self.subscribers_of = {
            name: frozenset(member.member_id for member in found)
            for name, found in subscribers(members, topics).items()
        }
        self.owners: dict[TopicPartition, str] = {}
        self.revoked = False
        counts = {member.member_id: 0 for member in members}
        for member_id in counts:
            for tp in claims.owned.get(member_id, ()):
                if member_id not in self.subscribers_of[tp.topic] or placement.mismatch(
                    member_id, tp
                ):
                    self.revoked = True
                else:
                    self.owners[tp] = member_id
                    counts[member_id] += 1
        self._loads = Loads(counts)
        self._previous = claims.previous
        self._placement = placement
        self._moves = Moves()
        self._near: dict[tuple[str, frozenset[str]], frozenset[str]] = {}

    def place(self, free: Iterable[TopicPartition]) -> None:
        """Assign each partition to its lightest subscriber, preferably in a replica's rack."""
        rest = []
        for tp in free:
            near = self._near_subscribers(tp)
            if near:
                self._give(tp, near)
            else:
                rest.append(tp)
        for tp in rest:
            self._give(tp, self.subscribers_of[tp.topic])

    def balance(self, partitions: Sequence[TopicPartition]) -> None:
        """Move partitions to lighter members until no move improves the balance."""
        by_topic = [
            (self.subscribers_of[name], list(tps)) for name, tps in groupby(partitions, _topic)
        ]
        moving = True
        while moving:
            moving = False
            for candidates, of_topic in by_topic:
                if not self._loads.even(candidates):
                    moving = self._balance_topic(of_topic) or moving

    def _near_subscribers(self, tp: TopicPartition) -> frozenset[str]:
        """Return the subscribers in a rack with a replica, and those with an unknown rack."""
        candidates = self.subscribers_of[tp.topic]
        if not self._placement.matters:
            return candidates
        key = tp.topic, self._placement.racks(tp)
        if key not in self._near:
            self._near[key] = frozenset(
                each for each in candidates if not self._placement.mismatch(each, tp)
            )
        return self._near[key]

    def _give(self, tp: TopicPartition, candidates: frozenset[str]) -> None:
        self.owners[tp] = member_id = self._loads.lightest(candidates)
        self._loads.add(member_id, 1)

    def _balance_topic(self, partitions: Iterable[TopicPartition]) -> bool:
        moved = False
        #: Members that cannot pass on a partition of this topic, with the present loads.
        stuck: set[str] = set()
        for tp in partitions:
            owner = self.owners[tp]
            if owner in stuck:
                continue
            if self._improve(tp):
                moved = True
                stuck.clear()
            else:
                stuck.add(owner)
        return moved

    def _improve(self, tp: TopicPartition) -> bool:
        """Move a partition, or an equivalent one, to a subscriber with at least two less."""
        most = self._loads[self.owners[tp]] - 2
        candidates = self.subscribers_of[tp.topic]
        target = self._previous.get(tp, "")
        if target not in candidates or self._loads[target] > most:
            target = self._loads.lightest(candidates)
            if self._loads[target] > most:
                return False
        for moved, member_id in self._moves.to(tp, self.owners[tp], target):
            self._loads.add(self.owners[moved], -1)
            self._loads.add(member_id, 1)
            self.owners[moved] = member_id
        return True


class Loads:
    """The number of partitions of each member."""

    def __init__(self, counts: Mapping[str, int]) -> None:
        self._counts = dict(counts)
        self._ascending = sorted((count, member_id) for member_id, count in counts.items())

    def __getitem__(self, member_id: str) -> int:
        """Return the number of a member's partitions."""
        return self._counts[member_id]

    def add(self, member_id: str, change: int) -> None:
        """Change the number of a member's partitions."""
        count = self._counts[member_id]
        del self._ascending[bisect_left(self._ascending, (count, member_id))]
        self._counts[member_id] = count + change
        insort(self._ascending, (count + change, member_id))

    def lightest(self, candidates: Collection[str]) -> str:
        """Return the candidate with the fewest partitions, or the first of them by id.

        Args:
            candidates: Some of the members; at least one.
        """
        # Few candidates are compared directly; otherwise the first member that is one is chosen.
        if len(candidates) ** 2 <= len(self._counts):
            return min((self._counts[each], each) for each in candidates)[1]
        return next(member_id for _, member_id in self._ascending if member_id in candidates)

    def even(self, candidates: Collection[str]) -> bool:
        """Tell whether no candidate has at least two partitions more than another."""
        if len(candidates) ** 2 <= len(self._counts):
            counts = [self._counts[each] for each in candidates]
            return max(counts) - min(counts) < 2
        descending = reversed(self._ascending)
        most = next(count for count, member_id in descending if member_id in candidates)
        return most - self._counts[self.lightest(candidates)] < 2


class Moves:
    """The origins of moved partitions.

    It is pointless to exchange two partitions of a topic between two members. If a partition of the
    same topic has moved in the opposite direction, it therefore returns instead.
    """

    def __init__(self) -> None:
        self._origins: dict[TopicPartition, str] = {}
        #: Partitions by topic, origin and present member, in the order of their moves.
        self._moved: dict[tuple[str, str, str], dict[TopicPartition, None]] = defaultdict(dict)

    def to(self, tp: TopicPartition, source: str, target: str) -> list[tuple[TopicPartition, str]]:
        """Return the moves that take one partition from the source and add one to the target.

        Args:
            tp: A partition of the source.
            source: The member with too many partitions.
            target: Another member that subscribes to the topic.
        """
        origin = self._origins.get(tp, source)
        came = self._moved.get((tp.topic, target, origin))
        if not came:
            moves = [(tp, target)]
        elif origin == source:
            moves = [(next(iter(came)), target)]
        else:
            moves = [(tp, origin), (next(iter(came)), target)]
        for moved, member_id in moves:
            self._note(moved, source if moved == tp else origin, member_id)
        return moves

    def _note(self, tp: TopicPartition, source: str, target: str) -> None:
        origin = self._origins.pop(tp, source)
        if origin != source:
            del self._moved[tp.topic, origin, source][tp]
        if origin != target:
            self._origins[tp] = origin
            self._moved[tp.topic, origin, target][tp] = None
