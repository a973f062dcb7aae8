"""The assignors to name in `partition_assignment_strategy`, with kafka-python's interface."""

from __future__ import annotations

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor, RebalanceProtocol
from kafka.protocol.consumer.metadata import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)

from tandem_kafka.assignors.group import NO_GENERATION, Assignment, Member, Topics
from tandem_kafka.assignors.plan import Plan
from tandem_kafka.assignors.range import assign_range
from tandem_kafka.assignors.round_robin import assign_round_robin
from tandem_kafka.assignors.sticky import assign_sticky, without_revoked
from tandem_kafka.assignors.user_data import (
    decode_cooperative_user_data,
    decode_sticky_user_data,
    encode_cooperative_user_data,
    encode_sticky_user_data,
)
from tandem_kafka.types import TopicPartition

__all__ = [
    "CooperativeStickyAssignor",
    "RangePartitionAssignor",
    "RoundRobinPartitionAssignor",
    "StickyPartitionAssignor",
]

_NO_RACKS: frozenset[str] = frozenset()


class _ClassicAssignor(AbstractPartitionAssignor):
    """What the four have in common; kafka-python's consumer takes them too.

    Attributes:
        name: The name that the members of the group agree on.
        version: Version of the subscriptions and assignments that are written.
    """

    name: str
    version = 0

    def supported_protocols(self) -> list[RebalanceProtocol]:
        """Return whether rebalances are eager or cooperative (KIP-429)."""
        return [RebalanceProtocol.EAGER]

    def metadata(self, topics: Iterable[str]) -> ConsumerProtocolSubscription:
        """Return the subscription of a member to these topics."""
        return ConsumerProtocolSubscription(self.version, list(topics), b"")

    def on_assignment(self, assignment: ConsumerProtocolAssignment, generation: int) -> None:
        """Take note of this member's assignment in a generation of the group."""

    def assign(self, cluster: Any, members: Sequence[Any]) -> dict[str, ConsumerProtocolAssignment]:
        """Compute the assignment of a group.

        Args:
            cluster: Its `partitions_for_topic(topic)` returns the partition numbers of a topic,
                None if the topic is unknown; its `replica_racks(topic)`, if there is such a method,
                the racks of each partition's replicas.
            members: The members of a JoinGroup response, their metadata decoded.

        Returns:
            The assignment of each member, by member id.
        """
        group = [self._member(each) for each in members]
        topics = _topics(cluster, {topic for member in group for topic in member.topics})
        return {
            member_id: ConsumerProtocolAssignment(self.version, _by_topic(partitions), b"")
            for member_id, partitions in self._assign(group, topics).items()
        }

    @abstractmethod
    def _assign(self, members: Sequence[Member], topics: Topics) -> Assignment: ...

    def _member(self, joined: Any) -> Member:
        owned, generation = self._owned(joined.metadata)
        return Member(
            member_id=joined.member_id,
            topics=frozenset(joined.metadata.topics),
            instance_id=joined.group_instance_id,
            rack=joined.metadata.rack_id or "",
            owned=owned,
            generation=generation,
        )

    def _owned(self, subscription: Any) -> tuple[list[TopicPartition], int]:  # noqa: ARG002
        return [], NO_GENERATION


class RangePartitionAssignor(_ClassicAssignor):
    """Gives each subscriber of a topic one stretch of its partitions (`range`).

    With two members and two topics of three partitions, one member gets the partitions 0 and 1 of
    both topics, the other one partition 2 of both: topics with the same number of partitions are
    co-partitioned. Static members come first, by instance id, and so keep their partitions through
    a restart. If racks are known, members get partitions with a replica in their rack as far as
    balance and co-partitioning allow (KIP-881).
    """

    name = "range"

    def _assign(self, members: Sequence[Member], topics: Topics) -> Assignment:
        return assign_range(members, topics)


class RoundRobinPartitionAssignor(_ClassicAssignor):
    """Deals the partitions of all topics to the members in turn (`roundrobin`).

    With two members and two topics of three partitions, one member gets 0 and 2 of the first topic
    and 1 of the second, the other member the rest. Static members come first, by instance id. Racks
    have no effect.
    """

    name = "roundrobin"

    def _assign(self, members: Sequence[Member], topics: Topics) -> Assignment:
        return assign_round_robin(members, topics)


