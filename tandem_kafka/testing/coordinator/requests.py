"""What a coordinator is asked and what it answers, free of the wire's versions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tandem_kafka.testing.coordinator.client_assignors import ClientAssignor, HandedOver
from tandem_kafka.testing.coordinator.records import (
    ConsumerGroupAssignmentComputation,
    OffsetCommit,
)
from tandem_kafka.testing.coordinator.step import Error, Request
from tandem_kafka.types import TopicPartition

__all__ = [
    "Commit",
    "CommitOffsets",
    "ConsumerHeartbeat",
    "ConsumerHeartbeatResult",
    "EndTransaction",
    "Expel",
    "FetchOffsets",
    "FetchedOffsets",
    "ForgetTopic",
    "Heartbeat",
    "InstallAssignment",
    "JoinGroup",
    "JoinResult",
    "LeaveGroup",
    "PrepareAssignment",
    "PrepareResult",
    "SyncGroup",
    "SyncResult",
]

Partitions = frozenset[TopicPartition]
#: Offset, leader epoch (-1 for none) and metadata.
Commit = tuple[int, int, str]


# --- classic members -----------------------------------------------------------------------------


@dataclass(slots=True, eq=False, kw_only=True)
class JoinGroup(Request):
    """Answered by a `JoinResult`, maybe much later.

    Attributes:
        member_id: Empty for who has none yet.
        protocols: What the member says, by the name of each protocol, most preferred first.
        new_id: What it is to be called if it has no id.
        needs_id: Whether it has to come again with that id (KIP-394).
        may_skip: Whether a leader can be told that it need not assign (KIP-814).
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
    """`members` has id, instance id and metadata of each; for the leader alone."""

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
    """Answered by a `SyncResult` once the leader has brought the assignment."""

    member_id: str
    instance_id: str | None = None
    generation: int
    protocol: str | None = None
    assignments: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class SyncResult:
    """What the member is to have."""

    error: Error = None
    protocol: str | None = None
    assignment: bytes = b""


@dataclass(slots=True, eq=False, kw_only=True)
class Heartbeat(Request):
    """Answered by an error or None."""

    member_id: str
    instance_id: str | None = None
    generation: int


@dataclass(slots=True, eq=False, kw_only=True)
class LeaveGroup(Request):
    """Answered by an error or None; a static member may be named by its instance id alone."""

    member_id: str
    instance_id: str | None = None


# --- KIP-848 members -----------------------------------------------------------------------------


@dataclass(slots=True, eq=False, kw_only=True)
class ConsumerHeartbeat(Request):
    """Answered by a `ConsumerHeartbeatResult`; a field that is None has not changed.

    Attributes:
        rebalance_ms: Not positive if it has not changed.
        owned: What the member has.
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
    """`assigned` is None where there is nothing new; `compute` asks for an assignment.

    Attributes:
        along: What comes along with `assigned` if a member has computed it.
    """

    error: Error = None
    epoch: int = 0
    interval_ms: int = 0
    assigned: Partitions | None = None
    along: HandedOver | None = None
    compute: bool = False


@dataclass(slots=True, eq=False, kw_only=True)
class PrepareAssignment(Request):
    """Answered by a `PrepareResult`."""

    member_id: str
    epoch: int


@dataclass(slots=True, eq=False)
class PrepareResult:
    """What the member is told that computes."""

    error: Error = None
    computation: ConsumerGroupAssignmentComputation | None = None


@dataclass(slots=True, eq=False, kw_only=True)
class InstallAssignment(Request):
    """Answered by an error or None; an assignment of None says that the assignor failed.

    Attributes:
        metadata: What each member's own assignor is to be told: a version, the bytes, an error.
    """

    member_id: str
    epoch: int
    group_epoch: int
    assignment: Mapping[str, list[TopicPartition]] | None
    metadata: Mapping[str, tuple[int, bytes, int]] = field(default_factory=dict)


# --- offsets -------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False, kw_only=True)
class CommitOffsets(Request):
    """Answered by an error or None, for all partitions alike.

    Attributes:
        producer_id: Of the transaction that it is part of; None for none.
    """

    member_id: str
    instance_id: str | None = None
    generation: int
    producer_id: int | None = None
    offsets: Mapping[TopicPartition, Commit]


@dataclass(slots=True, eq=False, kw_only=True)
class FetchOffsets(Request):
    """Answered by `FetchedOffsets`.

    Attributes:
        member_id: Who asks, and at which epoch; None for somebody without membership.
        require_stable: Whether what transactions may be about to change is not to be told.
    """

    member_id: str | None = None
    epoch: int = -1
    require_stable: bool = False


@dataclass(slots=True, eq=False)
class FetchedOffsets:
    """What is committed; of the partitions in `unstable` it is not to be told yet."""

    offsets: Mapping[TopicPartition, OffsetCommit]
    unstable: Partitions = frozenset()
    error: Error = None


@dataclass(slots=True, eq=False, kw_only=True)
class EndTransaction(Request):
    """The marker of a transaction. Answered by the offsets that count from now on."""

    producer_id: int
    committed: bool


# --- the operator --------------------------------------------------------------------------------


@dataclass(slots=True, eq=False, kw_only=True)
class ForgetTopic(Request):
    """A topic was deleted: what was committed of it is dropped. Answered by None."""

    topic: str


@dataclass(slots=True, eq=False, kw_only=True)
class Expel(Request):
    """Forget a member, as one whose session is over. Answered by True if there was one."""

    member_id: str
