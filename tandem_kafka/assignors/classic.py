"""Runs kafka-python's assignors (or any class with their interface) for the leader of a group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kafka.protocol.consumer.metadata import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)

from tandem_kafka.shared.metadata import ClusterSnapshot
from tandem_kafka.types import TopicPartition

__all__ = [
    "ClusterView",
    "assign",
    "assignment_partitions",
    "subscription_metadata",
    "topics_of",
]


class ClusterView:
    """What an assignor asks of kafka-python's ClusterMetadata, answered from a snapshot."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self._snapshot = snapshot

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """Return the partition numbers of a topic, None if it is not known."""
        info = self._snapshot.topics.get(topic)
        return set(info.partitions) if info is not None else None

    def topics(self) -> set[str]:
        """Return the names of all known topics."""
        return set(self._snapshot.topics)


def subscription_metadata(assignor: Any, topics: Iterable[str]) -> bytes:
    """Return what a member says of itself in JoinGroup under one assignor."""
    return bytes(assignor.metadata(sorted(topics)).encode())


def assign(assignor: Any, snapshot: ClusterSnapshot, members: Sequence[Any]) -> Mapping[str, bytes]:
    """Compute the group's assignment; `members` are those of a JoinGroup response."""
    for member in members:
        member.metadata = ConsumerProtocolSubscription.decode(member.metadata)
    assignment = assignor.assign(ClusterView(snapshot), members)
    return {member_id: bytes(each.encode()) for member_id, each in assignment.items()}


def topics_of(members: Iterable[Any]) -> frozenset[str]:
    """Return all topics that the members of a JoinGroup response subscribe to."""
    subscriptions = (ConsumerProtocolSubscription.decode(member.metadata) for member in members)
    return frozenset(topic for each in subscriptions for topic in each.topics)


def assignment_partitions(encoded: bytes) -> tuple[Any, frozenset[TopicPartition]]:
    """Decode a SyncGroup assignment: kafka-python's object, and the partitions in it."""
    assignment = ConsumerProtocolAssignment.decode(encoded)
    partitions = frozenset(
        TopicPartition(topic, number)
        for topic, numbers in assignment.assigned_partitions
        for number in numbers
    )
    return assignment, partitions
