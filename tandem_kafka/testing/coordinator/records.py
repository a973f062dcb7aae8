"""The records of a coordinator: each with a key; no value is a tombstone.

Six types are of KIP-848's groups. Which fields they have is the proposal's, but for client id and
host, which nothing here uses; topics go by name. Ours are a seventh type, of a target that a
member computes, and with each epoch the assignors that it was decided by. `GroupMetadata` is all
there is of a classic group, `OffsetCommit` of a commit.
"""

from __future__ import annotations

from dataclasses import dataclass

from tandem_kafka.testing.coordinator.client_assignors import Announced, HandedOver
from tandem_kafka.types import TopicPartition

__all__ = [
    "OF_CONSUMER_GROUPS",
    "ClassicMemberMetadata",
    "ConsumerGroupAssignmentComputation",
    "ConsumerGroupCurrentMemberAssignment",
    "ConsumerGroupMemberMetadata",
    "ConsumerGroupMetadata",
    "ConsumerGroupPartitionMetadata",
    "ConsumerGroupTargetAssignmentMember",
    "ConsumerGroupTargetAssignmentMetadata",
    "GroupMetadata",
    "GroupMetadataMember",
    "OffsetCommit",
    "PendingOffsetCommit",
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
class ClassicMemberMetadata:
    """What a KIP-848 group knows of a member that uses the classic protocol.

    Attributes:
        protocols: By name what the member said in JoinGroup, most preferred first.
    """

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class ConsumerGroupMemberMetadata:
    """What a member said of itself; `classic` for one that uses the classic protocol."""

    instance_id: str | None
    subscribed_topic_names: frozenset[str]
    subscribed_topic_regex: str
    rebalance_timeout_ms: int
    assignors: Announced = ()
    classic: ClassicMemberMetadata | None = None
    rack_id: str | None = None
    server_assignor: str | None = None


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
    along: HandedOver | None = None


@dataclass(frozen=True, slots=True)
class ConsumerGroupCurrentMemberAssignment:
    """What a member has, and how far it is.

    Attributes:
        assignment_epochs: Since which epoch it has each of its partitions (KIP-1251).
    """

    member_epoch: int
    previous_member_epoch: int
    state: str
    assigned_partitions: Partitions
    partitions_pending_revocation: Partitions
    along: HandedOver | None = None
    assignment_epochs: tuple[tuple[TopicPartition, int], ...] = ()


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


@dataclass(frozen=True, slots=True)
class GroupMetadataMember:
    """A member of a classic group.

    Attributes:
        subscription: What it said, under the protocol that the group took.
        assignment: As the leader brought it.
    """

    member_id: str
    instance_id: str | None
    session_timeout_ms: int
    rebalance_timeout_ms: int
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """A classic group when a generation was complete, or when it had lost its last member.

    Attributes:
        since_ms: When it was written.
    """

    generation: int
    protocol_type: str = ""
    protocol: str = ""
    leader: str = ""
    members: tuple[GroupMetadataMember, ...] = ()
    since_ms: int = 0


@dataclass(frozen=True, slots=True)
class OffsetCommit:
    """What was committed of a partition, and when."""

    offset: int
    leader_epoch: int
    metadata: str
    committed_ms: int


@dataclass(frozen=True, slots=True)
class PendingOffsetCommit:
    """What a transaction has committed that is not over; about a producer id and a partition."""

    commit: OffsetCommit


#: All that is about KIP-848 groups.
OF_CONSUMER_GROUPS: tuple[type[Value], ...] = (
    ConsumerGroupCurrentMemberAssignment,
    ConsumerGroupTargetAssignmentMember,
    ConsumerGroupTargetAssignmentMetadata,
    ConsumerGroupAssignmentComputation,
    ConsumerGroupMemberMetadata,
    ConsumerGroupPartitionMetadata,
    ConsumerGroupMetadata,
)

Value = (
    GroupMetadata
    | OffsetCommit
    | PendingOffsetCommit
    | ConsumerGroupAssignmentComputation
    | ConsumerGroupMetadata
    | ConsumerGroupPartitionMetadata
    | ConsumerGroupMemberMetadata
    | ConsumerGroupTargetAssignmentMetadata
    | ConsumerGroupTargetAssignmentMember
    | ConsumerGroupCurrentMemberAssignment
)
