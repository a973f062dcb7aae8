"""Iteration (`for record in consumer`): each record moves the position.

The native `Loop` returns the records of a `Feed` without running Python code. It calls `_find_feed`
when it has no feed, and when a change may prevent it from returning the next record.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from tandem_kafka.consumer.reading.deserializers import Deserializers
from tandem_kafka.consumer.reading.publication import Handed, Publication
from tandem_kafka.consumer.reading.records import ConsumerRecords
from tandem_kafka.errors import KafkaError
from tandem_kafka.runtime.native import native
from tandem_kafka.state.partition import AssignedPartition, Consumed, Position
from tandem_kafka.state.subscription import SubscriptionState
from tandem_kafka.types import ConsumerRecord

#: A clock, and its time from which on a feed is not followed.
Until = tuple[Callable[[], int], int]


class Feed(Protocol):
    """Records of one partition, and how many of them the loop has returned."""

    @property
    def given(self) -> int:
        """The number of records that the loop has returned."""
        ...

    @property
    def stopped(self) -> bool:
        """Whether the loop returns no further record."""
        ...

    def __len__(self) -> int:
        """Return the number of all records."""
        ...

    def place_of(self, index: int) -> tuple[int, int]:
        """Return the offset and the leader epoch of a record."""
        ...

    def stop(self) -> None:
        """Return no further record."""
        ...


def feed_of(records: Sequence[ConsumerRecord]) -> Feed:
    """Return a feed of records, to which nothing else refers."""
    if native is None:
        return PythonFeed(records)
    feed: Feed = native.Feed(records if type(records) in _NATIVE_FEED_TYPES else list(records))
    return feed


class PythonFeed:
    """Implements `Feed` in Python, for `PythonLoop`.

    Attributes:
        records: All records.
        given: The number of records that the loop has returned. Storing it moves the position.
            Writer: the application thread.
        stopped: Whether the loop must return no further record.
    """

    __slots__ = ("given", "records", "stopped")

    def __init__(self, records: Sequence[ConsumerRecord]) -> None:
        self.records = list(records)
        self.given = 0
        self.stopped = False

    def __len__(self) -> int:
        return len(self.records)

    def place_of(self, index: int) -> tuple[int, int]:
        """Return the offset and the leader epoch of a record."""
        record = self.records[index]
        return record.offset, record.leader_epoch

    def stop(self) -> None:
        """Return no further record."""
        self.stopped = True


class PythonLoop:
    """Implements the native `Loop` in Python: a consumer's iteration over records."""

    _find_feed: Callable[[], None]

    def __new__(cls, *_arguments: Any, **_options: Any) -> Self:
        """Start without records; the arguments are those of the constructor."""
        made = super().__new__(cls)
        made._current = None
        return made

    _current: tuple[PythonFeed, Any, object] | None

    def __iter__(self) -> Self:
        """Iterate over records; stop after `consumer_timeout_ms` without a record."""
        return self

    def __next__(self) -> ConsumerRecord[Any, Any]:
        """Return the next record and move the position past it."""
        while True:
            # Called for each record, to detect a fork, a closed consumer, another thread, or the
            # time until which the feed may be followed.
            self._find_feed()
            if self._current is not None:
                feed, changes, seen = self._current
                count = len(feed.records)
                # Invariant: nothing is called from here on. A signal handler would iterate or poll.
                given = feed.given
                if changes.count == seen and not feed.stopped and given < count:
                    record = feed.records[given]
                    # Invariant: this store moves the position, and directly precedes the return.
                    feed.given = given + 1
                    return record

    def _follow(self, feed: Any, changes: Any, seen: object, _until: Until | None = None) -> None:
        """Return the records of `feed` while `changes.count` is `seen`; see `_find_feed`."""
        self._current = (feed, changes, seen)


if TYPE_CHECKING or native is None:  # noqa: SIM108 - a type checker sees a class
    Loop = PythonLoop
else:
    Loop = native.Loop

#: The types of records that a native feed accepts.
_NATIVE_FEED_TYPES: Final = {list} if native is None else {list, native.Records}

#: Calls `Loop._follow`.
Follow = Callable[..., None]


