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

from tandem_kafka.types import UNKNOWN_EPOCH, UNKNOWN_OFFSET, TopicPartition

__all__ = [
    "TRANSITIONS",
    "AssignedPartition",
    "Consumed",
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


@dataclass(frozen=True, slots=True, eq=False)
class Consumed:
    """How far records were handed out from a base."""

    base: Position
    position: Position


@dataclass(frozen=True, slots=True)
class PreferredReplica:
    """A follower to read from, and until when (KIP-392)."""

    node_id: int
    expires_ms: int


class AssignedPartition:
    """State of one partition while it is assigned; a new assignment makes a new object."""

    __slots__ = (
        "awaiting_callback",
        "base",
        "buffered_bytes",
        "consumed",
        "end_offset_asked",
        "errors_put",
        "errors_taken",
        "fetch_in_flight",
        "high_watermark",
        "last_stable_offset",
        "leader_epoch",
        "leader_id",
        "log_start_offset",
        "paused",
        "pending_revocation",
        "preferred_replica",
        "read_ahead",
        "released_bytes",
        "reset_timestamp",
        "retry_at_ms",
        "slot",
        "state",
        "tp",
        "wait_for_drain",
    )

    def __init__(self, tp: TopicPartition) -> None:
        self.tp = tp
        # Writer: the network thread.
        self.state = FetchState.INITIALIZING
        self.base: Position | None = None
        self.paused = False
        self.pending_revocation = False
        self.awaiting_callback = False
        self.reset_timestamp: int | None = None
        self.leader_id = -1
        self.leader_epoch = UNKNOWN_EPOCH
        self.high_watermark = UNKNOWN_OFFSET
        self.last_stable_offset = UNKNOWN_OFFSET
        self.log_start_offset = UNKNOWN_OFFSET
        self.preferred_replica: PreferredReplica | None = None
        self.read_ahead = UNKNOWN_OFFSET
        self.fetch_in_flight = False
        self.wait_for_drain = False
        self.retry_at_ms = 0
        self.end_offset_asked = False
        self.buffered_bytes = 0
        self.errors_put = 0
        self.slot = -1
        # Writer: the application thread.
        self.consumed: Consumed | None = None
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
        return not (self.paused or self.pending_revocation or self.awaiting_callback)

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
            and not self.fetch_in_flight
            and self.returnable
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

    def await_reset(self, timestamp: int) -> None:
        """Drop the position; it is looked up by `timestamp` (ListOffsets: -1 end, -2 beginning)."""
        self._move(FetchState.AWAIT_RESET)
        self.base = None
        self.preferred_replica = None
        self.reset_timestamp = timestamp

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
