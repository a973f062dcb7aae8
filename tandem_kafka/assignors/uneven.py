"""The sticky assignment for members that subscribe to different topics.

First, every free partition is assigned to the subscriber with the fewest partitions. Then
partitions move, one at a time, to subscribers with at least two partitions less than their owner,
until no such move is possible. Each move makes the assignment more even, so this ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter

from tandem_kafka.assignors.claims import Claims
from tandem_kafka.assignors.group import Assignment, Member, Topics, subscribers
from tandem_kafka.assignors.loads import Loads
from tandem_kafka.assignors.moves import Moves
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
