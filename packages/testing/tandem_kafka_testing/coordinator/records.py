"""The records of a coordinator, each with a key; a tombstone has no value.

Six types belong to KIP-848 groups, with the fields of the proposal, except for client id and host,
which `Coordination` knows. Topics have names instead of ids. A topic that is deleted and created
again keeps its name, so `assignment_changed` records the change. Two other additions are our own:
the computation of a target by a member, and the assignors of each epoch. Three types belong to
share groups. A classic group has only `GroupMetadata`, and a commit only `OffsetCommit`.
"""

from __future__ import annotations

from dataclasses import dataclass

from tandem_kafka.types import TopicPartition
from tandem_kafka_testing.coordinator.client_assignors import Announced, AssignorMetadata

Partitions = frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class ConsumerGroupMetadata:
    """The epoch of the group."""

    epoch: int


@dataclass(frozen=True, slots=True)
class ConsumerGroupPartitionMetadata:
    """Subscribed partitions and assignors as of the epoch, to notice changes."""

    epoch: int
    wanted: tuple[tuple[str, Partitions], ...]
    announced: tuple[tuple[str, Announced], ...] = ()


@dataclass(frozen=True, slots=True)
class ClassicMemberMetadata:
    """The fields of a classic member in a KIP-848 group.

    Attributes:
        protocols: Names and metadata of JoinGroup, most preferred first.
    """

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class ConsumerGroupMemberMetadata:
    """Subscription and other metadata of a member; `classic` for a classic member."""

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
    """The epoch of the target, its assignor, and the member that computed it, if any."""

    assignment_epoch: int
    assignor: str = ""
    computed_by: str = ""


@dataclass(frozen=True, slots=True)
class ConsumerGroupTargetAssignmentMember:
    """The partitions of a member in the target."""

    partitions: Partitions
    assignor_metadata: AssignorMetadata | None = None


@dataclass(frozen=True, slots=True)
class ConsumerGroupCurrentMemberAssignment:
    """The present assignment and state of a member.

    Attributes:
        assignment_epochs: The epoch at which it got each partition (KIP-1251).
        assignment_changed: Whether partitions were taken from it since the last response.
    """

    member_epoch: int
    previous_member_epoch: int
    state: str
    assigned_partitions: Partitions
    partitions_pending_revocation: Partitions
    assignor_metadata: AssignorMetadata | None = None
    assignment_epochs: tuple[tuple[TopicPartition, int], ...] = ()
    assignment_changed: bool = False


@dataclass(frozen=True, slots=True)
class ConsumerGroupAssignmentComputation:
    """A target that a member is computing.

    Attributes:
        epoch: The epoch of the group for which the target is computed.
        member_id: The computing member; empty after all capable ones have failed.
        failed: The members that have failed.
        prepared_for: Members and subscribed partitions sent to the computing member; None before.
    """

    epoch: int
    assignor: str
    member_id: str
    failed: frozenset[str] = frozenset()
    prepared_for: tuple[tuple[str, Partitions], ...] | None = None


@dataclass(frozen=True, slots=True)
class GroupMetadataMember:
    """A member of a classic group.

    Attributes:
        subscription: Its metadata for the protocol of the group.
        assignment: Its assignment, as sent by the leader.
    """

    member_id: str
    instance_id: str | None
    session_timeout_ms: int
    rebalance_timeout_ms: int
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """A classic group after a complete generation, or after its last member has left.

    Attributes:
        since_ms: The time of the record.
    """

    generation: int
    protocol_type: str = ""
    protocol: str = ""
    leader: str = ""
    members: tuple[GroupMetadataMember, ...] = ()
    since_ms: int = 0


@dataclass(frozen=True, slots=True)
class OffsetCommit:
    """A committed offset and its time."""

    offset: int
    leader_epoch: int
    metadata: str
    committed_ms: int


@dataclass(frozen=True, slots=True)
class PendingOffsetCommit:
    """An offset of an open transaction, by producer id and partition."""

    commit: OffsetCommit


@dataclass(frozen=True, slots=True)
class ShareGroupMetadata:
    """The epoch of a share group, and that of its target.

    Attributes:
        initialized: The partitions that can be assigned.
        wanted: The subscribed ones among them of each member, to notice changes.
    """

    epoch: int
    assignment_epoch: int
    initialized: Partitions
    wanted: tuple[tuple[str, Partitions], ...]


@dataclass(frozen=True, slots=True)
class ShareGroupTargetAssignmentMember:
    """The partitions of a member of a share group in the target."""

    partitions: Partitions


@dataclass(frozen=True, slots=True)
class ShareGroupMember:
    """A member of a share group: its subscription and its assignment."""

    topics: frozenset[str]
    epoch: int
    previous_epoch: int
    assigned: Partitions


#: All types of share groups.
OF_SHARE_GROUPS: tuple[type[Value], ...] = (
    ShareGroupMember,
    ShareGroupTargetAssignmentMember,
    ShareGroupMetadata,
)

#: All types of KIP-848 groups.
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
    | ShareGroupMetadata
    | ShareGroupTargetAssignmentMember
    | ShareGroupMember
)