class IteratedRecords:
    """Records of one partition that iteration returns one by one.

    During iteration it is the partition's `consumed`. It creates a `Position` only when one is
    requested, so that a record does not cost one.
    """

    __slots__ = ("_cached", "base", "feed", "handed", "state", "version")

    def __init__(self, state: AssignedPartition, handed: Handed, feed: Feed) -> None:
        self.state = state
        self.handed = handed
        self.base = handed.base
        self.feed = feed
        #: The version of the subscription in which the partition was last found assigned.
        self.version = -1
        self._cached = (0, handed.before)

    @property
    def position(self) -> Position:
        """The current position; the same object until the next record is returned."""
        # Invariant: read first, so that no record was returned after this one. Both threads ask.
        made, position = self._cached
        given = self.feed.given
        if made != given:
            position = self._position(given)
            self._cached = (given, position)
        return position

    def _position(self, given: int) -> Position:
        if given == len(self.feed):
            return self.handed.after
        offset, leader_epoch = self.feed.place_of(given - 1)
        return Position(offset + 1, leader_epoch)


class Iteration:
    """Returns records one by one where poll() would return them all at once.

    Only records that the loop has returned are covered by a commit. A later poll() starts with
    the remaining ones.
    """

    def __init__(
        self,
        subscription: SubscriptionState,
        deserializers: Deserializers | None = None,
        note_error: Callable[[KafkaError], None] = lambda _: None,
        cancellations: Callable[[], int] | None = None,
    ) -> None:
        """Start without records.

        Args:
            subscription: The assigned partitions.
            deserializers: For records that have not been deserialized yet.
            note_error: Notes the error of a deserializer.
            cancellations: Counts the cancellations of the calling task; None for threads.
        """
        self._subscription = subscription
        self._watch = None if cancellations is None else partial(self._watched, cancellations)
        self._deserializers = deserializers
        self._note_error = note_error
        #: What has been collected and not returned.
        self.runs: deque[IteratedRecords] = deque()

    def add(self, batch: ConsumerRecords, publication: Publication) -> None:
        """Take over a batch instead of returning it."""
        for tp, records in batch.items():
            state = self._subscription.assigned.get(tp)
            handed = state.consumed if state is not None else None
            if state is not None and isinstance(handed, Handed) and len(records):
                run = IteratedRecords(state, handed, self.feed(records))
                state.consumed = run
                self.runs.append(run)
        # Runs have their own positions. This store moves the partitions that returned no records.
        publication.done = True

    def feed(self, records: Sequence[ConsumerRecord]) -> Feed:
        """Return a feed of records, which deserializes them if that is left to the loop."""
        deserializers = self._deserializers
        if native is None or type(records) is not native.Records or deserializers is None:
            return feed_of(records)
        feed: Feed = deserializers.feed(records, self._note_error, self._watch)
        return feed

    def _watched(
        self, cancellations: Callable[[], int], deserialize: Callable[..., Any]
    ) -> Callable[..., Any]:
        """Return a deserializer that ends the iteration if its task is cancelled meanwhile.

        The task then receives the cancellation before the record, which is collected again.
        """

        def called(*arguments: Any) -> Any:
            requests = cancellations()
            made = deserialize(*arguments)
            if cancellations() != requests:
                self.end()
            return made

        return called

    def ready(self) -> IteratedRecords | None:
        """Return the run with the next record, or None if there is none."""
        for _ in range(len(self.runs)):
            run = self._first()
            if run is None:
                break
            if run.feed.stopped or run.feed.given == len(run.feed) or not self._valid(run):
                self._drop(run)
            elif not run.state.returnable:
                self.runs.rotate(-1)  # paused: its remaining records wait
            else:
                return run
        return None

    def end(self) -> None:
        """End the iteration; poll() continues where it stopped."""
        while (run := self._first()) is not None:
            self._drop(run)

    def _first(self) -> IteratedRecords | None:
        """Return the first run. A signal handler may end the iteration between any two calls."""
        try:
            return self.runs[0]
        except IndexError:
            return None

    def _drop(self, run: IteratedRecords) -> None:
        _end(run)
        try:  # noqa: SIM105 - a context manager takes three calls
            self.runs.remove(run)
        except ValueError:  # a signal handler has done it
            pass

    def _valid(self, run: IteratedRecords) -> bool:
        """Tell whether no seek, rebalance or poll() has invalidated the run."""
        state, subscription = run.state, self._subscription
        if state.base is not run.base or state.consumed is not run:
            return False
        version = subscription.version
        if version != run.version:
            if subscription.assigned.get(state.tp) is not state:
                return False
            run.version = version
        return True


def _end(run: IteratedRecords) -> None:
    """Drop the remaining records and keep the position."""
    # Invariant: stopped before the position is read, so that no further record is returned.
    run.feed.stop()
    # Invariant: an interrupted `add` has not published it.
    whole = run.feed.given == len(run.feed) and run.handed.publication.done
    consumed = run.handed if whole else Consumed(run.base, run.position)
    # Invariant: nothing is called in between. A signal handler that polls moves the position.
    if run.state.consumed is run:
        run.state.consumed = consumed
