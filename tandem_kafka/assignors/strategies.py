"""The assignors for `partition_assignment_strategy`, with kafka-python's interface."""

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

_NO_RACKS: frozenset[str] = frozenset()


class _ClassicAssignor(AbstractPartitionAssignor):
    """The common base class of the assignors, which kafka-python's consumer can use as well.

    Attributes:
        name: The name of the assignor, on which all members must agree.
        version: The version of encoded subscriptions and assignments.
    """

    name: str
    version = 0

    def supported_protocols(self) -> list[RebalanceProtocol]:
        """Return the supported rebalance protocols: eager or cooperative (KIP-429)."""
        return [RebalanceProtocol.EAGER]

    def metadata(self, topics: Iterable[str]) -> ConsumerProtocolSubscription:
        """Return the subscription of a member to topics."""
        return ConsumerProtocolSubscription(self.version, list(topics), b"")

    def on_assignment(self, assignment: ConsumerProtocolAssignment, generation: int) -> None:
        """Process this member's assignment in a generation of the group."""

    def assign(self, cluster: Any, members: Sequence[Any]) -> dict[str, ConsumerProtocolAssignment]:
        """Compute the assignment of a group.

        Args:
            cluster: An object with a method ``partitions_for_topic(topic)``, which returns the
                partition numbers of a topic, or None if it is unknown. An optional method
                ``replica_racks(topic)`` returns the racks of each partition's replicas.
            members: The members of a JoinGroup response, with decoded metadata.

        Returns:
            The assignments by member id.
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
    """Assigns a contiguous range of each topic's partitions to each subscriber (``range``).

    With two members and two topics of three partitions, one member gets partitions 0 and 1 of both
    topics, and the other gets partition 2 of both. Topics with the same number of partitions are
    therefore co-partitioned. Static members come first, ordered by instance id, and keep their
    partitions after a restart. If racks are known, members get partitions with a replica in their
    rack as far as balance and co-partitioning allow (KIP-881).
    """

    name = "range"

    def _assign(self, members: Sequence[Member], topics: Topics) -> Assignment:
        return assign_range(members, topics)


class RoundRobinPartitionAssignor(_ClassicAssignor):
    """Assigns the partitions of all topics to the members in turn (``roundrobin``).

    With two members and two topics of three partitions, one member gets partitions 0 and 2 of the
    first topic and 1 of the second, and the other gets the rest. Static members come first, ordered
    by instance id. Racks have no effect.
    """

    name = "roundrobin"

    def _assign(self, members: Sequence[Member], topics: Topics) -> Assignment:
        return assign_round_robin(members, topics)


class StickyPartitionAssignor(_ClassicAssignor):
    """Balances the partitions and moves as few as possible (``sticky``, KIP-54).

    Rebalances are eager: all members release all partitions, and get most of them back. If racks
    are known, members get partitions with a replica in their rack as far as balance allows
    (KIP-881). Partitions may move for this purpose.
    """

    name = "sticky"
    version = 1

    def __init__(self) -> None:
        self.member_assignment: list[TopicPartition] | None = None
        self.generation = NO_GENERATION
        self._leader_is_kafka_python = False

    def metadata(self, topics: Iterable[str]) -> ConsumerProtocolSubscription:
        """Return the subscription of a member with its previous assignment."""
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
        # A member writes the format that its leader reads. Leaders of the Java client and of this
        # package write a newer version.
        self._leader_is_kafka_python = assignment.version == 0

    def _assign(self, members: Sequence[Member], topics: Topics) -> Assignment:
        return assign_sticky(members, topics)

    def _owned(self, subscription: Any) -> tuple[list[TopicPartition], int]:
        return decode_sticky_user_data(subscription.user_data)


class CooperativeStickyAssignor(StickyPartitionAssignor):
    """Balances like ``StickyPartitionAssignor``, but rebalances cooperatively (KIP-429).

    Its name is ``cooperative-sticky``. Members keep reading during a rebalance. A partition that
    moves is revoked in one round and assigned in the next.
    """

    name = "cooperative-sticky"
    version = 2  # version 1 adds owned partitions, version 2 their generation

    def __init__(self) -> None:
        super().__init__()
        self._plan = Plan()

    def supported_protocols(self) -> list[RebalanceProtocol]:
        """Return the supported rebalance protocols: eager or cooperative (KIP-429)."""
        return [RebalanceProtocol.COOPERATIVE]

    def metadata(self, topics: Iterable[str]) -> ConsumerProtocolSubscription:
        """Return the subscription of a member with its owned partitions."""
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