class StickyPartitionAssignor(_ClassicAssignor):
    """Balances the partitions and moves as few as that allows (`sticky`, KIP-54).

    Rebalances are eager: all members give everything back, most partitions return to where they
    were. If racks are known, members get partitions with a replica in their rack as far as balance
    allows (KIP-881); a partition without one may move for that.
    """

    name = "sticky"
    version = 1

    def __init__(self) -> None:
        self.member_assignment: list[TopicPartition] | None = None
        self.generation = NO_GENERATION
        self._leader_is_kafka_python = False

    def metadata(self, topics: Iterable[str]) -> ConsumerProtocolSubscription:
        """Return the subscription of a member, with its previous assignment."""
        data = b""
        if self.member_assignment is not None:
            data = encode_sticky_user_data(
                self.member_assignment,
                self.generation,
                for_kafka_python=self._leader_is_kafka_python,
            )
        return ConsumerProtocolSubscription(self.version, list(topics), data)

    def on_assignment(self, assignment: ConsumerProtocolAssignment, generation: int) -> None:
        """Remember this member's assignment for its next subscription."""
        self.member_assignment = assignment.partitions()
        self.generation = generation
        # Java's leader writes a newer version, and so does ours. Leaders rarely change.
        self._leader_is_kafka_python = assignment.version == 0

    def _assign(self, members: Sequence[Member], topics: Topics) -> Assignment:
        return assign_sticky(members, topics)

    def _owned(self, subscription: Any) -> tuple[list[TopicPartition], int]:
        return decode_sticky_user_data(subscription.user_data)


class CooperativeStickyAssignor(StickyPartitionAssignor):
    """Does the same without giving everything back (`cooperative-sticky`, KIP-429).

    Members keep reading through a rebalance. A partition that moves is revoked in one round and
    assigned in the next.
    """

    name = "cooperative-sticky"
    version = 2  # Owned partitions came with version 1, their generation with version 2.

    def __init__(self) -> None:
        super().__init__()
        self._plan = Plan()

    def supported_protocols(self) -> list[RebalanceProtocol]:
        """Return whether rebalances are eager or cooperative (KIP-429)."""
        return [RebalanceProtocol.COOPERATIVE]

    def metadata(self, topics: Iterable[str]) -> ConsumerProtocolSubscription:
        """Return the subscription of a member, with what it owns."""
        entry = ConsumerProtocolSubscription.TopicPartition
        known = self.generation != NO_GENERATION
        return ConsumerProtocolSubscription(
            version=self.version,
            topics=sorted(topics),
            user_data=encode_cooperative_user_data(self.generation) if known else b"",
            owned_partitions=[
                entry(topic=topic, partitions=numbers)
                for topic, numbers in _by_topic(self.member_assignment or ())
            ],
            generation_id=self.generation,
        )

    def _assign(self, members: Sequence[Member], topics: Topics) -> Assignment:
        target = self._plan.recall(members, topics) or assign_sticky(members, topics)
        assigned = without_revoked(target, members, topics)
        self._plan.remember(members, topics, target, assigned)
        return assigned

    def _owned(self, subscription: Any) -> tuple[list[TopicPartition], int]:
        owned = [
            TopicPartition(each.topic, number)
            for each in subscription.owned_partitions
            for number in each.partitions
        ]
        generation = subscription.generation_id
        if generation < 0:
            generation = decode_cooperative_user_data(subscription.user_data)
        return owned, generation


def _topics(cluster: Any, names: Collection[str]) -> Topics:
    replica_racks = getattr(cluster, "replica_racks", None)
    topics: dict[str, Mapping[int, frozenset[str]]] = {}
    for name in sorted(names):
        numbers = cluster.partitions_for_topic(name)
        if numbers:
            racks = replica_racks(name) if replica_racks is not None else {}
            topics[name] = {number: racks.get(number, _NO_RACKS) for number in sorted(numbers)}
    return topics


def _by_topic(partitions: Iterable[TopicPartition]) -> list[tuple[str, list[int]]]:
    numbers: dict[str, list[int]] = defaultdict(list)
    for tp in sorted(partitions):
        numbers[tp.topic].append(tp.partition)
    return list(numbers.items())
