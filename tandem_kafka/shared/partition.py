"""One assigned partition: where its fetching stands.

The state machine (java-consumer terms, KIP-320):

    INITIALIZING      no position yet: the committed offset is being looked up
    AWAIT_RESET       no position: an offset is looked up by the reset policy or seek_to_*
    AWAIT_VALIDATION  a position whose leader changed: the log may have been truncated
    FETCHING          a valid position

Two threads touch an `AssignedPartition`, each its own fields. The position has a part from
either side: the network thread sets a `base` (a seek, a reset, a committed offset), the
application thread notes in `consumed` how far records were handed out *from that base*. Setting
a new base makes an old `consumed` void by identity, so neither thread ever waits for the other
and what was fetched for an old base is recognised and dropped.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Protocol

from tandem_kafka.shared.metadata import NO_TOPIC_ID
from tandem_kafka.types import UNKNOWN_EPOCH, UNKNOWN_OFFSET, TopicPartition

__all__ = [
    "TRANSITIONS",
    "AssignedPartition",
    "Changes",
    "Consumed",
    "ConsumedFrom",
    "FetchState",
    "Position",
    "PreferredReplica",
]


class FetchState(enum.Enum):
    """Where a partition's position stands."""

    INITIALIZING = "initializing"
    AWAIT_RESET = "await reset"
    AWAIT_VALIDATION = "await validation"
    FETCHING = "fetching"


#: From each state, the states it may go to.
TRANSITIONS: dict[FetchState, frozenset[FetchState]] = {
    FetchState.INITIALIZING: frozenset(
        {FetchState.FETCHING, FetchState.AWAIT_RESET, FetchState.AWAIT_VALIDATION}
    ),
    FetchState.AWAIT_RESET: frozenset(
        {FetchState.FETCHING, FetchState.AWAIT_RESET, FetchState.AWAIT_VALIDATION}
    ),
    FetchState.AWAIT_VALIDATION: frozenset(
        {FetchState.FETCHING, FetchState.AWAIT_RESET, FetchState.AWAIT_VALIDATION}
    ),
    FetchState.FETCHING: frozenset(
        {FetchState.FETCHING, FetchState.AWAIT_RESET, FetchState.AWAIT_VALIDATION}
    ),
}


@dataclass(frozen=True, slots=True, eq=False)
class Position:
    """The next offset to hand out, and the leader epoch of the record before it.

    Compared by identity: two seeks to the same offset are two positions.
    """

    offset: int
    leader_epoch: int = UNKNOWN_EPOCH


