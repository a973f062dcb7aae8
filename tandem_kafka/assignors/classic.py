"""Runs assignors with kafka-python's interface in a classic group: built-in or the user's own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kafka.coordinator.assignors.abstract import RebalanceProtocol
from kafka.coordinator.assignors.cooperative_sticky import (
    CooperativeStickyAssignor as KafkaPythonCooperativeStickyAssignor,
)
from kafka.coordinator.assignors.range import RangePartitionAssignor as KafkaPythonRangeAssignor
from kafka.coordinator.assignors.roundrobin import (
    RoundRobinPartitionAssignor as KafkaPythonRoundRobinAssignor,
)
from kafka.coordinator.assignors.sticky.sticky_assignor import (
    StickyPartitionAssignor as KafkaPythonStickyAssignor,
)
from kafka.protocol.consumer.metadata import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)

from tandem_kafka.assignors.strategies import (
    CooperativeStickyAssignor,
    RangePartitionAssignor,
    RoundRobinPartitionAssignor,
    StickyPartitionAssignor,
)
from tandem_kafka.types import ClusterSnapshot, TopicPartition

#: Version 1 adds owned partitions, version 2 the generation and version 3 the rack. A reader of an
#: older version ignores the additional fields.
SUBSCRIPTION_VERSION = 3

#: kafka-python's assignors take up to half a minute for large groups, and lose members if dynamic
#: ones come both before and after static ones. They are replaced; subclasses of the user are not.
_REPLACEMENTS = {
    KafkaPythonRangeAssignor: RangePartitionAssignor,
    KafkaPythonRoundRobinAssignor: RoundRobinPartitionAssignor,
    KafkaPythonStickyAssignor: StickyPartitionAssignor,
    KafkaPythonCooperativeStickyAssignor: CooperativeStickyAssignor,
}


class ClusterView:
    """Provides the part of kafka-python's ClusterMetadata that assignors use, from a snapshot."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self._snapshot = snapshot

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """Return the partition numbers of a topic, or None if it is unknown."""
        info = self._snapshot.topics.get(topic)
        return set(info.partitions) if info is not None else None

    def available_partitions_for_topic(self, topic: str) -> set[int] | None:
        """Return the partitions with a leader, or None if the topic is unknown."""
        info = self._snapshot.topics.get(topic)
        if info is None:
            return None
        return {number for number, each in info.partitions.items() if each.leader_id >= 0}

    def topics(self) -> set[str]:
        """Return the names of all known topics."""
        return set(self._snapshot.topics)

    def replica_racks(self, topic: str) -> dict[int, frozenset[str]]:
        """Return the racks of each partition's replicas, including offline replicas.

        Replicas with an unknown broker or rack are left out.
        """
        info = self._snapshot.topics.get(topic)
        partitions = info.partitions if info is not None else {}
        rack_of = {node_id: node.rack for node_id, node in self._snapshot.nodes.items()}
        racks: dict[tuple[int, ...], frozenset[str]] = {}
        for each in partitions.values():
            if each.replicas not in racks:
                found = (rack_of.get(node_id) for node_id in each.replicas)
                racks[each.replicas] = frozenset(rack for rack in found if rack)
        return {number: racks[each.replicas] for number, each in partitions.items()}


class ClassicAssignors:
    """The assignors of one consumer, in order of preference."""

    def __init__(self, strategy: Sequence[Any]) -> None:
        instances = [_instance(each) for each in strategy]
        self._by_name = {each.name: each for each in instances}
        #: Members keep their partitions during a rebalance (KIP-429) if all assignors support it.
        self.cooperative = all(_cooperative(each) for each in instances)

    def describe(
        self, topics: Iterable[str], owned: Iterable[TopicPartition], generation: int, rack: str
    ) -> dict[str, bytes]:
        """Return the member's subscription for JoinGroup, by assignor.

        The owned partitions are those of the consumer, not those that an assignor remembers: lost
        partitions must not be claimed.
        """
        return {
            name: _subscription(
                sorted(topics), assignor.metadata(sorted(topics)), owned, generation, rack
            )
            for name, assignor in self._by_name.items()
        }

    def assign(
        self, name: str, snapshot: ClusterSnapshot, members: Sequence[Any]
    ) -> Mapping[str, bytes]:
        """Compute the assignments of all members of a JoinGroup response."""
        for member in members:
            member.metadata = ConsumerProtocolSubscription.decode(member.metadata)
        # Static members come first: kafka-python's range and round-robin assignors, and subclasses
        # of them, lose members if dynamic ones come both before and after static ones.
        members = sorted(members, key=lambda member: member.group_instance_id is None)
        assignment = self._by_name[name].assign(ClusterView(snapshot), members)
        return {member_id: bytes(each.encode()) for member_id, each in assignment.items()}

    def on_assignment(self, name: str, assignment: Any, generation: int) -> None:
        """Notify the assignor that computed it of this member's assignment."""
        if name in self._by_name:
            self._by_name[name].on_assignment(assignment, generation)

    def lost(self) -> None:
        """Notify all assignors that the partitions are lost, so that none claims them again."""
        nothing = ConsumerProtocolAssignment(0, [], b"")
        for assignor in self._by_name.values():
            assignor.on_assignment(nothing, -1)


def decode_assignment(encoded: bytes) -> Any:
    """Decode the assignment of a SyncGroup response; an empty one assigns nothing."""
    if not encoded:
        return ConsumerProtocolAssignment(0, [], b"")
    return ConsumerProtocolAssignment.decode(encoded)


def topics_of(members: Iterable[Any]) -> frozenset[str]:
    """Return all topics that the members of a JoinGroup response subscribe to."""
    subscriptions = (ConsumerProtocolSubscription.decode(member.metadata) for member in members)
    return frozenset(topic for each in subscriptions for topic in each.topics)


def _instance(given: Any) -> Any:
    """Return the assignor to run for a class or an instance in the user's strategy."""
    kind = given if isinstance(given, type) else type(given)
    if kind in _REPLACEMENTS:
        return _REPLACEMENTS[kind]()
    return given() if isinstance(given, type) else given


def _cooperative(assignor: Any) -> bool:
    supported = getattr(assignor, "supported_protocols", None)
    return supported is not None and RebalanceProtocol.COOPERATIVE in supported()


def _subscription(
    topics: list[str], own: Any, owned: Iterable[TopicPartition], generation: int, rack: str
) -> bytes:
    """Encode a subscription with the assignor's user data and the consumer's own data."""
    entry = ConsumerProtocolSubscription.TopicPartition
    by_topic: dict[str, list[int]] = defaultdict(list)
    for tp in sorted(owned):
        by_topic[tp.topic].append(tp.partition)
    subscription = ConsumerProtocolSubscription(
        version=SUBSCRIPTION_VERSION,
        topics=topics,
        user_data=own.user_data,
        owned_partitions=[entry(topic=t, partitions=ps) for t, ps in by_topic.items()],
        generation_id=generation,
        rack_id=rack or None,
    )
    return bytes(subscription.encode())
