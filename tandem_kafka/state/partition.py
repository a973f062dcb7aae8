"""The state of one assigned partition.

The state machine (as in the Java consumer, KIP-320):

    INITIALIZING      no position yet: the committed offset is looked up
    AWAIT_RESET       no position: an offset is looked up by the reset policy or seek_to_*
    AWAIT_VALIDATION  a position whose leader changed: the log may have been truncated
    AWAIT_DROP        a valid position; what was fetched in advance may be lost, and poll() drops it
    FETCHING          a valid position

Both threads write to an `AssignedPartition`, but to different fields. The position consists of two
parts. The network thread sets a `base`: a seek, a reset or a committed offset. The application
thread stores in `consumed` how far records have been returned *from that base*. A new base
invalidates an old `consumed` by identity. Neither thread therefore ever waits for the other, and
data that was fetched for an old base is recognised and dropped.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, Final, Protocol
from uuid import UUID

from tandem_kafka.dataclass import dataclass
from tandem_kafka.runtime.native import native
from tandem_kafka.state.failures import Failing
from tandem_kafka.state.state_machine import check_transition
from tandem_kafka.types import NO_TOPIC_ID, UNKNOWN_EPOCH, UNKNOWN_OFFSET, TopicPartition


class PythonFetchProgress:
    """Implements the native `FetchProgress` in Python. Writer, unless noted: the network thread.

    Attributes:
        high_watermark: Of the last response.
        last_stable_offset: Of the last response.
        log_start_offset: Of the last response.
        read_ahead: The offset of the next fetch.
        buffered_bytes: The bytes that were ever fetched.
        released_bytes: The bytes that were ever released. Writer: the application thread.
    """

    __slots__ = (
        "buffered_bytes",
        "high_watermark",
        "last_stable_offset",
        "log_start_offset",
        "read_ahead",
        "released_bytes",
    )

    def __init__(self, *_arguments: Any) -> None:
        self.high_watermark = UNKNOWN_OFFSET
        self.last_stable_offset = UNKNOWN_OFFSET
        self.log_start_offset = UNKNOWN_OFFSET
        self.read_ahead = UNKNOWN_OFFSET
        self.buffered_bytes = 0
        self.released_bytes = 0


if TYPE_CHECKING or native is None:  # noqa: SIM108 - a type checker sees a class
    FetchProgress = PythonFetchProgress
else:
    FetchProgress = native.FetchProgress


class FetchState(enum.Enum):
    """The state of a partition's position."""

    INITIALIZING = "initializing"
    AWAIT_RESET = "await reset"
    AWAIT_VALIDATION = "await validation"
    AWAIT_DROP = "await drop"
    FETCHING = "fetching"


#: A position may change in any way, but a partition is initialized once.
TRANSITIONS: Final = dict.fromkeys(FetchState, frozenset(FetchState) - {FetchState.INITIALIZING})


# Not frozen, because it is created for each poll().
@dataclass(eq=False)
class Position:
    """The next offset to return, and the leader epoch of the record before it.

    Invariant: positions are compared by identity, never by value. Two seeks to the same offset are
    two positions, and what was fetched for the first one is stale.
    """

    offset: int
    leader_epoch: int = UNKNOWN_EPOCH


class CommittedPosition(Position):
    """The position that the group has committed, so that it need not be committed again."""

    __slots__ = ()


class ConsumedFrom(Protocol):
    """How far records have been returned from a base."""

    @property
    def base(self) -> Position:
        """The base."""
        ...

    @property
    def position(self) -> Position:
        """The current position; the same object until it moves."""
        ...


#: A partition whose leader moves again sooner is fetched after its pause.
MOVED_AGAIN_MS: Final = 1_000


@dataclass(frozen=True, eq=False)
class Consumed:
    """A `ConsumedFrom` that does not change."""

    base: Position
    position: Position


class Returned(Protocol):
    """Tells whether a call has returned to the application."""

    @property
    def done(self) -> bool:
        """Whether it has."""
        ...


class Told:
    """A base of which a call of the application tells.

    Attributes:
        base: The base.
        topic_id: The topic that it belongs to.
        call: Whether the call has returned.
        before: What the application knew before the call.
    """

    __slots__ = ("base", "before", "call", "topic_id")

    def __init__(self, base: Position, topic_id: UUID, call: Returned, before: Told | None) -> None:
        self.base = base
        self.topic_id = topic_id
        self.call = call
        self.before = before


@dataclass(frozen=True)
class PreferredReplica:
    """A follower to fetch from until `expires_ms` (KIP-392)."""

    node_id: int
    expires_ms: int


