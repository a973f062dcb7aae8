"""The records of KIP-848's coordinator: six types, each with a key; no value is a tombstone.

Which fields they have is the proposal's, but for client id, host and rack, which nothing here
uses; topics go by name. Ours are the seventh type, of a target that a member computes, and with
each epoch the assignors that it was decided by.
"""

from __future__ import annotations

from dataclasses import dataclass

from tandem_kafka.testing.coordinator.client_assignors import Announced
from tandem_kafka.types import TopicPartition

__all__ = [
    "ConsumerGroupAssignmentComputation",
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
    """What the members want and bring, as of the epoch: by it a change is noticed."""

    epoch: int
    wanted: tuple[tuple[str, Partitions], ...]
    announced: tuple[tuple[str, Announced], ...] = ()


@dataclass(frozen=True, slots=True)
class ConsumerGroupMemberMetadata:
    """What a member said of itself."""

    instance_id: str | None
    subscribed_topic_names: frozenset[str]
    subscribed_topic_regex: str
    rebalance_timeout_ms: int
    assignors: Announced = ()


@dataclass(frozen=True, slots=True)
class ConsumerGroupTargetAssignmentMetadata:
    """The epoch of the target, and who made it; no member if the coordinator did."""

    assignment_epoch: int
    assignor: str = ""
    computed_by: str = ""


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


@dataclass(frozen=True, slots=True)
class ConsumerGroupAssignmentComputation:
    """A target that a member is computing.

    Attributes:
        epoch: Of the group; the target will be of it.
        member_id: Who computes; empty while all who could have failed.
        failed: Who could not.
        told: Members and what they want, as the one that computes was told; None before that.
    """

    epoch: int
    assignor: str
    member_id: str
    failed: frozenset[str] = frozenset()
    told: tuple[tuple[str, Partitions], ...] | None = None


Value = (
    ConsumerGroupAssignmentComputation
    | ConsumerGroupMetadata
    | ConsumerGroupPartitionMetadata
    | ConsumerGroupMemberMetadata
    | ConsumerGroupTargetAssignmentMetadata
    | ConsumerGroupTargetAssignmentMember
    | ConsumerGroupCurrentMemberAssignment
)