class ConsumedFrom(Protocol):
    """How far records were handed out from a base; one object at a time says so."""

    @property
    def base(self) -> Position:
        """The base."""
        ...

    @property
    def position(self) -> Position:
        """Where the application is; the same object until it moves on."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Consumed:
    """A `ConsumedFrom` that stands."""

    base: Position
    position: Position


@dataclass(frozen=True, slots=True)
class PreferredReplica:
    """A follower to read from, and until when (KIP-392)."""

    node_id: int
    expires_ms: int


class Changes:
    """Which partitions have changed in what matters for fetching; written by the network thread.

    Attributes:
        count: Grows with each change: nothing needs to be looked at again while it stands.
        states: The partitions that changed since the fetch manager emptied this.
    """

    __slots__ = ("count", "states")

    def __init__(self) -> None:
        self.count = 0
        self.states: dict[AssignedPartition, None] = {}

    def note(self, state: AssignedPartition) -> None:
        """Note a change, which has been made already."""
        self.states[state] = None
        self.count += 1


class AssignedPartition:
    """State of one partition while it is assigned; a new assignment makes a new object."""

    __slots__ = (
        "_awaiting_callback",
        "_changes",
        "_dropped",
        "_paused",
        "_pending_revocation",
        "_stop_at",
        "base",
        "buffered_bytes",
        "consumed",
        "end_offset_asked",
        "errors_put",
        "errors_taken",
        "fetch_bytes",
        "high_watermark",
        "last_stable_offset",
        "leader_epoch",
        "leader_id",
        "log_start_offset",
        "out_of_range_at",
        "preferred_replica",
        "read_ahead",
        "released_bytes",
        "reset_timestamp",
        "retry_at_ms",
        "slot",
        "state",
        "topic_id",
        "tp",
        "wait_for_drain",
    )

    def __init__(self, tp: TopicPartition, changes: Changes | None = None) -> None:
        self.tp = tp
        self._changes = changes if changes is not None else Changes()
        # Writer: the network thread.
        self.state = FetchState.INITIALIZING
        self.base: Position | None = None
        #: The topic that the base is of. When a base is dropped because another topic has the name
        #: now, this changes last: who reads it before the position never takes one for the other.
        self.topic_id = NO_TOPIC_ID
        self._paused = False
        self._pending_revocation = False
        self._awaiting_callback = False
        self._dropped = False
        self.reset_timestamp: int | None = None
        self.leader_id = -1
        self.leader_epoch = UNKNOWN_EPOCH
        self.high_watermark = UNKNOWN_OFFSET
        self.last_stable_offset = UNKNOWN_OFFSET
        self.log_start_offset = UNKNOWN_OFFSET
        self.preferred_replica: PreferredReplica | None = None
        self.read_ahead = UNKNOWN_OFFSET
        self.wait_for_drain = False
        self.retry_at_ms = 0
        #: The leader has said once that this offset is out of range.
        self.out_of_range_at: int | None = None
        self.end_offset_asked = False
        self.buffered_bytes = 0
        self.errors_put = 0
        #: Asked of it at a time; 0 as long as nothing is known of it.
        self.fetch_bytes = 0
        self.slot = -1
        #: Nothing is fetched from this offset on, None for no end.
        self._stop_at: int | None = None
        # Writer: the application thread.
        self.consumed: ConsumedFrom | None = None
        self.released_bytes = 0
        self.errors_taken = 0

    def __repr__(self) -> str:
        position = self.position
        at = "no position" if position is None else f"offset {position.offset}"
        return f"<{self.tp.topic}-{self.tp.partition} {self.state.value}, {at}>"

    # --- read by either thread ---------------------------------------------------------------

    @property
    def position(self) -> Position | None:
        """The position: the base, or how far the application got from it."""
        base, consumed = self.base, self.consumed
        if consumed is not None and consumed.base is base:
            return consumed.position
        return base

    @property
    def has_valid_position(self) -> bool:
        """True when records may be fetched from the position."""
        return self.state is FetchState.FETCHING

    @property
    def returnable(self) -> bool:
        """True when buffered records may be handed out now."""
        return not (
            self._paused or self._pending_revocation or self._awaiting_callback or self._dropped
        )

    @property
    def paused(self) -> bool:
        """Whether the user has paused it."""
        return self._paused

    @paused.setter
    def paused(self, paused: bool) -> None:
        self._paused = paused
        self._changes.note(self)

    @property
    def pending_revocation(self) -> bool:
        """Whether it is about to be taken away."""
        return self._pending_revocation

    @pending_revocation.setter
    def pending_revocation(self, pending: bool) -> None:
        self._pending_revocation = pending
        self._changes.note(self)

    @property
    def stop_at(self) -> int | None:
        """Offset from which on nothing is fetched; None for no end."""
        return self._stop_at

    @stop_at.setter
    def stop_at(self, offset: int | None) -> None:
        self._stop_at = offset
        self._changes.note(self)

    @property
    def awaiting_callback(self) -> bool:
        """Whether the listener has still to be told of it."""
        return self._awaiting_callback

    @awaiting_callback.setter
    def awaiting_callback(self, awaiting: bool) -> None:
        self._awaiting_callback = awaiting
        self._changes.note(self)

    @property
    def dropped(self) -> bool:
        """Whether its topic is not subscribed to any more: the group will take it back."""
        return self._dropped

    @dropped.setter
    def dropped(self, dropped: bool) -> None:
        self._dropped = dropped
        self._changes.note(self)

    @property
    def held_bytes(self) -> int:
        """Bytes fetched and not yet handed out."""
        return self.buffered_bytes - self.released_bytes

    # --- network thread ----------------------------------------------------------------------

    @property
    def fetchable(self) -> bool:
        """True when a fetch may be sent."""
        return (
            self.state is FetchState.FETCHING
            and self.returnable
            and (self._stop_at is None or self.read_ahead < self._stop_at)
            and self.errors_put == self.errors_taken
            and not (self.wait_for_drain and not self._drained())
        )

    @property
    def waits_for_application(self) -> bool:
        """True when nothing is fetched before what is buffered has been taken."""
        return self.wait_for_drain or self.errors_put != self.errors_taken

    def _drained(self) -> bool:
        position = self.position
        return position is not None and position.offset == self.read_ahead

    def set_position(self, position: Position, *, validate: bool = False) -> None:
        """Take a new base: what was read from the old one is void.

        The base comes before the state, and the application thread reads the state before the
        base: what it sees as valid is never the position that was in doubt.
        """
        self.base = position
        self._move(FetchState.AWAIT_VALIDATION if validate else FetchState.FETCHING)
        self.read_ahead = position.offset
        self.wait_for_drain = False
        self.retry_at_ms = 0
        self.reset_timestamp = None

    def drop_read_ahead(self) -> None:
        """Take the position as a new base: what was read ahead is void and is fetched again."""
        position = self.position
        if position is not None:
            self.base = Position(position.offset, position.leader_epoch)
            self.read_ahead = position.offset
            self.wait_for_drain = False
            self._changes.note(self)

    def await_reset(self, timestamp: int) -> None:
        """Drop the position; it is looked up by `timestamp` (ListOffsets: -1 end, -2 beginning)."""
        self._move(FetchState.AWAIT_RESET)
        self.base = None
        self.preferred_replica = None
        self.reset_timestamp = timestamp
        self._changes.note(self)  # who looked between the two has seen the old base

    def await_validation(self) -> None:
        """Keep the position, but fetch nothing until the leader confirmed it."""
        self._move(FetchState.AWAIT_VALIDATION)
        self.preferred_replica = None

    def validated(self) -> None:
        """The position is good: go on.

        The base stays: the application may be handing out records from it at this moment.
        """
        self._move(FetchState.FETCHING)

    def _move(self, to: FetchState) -> None:
        if to not in TRANSITIONS[self.state]:
            msg = f"{self.tp}: no way from {self.state.value} to {to.value}"
            raise AssertionError(msg)
        self.state = to
        self._changes.note(self)