class Changes:
    """Records changes of partitions that affect fetching. Writer: the network thread.

    Attributes:
        count: Increases with each change. While it is unchanged, nothing must be checked again.
        states: The partitions that have changed since the fetch manager last cleared this.
    """

    __slots__ = ("count", "states")

    def __init__(self) -> None:
        self.count = 0
        self.states: dict[AssignedPartition, None] = {}

    def note(self, state: AssignedPartition) -> None:
        """Record a change.

        Invariant: called after the change, with a new object as the count. A native loop returns
        records without Python while `count` is the object that it knows.
        """
        self.states[state] = None
        self.count += 1


class _Flag:
    """A condition under which a partition is not returned, or not fetched; setting it is noted."""

    def __set_name__(self, owner: type[AssignedPartition], name: str) -> None:
        self._slot = f"_{name}"

    def __get__(self, partition: AssignedPartition, owner: type[AssignedPartition]) -> bool:
        held: bool = getattr(partition, self._slot)
        return held

    def __set__(self, partition: AssignedPartition, value: bool) -> None:
        setattr(partition, self._slot, value)
        partition.note_flag()


class AssignedPartition(FetchProgress):
    """The state of one partition while it is assigned; each assignment creates a new object."""

    __slots__ = (
        "_awaiting_callback",
        "_changes",
        "_dropped",
        "_paused",
        "_paused_by_workers",
        "_pending_revocation",
        "_stop_at",
        "_unconfirmed",
        "base",
        "consumed",
        "end_offset_asked",
        "errors_put",
        "errors_taken",
        "failing",
        "failures",
        "fetch_bytes",
        "leader_epoch",
        "leader_id",
        "moved_ms",
        "out_of_range_at",
        "preferred_replica",
        "reset_timestamp",
        "retry_at_ms",
        "returnable",
        "slot",
        "state",
        "told",
        "topic_id",
        "tp",
        "wait_for_drain",
    )

    def __init__(self, tp: TopicPartition, changes: Changes | None = None) -> None:
        super().__init__()
        self.tp = tp
        self._changes = changes if changes is not None else Changes()
        # Writer: the network thread.
        self.state = FetchState.INITIALIZING
        self.base: Position | None = None
        #: Whether buffered records may be returned now.
        self.returnable = True
        #: The topic of the base. Invariant: if it is recreated, the base is dropped first and this
        #: changes last. A reader that reads this before the position cannot mix the two topics.
        self.topic_id = NO_TOPIC_ID
        self._paused = self._paused_by_workers = False
        self._pending_revocation = False
        self._awaiting_callback = False
        self._dropped = False
        self._unconfirmed = False
        self.reset_timestamp: int | None = None
        self.leader_id = -1
        self.leader_epoch = UNKNOWN_EPOCH
        #: When a new leader was asked last without a pause.
        self.moved_ms = -MOVED_AGAIN_MS
        self.preferred_replica: PreferredReplica | None = None
        self.wait_for_drain = False
        #: When it is asked for again, and after how many failures in a row.
        self.retry_at_ms = self.failures = 0
        #: Its fetches that fail; None once one has succeeded.
        self.failing: Failing | None = None
        #: A position that the leader has reported as out of range, until reading continues.
        self.out_of_range_at: Position | None = None
        #: Whether a lookup of the end is in progress.
        self.end_offset_asked = False
        self.errors_put = 0
        #: The bytes to request per fetch; 0 while nothing is known about the partition.
        self.fetch_bytes = 0
        self.slot = -1
        #: The offset at which fetching stops, None for no limit.
        self._stop_at: int | None = None
        # Writer: the application thread.
        self.consumed: ConsumedFrom | None = None
        self.told: Told | None = None
        self.errors_taken = 0

    def __repr__(self) -> str:
        position = self.position
        at = "no position" if position is None else f"offset {position.offset}"
        return f"<{self.tp.topic}-{self.tp.partition} {self.state.value}, {at}>"

    # --- read by either thread ---------------------------------------------------------------

    @property
    def position(self) -> Position | None:
        """The position: the base, or how far the application has read from it."""
        base, consumed = self.base, self.consumed
        if consumed is not None and consumed.base is base:
            return consumed.position
        return base

    def end(self, *, read_committed: bool) -> int:
        """Return the offset after the last record that can be fetched; -1 before a response."""
        return self.last_stable_offset if read_committed else self.high_watermark

    @property
    def known(self) -> Told | None:
        """The base that the application knows of; None before the first."""
        told = self.told
        return told if told is None or told.call.done else told.before

    @property
    def has_valid_position(self) -> bool:
        """True if the position is known to be in the partition's log."""
        return self.state is FetchState.FETCHING or self.state is FetchState.AWAIT_DROP

    @property
    def _withheld(self) -> bool:
        return self.on_hold or self._pending_revocation or self._awaiting_callback or self._dropped

    @property
    def on_hold(self) -> bool:
        """Whether the application or its workers have paused it."""
        return self._paused or self._paused_by_workers

    #: Whether the application has paused it.
    paused = _Flag()
    #: Whether workers have paused it. Invariant: a separate flag. With one for both, workers would
    #: resume what the application has paused in the meantime, and the application would end the
    #: limit of the workers.
    paused_by_workers = _Flag()
    #: Whether it is about to be revoked.
    pending_revocation = _Flag()
    #: Whether the listener has not been notified of its assignment yet.
    awaiting_callback = _Flag()
    #: Whether its topic is no longer subscribed, so that the group will revoke it.
    dropped = _Flag()
    #: Whether another member may own it, until the coordinator responds.
    unconfirmed = _Flag()

    @property
    def stop_at(self) -> int | None:
        """The offset at which fetching stops; None for no limit."""
        return self._stop_at

    @stop_at.setter
    def stop_at(self, offset: int | None) -> None:
        self._stop_at = offset
        self._changes.note(self)

    def note_flag(self) -> None:
        """Note that a flag was set."""
        self.returnable = not (self._unconfirmed or self._withheld)
        self._changes.note(self)

    @property
    def held_bytes(self) -> int:
        """The bytes that have been fetched but not released."""
        return self.buffered_bytes - self.released_bytes

    # --- network thread ----------------------------------------------------------------------

    @property
    def fetchable(self) -> bool:
        """True if a fetch may be sent.

        Invariant: also while the partition is unconfirmed. Otherwise nothing would try to reach a
        leader that the hold waits for (`Confirmation`).

        Invariant: a condition notes its changes (`Changes.note`), or counts for
        `waits_for_application`. Otherwise the partition would never be checked again.
        """
        return (
            self.state is FetchState.FETCHING
            and not self._withheld
            and (self._stop_at is None or self.read_ahead < self._stop_at)
            and self.errors_put == self.errors_taken
            and not (self.wait_for_drain and not self._drained())
        )

    @property
    def waits_for_application(self) -> bool:
        """True if the application must take the buffered data before the next fetch."""
        return self.wait_for_drain or self.errors_put != self.errors_taken

    def _drained(self) -> bool:
        position = self.position
        return position is not None and position.offset == self.read_ahead

    def set_position(self, position: Position, *, validate: bool = False) -> None:
        """Set a new base, which invalidates data fetched from the old one.

        Invariant: the base is stored before the state, and the application thread reads the state
        before the base. It therefore never takes an unvalidated position for a valid one.
        """
        self.base = position
        self._move(FetchState.AWAIT_VALIDATION if validate else FetchState.FETCHING)
        self.read_ahead = position.offset
        self.wait_for_drain = False
        self.end_pause()
        self.reset_timestamp = None

    def end_pause(self) -> None:
        """Ask at once, because something else is asked for.

        Invariant: not after failures in a row. Otherwise an application that seeks after each error
        would ask all the time for what is refused.
        """
        if self.failures <= 1:
            self.retry_at_ms = 0

    def leader_moved(self, now_ms: int) -> None:
        """Ask the new leader at once.

        Invariant: once a second. Otherwise brokers that name each other would be asked all the
        time.
        """
        if now_ms - self.moved_ms >= MOVED_AGAIN_MS:
            self.moved_ms, self.retry_at_ms = now_ms, 0

    def drop_read_ahead(self) -> None:
        """Make the position the new base, so that the read-ahead is dropped and fetched again."""
        position = self.position
        if position is not None:
            self.base = Position(position.offset, position.leader_epoch)
            self.read_ahead = position.offset
            self.wait_for_drain = False
            if self.state is FetchState.AWAIT_DROP:
                self.await_validation()
            self._changes.note(self)

    def await_reset(self, timestamp: int) -> None:
        """Drop the position; look it up by `timestamp` (ListOffsets: -1 end, -2 beginning)."""
        self._move(FetchState.AWAIT_RESET)
        self.base = None
        self.preferred_replica = None
        self.reset_timestamp = timestamp
        self.out_of_range_at = None
        self._changes.note(self)  # again: a reader between the two stores has seen the old base

    def await_validation(self) -> None:
        """Keep the position, but fetch nothing until the leader has confirmed it."""
        self._move(FetchState.AWAIT_VALIDATION)
        self.preferred_replica = None

    def await_drop(self) -> None:
        """Keep the position, but fetch nothing until the read-ahead is dropped."""
        self._move(FetchState.AWAIT_DROP)

    def validated(self) -> None:
        """Continue fetching from a confirmed position.

        Invariant: the base does not change, as the application may be returning records from it.
        """
        self._move(FetchState.FETCHING)

    def _move(self, to: FetchState) -> None:
        check_transition(TRANSITIONS, self.state, to)
        self.state = to
        self._changes.note(self)
