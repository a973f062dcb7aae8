"""The records of KIP-848's coordinator: six types, each with a key; no value is a tombstone.

Which fields they have is the proposal's, but for client id, host, rack and the client-side
assignors, which nothing here uses; topics go by name.
"""

from __future__ import annotations

from dataclasses import dataclass

from tandem_kafka.types import TopicPartition

__all__ = [
    "ConsumerGroupCurrentMemberAssignment",
    "ConsumerGroupMemberMetadata",
    "ConsumerGroupMetadata",
    "ConsumerGroupPartitionMetadata",
    "ConsumerGroupTargetAssignmentMember",
    "ConsumerGroupTargetAssignmentMetadata",
    "Value",
]

Partitions = frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class ConsumerGroupMetadata:
    """The group's epoch."""

    epoch: int


@dataclass(frozen=True, slots=True)
class ConsumerGroupPartitionMetadata:
    """What the members want, as of the epoch: by it a change of a topic is noticed."""

    epoch: int
    wanted: tuple[tuple[str, Partitions], ...]


@dataclass(frozen=True, slots=True)
class ConsumerGroupMemberMetadata:
    """What a member said of itself."""

    instance_id: str | None
    subscribed_topic_names: frozenset[str]
    subscribed_topic_regex: str
    rebalance_timeout_ms: int


@dataclass(frozen=True, slots=True)
class ConsumerGroupTargetAssignmentMetadata:
    """The epoch of the target."""

    assignment_epoch: int


@dataclass(frozen=True, slots=True)
class ConsumerGroupTargetAssignmentMember:
    """What a member shall have."""

    partitions: Partitions


@dataclass(frozen=True, slots=True)
class ConsumerGroupCurrentMemberAssignment:
    """What a member has, and how far it is."""

    member_epoch: int
    previous_member_epoch: int
    state: str
    assigned_partitions: Partitions
    partitions_pending_revocation: Partitions


Value = (
    ConsumerGroupMetadata
    | ConsumerGroupPartitionMetadata
    | ConsumerGroupMemberMetadata
    | ConsumerGroupTargetAssignmentMetadata
    | ConsumerGroupTargetAssignmentMember
    | ConsumerGroupCurrentMemberAssignment
)
