"""Requests to a coordinator and their results, independent of protocol versions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tandem_kafka.types import TopicPartition
from tandem_kafka_testing.coordinator.client_assignors import AssignorMetadata, ClientAssignor
from tandem_kafka_testing.coordinator.records import (
    ConsumerGroupAssignmentComputation,
    OffsetCommit,
)
from tandem_kafka_testing.coordinator.step import Error, Request

Partitions = frozenset[TopicPartition]
#: Offset, leader epoch (-1 for none) and metadata.
Commit = tuple[int, int, str]


# --- classic members -----------------------------------------------------------------------------


@dataclass(slots=True, eq=False, kw_only=True)
class JoinGroup(Request):
    """Its result is a `JoinResult`, perhaps much later.

    Attributes:
        member_id: Empty for a new member.
        protocols: Names and metadata, most preferred first.
        new_id: The id for a new member.
        needs_id: Whether a new member must join again with that id (KIP-394).
        may_skip: Whether the response can tell a leader not to assign (KIP-814).
    """

    member_id: str
    instance_id: str | None = None
    session_ms: int
    rebalance_ms: int
    protocol_type: str = "consumer"
    protocols: dict[str, bytes]
    new_id: str = ""
    needs_id: bool = False
    may_skip: bool = True


@dataclass(slots=True, eq=False)
class JoinResult:
    """`members` has id, instance id and metadata of all members, for the leader only."""

    error: Error = None
    member_id: str = ""
    generation: int = -1
    protocol_type: str | None = None
    protocol: str = ""
    leader: str = ""
    members: list[tuple[str, str | None, bytes]] = field(default_factory=list)
    skip_assignment: bool = False


@dataclass(slots=True, eq=False, kw_only=True)
class SyncGroup(Request):
    """Its result is a `SyncResult`, after the SyncGroup of the leader."""

    member_id: str
    instance_id: str | None = None
    generation: int
    protocol: str | None = None
    assignments: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class SyncResult:
    """The assignment of the member."""

    error: Error = None
    protocol: str | None = None
    assignment: bytes = b""


@dataclass(slots=True, eq=False, kw_only=True)
class Heartbeat(Request):
    """Its result is an error or None."""

    member_id: str
    instance_id: str | None = None
    generation: int


@dataclass(slots=True, eq=False, kw_only=True)
class LeaveGroup(Request):
    """Its result is an error or None; an instance id alone is enough for a static member."""

    member_id: str
    instance_id: str | None = None


# --- KIP-848 members -----------------------------------------------------------------------------


@dataclass(slots=True, eq=False, kw_only=True)
class ConsumerHeartbeat(Request):
    """Its result is a `ConsumerHeartbeatResult`; fields with None have not changed.

    Attributes:
        rebalance_ms: Not positive if it has not changed.
        owned: The partitions that the member owns.
    """

    member_id: str
    instance_id: str | None = None
    rack: str | None = None
    epoch: int
    rebalance_ms: int = -1
    topics: frozenset[str] | None = None
    regex: str | None = None
    server_assignor: str | None = None
    assignors: tuple[ClientAssignor, ...] | None = None
    owned: Partitions | None = None


@dataclass(slots=True, eq=False)
class ConsumerHeartbeatResult:
    """`assigned` is None without a change; `compute` requests a target from the member.

    Attributes:
        assignor_metadata: What the computing assignor sends with `assigned`.
    """

    error: Error = None
    epoch: int = 0
    interval_ms: int = 0
    assigned: Partitions | None = None
    assignor_metadata: AssignorMetadata | None = None
    compute: bool = False


# --- share groups --------------------------------------------------------------------------------


@dataclass(slots=True, eq=False, kw_only=True)
class ShareHeartbeat(Request):
    """Its result is a `ShareHeartbeatResult`; `topics` is None if they have not changed."""

    member_id: str
    epoch: int
    topics: frozenset[str] | None = None


@dataclass(slots=True, eq=False)
class ShareHeartbeatResult:
    """`assigned` is None without a change."""

    error: Error = None
    epoch: int = 0
    interval_ms: int = 0
    assigned: Partitions | None = None


@dataclass(slots=True, eq=False, kw_only=True)
class AlterShareOffsets(Request):
    """Begins partitions of a group without members anew. Its result is the error.

    The group is made if it does not exist.
    """

    partitions: Partitions


@dataclass(slots=True, eq=False, kw_only=True)
class DeleteShareOffsets(Request):
    """Forgets topics of a group without members. Its result is those it had, or an error."""

    topics: frozenset[str]


# --- assignments by members ----------------------------------------------------------------------


@dataclass(slots=True, eq=False, kw_only=True)
class PrepareAssignment(Request):
    """Its result is a `PrepareResult`."""

    member_id: str
    epoch: int


@dataclass(slots=True, eq=False)
class PrepareResult:
    """The input of the computing member."""

    error: Error = None
    computation: ConsumerGroupAssignmentComputation | None = None


@dataclass(slots=True, eq=False, kw_only=True)
class InstallAssignment(Request):
    """Its result is an error or None; an assignment of None reports a failed assignor.

    Attributes:
        metadata: Version, bytes and error for the assignor of each member.
    """

    member_id: str
    epoch: int
    group_epoch: int
    assignment: Mapping[str, list[TopicPartition]] | None
    metadata: Mapping[str, tuple[int, bytes, int]] = field(default_factory=dict)


# --- offsets -------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False, kw_only=True)
class CommitOffsets(Request):
    """Its result is an error or None, for all partitions.

    Attributes:
        producer_id: The producer of the transaction; None without one.
    """

    member_id: str
    instance_id: str | None = None
    generation: int
    producer_id: int | None = None
    offsets: Mapping[TopicPartition, Commit]


@dataclass(slots=True, eq=False, kw_only=True)
class FetchOffsets(Request):
    """Its result is `FetchedOffsets`.

    Attributes:
        member_id: The member, with its epoch; None without membership.
        require_stable: Whether offsets that open transactions may change are withheld.
    """

    member_id: str | None = None
    epoch: int = -1
    require_stable: bool = False


@dataclass(slots=True, eq=False)
class FetchedOffsets:
    """The committed offsets; those of the partitions in `unstable` are withheld."""

    offsets: Mapping[TopicPartition, OffsetCommit]
    unstable: Partitions = frozenset()
    error: Error = None


@dataclass(slots=True, eq=False, kw_only=True)
class EndTransaction(Request):
    """The end of a transaction. Its result is the applied offsets."""

    producer_id: int
    committed: bool


@dataclass(slots=True, eq=False, kw_only=True)
class DeleteOffsets(Request):
    """Deletes committed offsets. Its result is the error of each partition, or one for all."""

    partitions: Partitions


@dataclass(slots=True, eq=False, kw_only=True)
class DeleteGroup(Request):
    """Deletes a group without members. Its result is the error."""


# --- the operator --------------------------------------------------------------------------------


@dataclass(slots=True, eq=False, kw_only=True)
class ForgetTopic(Request):
    """Drops the offsets of a deleted topic. Its result is None."""

    topic: str


@dataclass(slots=True, eq=False, kw_only=True)
class Expel(Request):
    """Removes a member, as after a session timeout. Its result is whether it existed."""

    member_id: str
