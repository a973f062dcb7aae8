"""`for record in consumer`: one record at a time, the position moving with each.

The native `Loop` hands out the records of a `Feed` without running Python. It comes here, by
`_find_feed`, when there is none, and when something has changed that may keep the next record back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from tandem_kafka.consumer.deserializers import Deserializers
from tandem_kafka.consumer.publication import Handed, Publication
from tandem_kafka.consumer.records import ConsumerRecords
from tandem_kafka.native import native
from tandem_kafka.shared.partition import AssignedPartition, Changes, Consumed, Position
from tandem_kafka.shared.subscription import SubscriptionState
from tandem_kafka.types import ConsumerRecord

__all__ = ["Feed", "Iteration", "Loop", "PythonFeed", "PythonLoop", "Run"]


class Feed(Protocol):
    """Records of one partition, and how many of them the loop was given."""

    @property
    def given(self) -> int:
        """How many records the loop was given."""
        ...

    def __len__(self) -> int:
        """Return how many there are."""
        ...

    def place_of(self, index: int) -> tuple[int, int]:
        """Return the offset and the leader epoch of a record."""
        ...

    def stop(self) -> None:
        """Give no further record."""
        ...


class PythonFeed:
    """What the native `Feed` is, for `PythonLoop`.

    Attributes:
        records: All of them.
        given: How many the loop was given. The one store that moves the position.
        stopped: No further record is given.
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
        """Give no further record."""
        self.stopped = True


class PythonLoop:
    """What the native `Loop` is: the part of a consumer that hands out records in a loop."""

    _find_feed: Callable[[], None]

    def __new__(cls, *_arguments: Any, **_options: Any) -> Self:
        """Begin without records; the arguments are the constructor's."""
        made = super().__new__(cls)
        made._current = None
        return made

    _current: tuple[PythonFeed, Changes, int] | None

    def __iter__(self) -> Self:
        """Iterate over records; ends after `consumer_timeout_ms` without one."""
        return self

    def __next__(self) -> ConsumerRecord[Any, Any]:
        """Return the next record; the position moves behind it."""
        while True:
            # For each record, so that a fork, a closed consumer and another thread are noticed.
            self._find_feed()
            if self._current is not None:
                feed, changes, seen = self._current
                given = feed.given
                if changes.count == seen and not feed.stopped and given < len(feed.records):
                    record = feed.records[given]
                    feed.given = given + 1  # with nothing but the return behind it
                    return record

    def _follow(self, feed: Any, changes: Changes, seen: int) -> None:
        """Take records from `feed` as long as `changes.count` is `seen`."""
        self._current = (feed, changes, seen)


if TYPE_CHECKING or native is None:  # noqa: SIM108 - a type checker sees a class
    Loop = PythonLoop
else:
    Loop = native.Loop

#: What a native feed is made of.
_NATIVE_FEED_TYPES: Final = {list} if native is None else {list, native.Records}


class Run:
    """Records of one partition that the loop is given one by one.

    The partition's `consumed` meanwhile, so that a record costs no new position: `position` is
    made when it is asked for.
    """

    __slots__ = ("_cached", "base", "feed", "handed", "state", "version")

    def __init__(self, state: AssignedPartition, handed: Handed, feed: Feed) -> None:
        self.state = state
        self.handed = handed
        self.base = handed.base
        self.feed = feed
        #: The version of the subscription in which the partition was last seen to be ours.
        self.version = -1
        self._cached = (0, handed.before)

    @property
    def position(self) -> Position:
        """Where the loop is; the same object until it moves on."""
        given = self.feed.given
        made, position = self._cached
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
    """Records that poll() would have returned at once, and that the loop is given one by one.

    Only what the loop has been given counts as returned, so a commit covers no more, and poll()
    begins with the rest.
    """

    def __init__(
        self, subscription: SubscriptionState, deserializers: Deserializers | None = None
    ) -> None:
        self._subscription = subscription
        #: For records that come as they were received.
        self._deserializers = deserializers
        self._runs: deque[Run] = deque()

    def add(self, batch: ConsumerRecords, publication: Publication) -> None:
        """Take over a batch, in place of returning it."""
        for tp, records in batch.items():
            state = self._subscription.assigned.get(tp)
            handed = state.consumed if state is not None else None
            if state is not None and isinstance(handed, Handed) and len(records):
                run = Run(state, handed, self._feed(records))
                state.consumed = run
                self._runs.append(run)
        # The runs have positions of their own; this moves partitions without records to give.
        publication.done = True

    def _feed(self, records: Sequence[ConsumerRecord]) -> Feed:
        deserializers = self._deserializers
        if native is None:
            return PythonFeed(records)
        if type(records) is native.Records and deserializers is not None:
            feed: Feed = deserializers.feed(records)
        else:
            feed = native.Feed(records if type(records) in _NATIVE_FEED_TYPES else list(records))
        return feed

    def ready(self) -> Run | None:
        """Return the run whose next record is due, None when there is none."""
        runs = self._runs
        for _ in range(len(runs)):
            run = runs[0]
            if run.feed.given == len(run.feed) or not self._valid(run):
                _end(run)
                runs.popleft()
            elif not run.state.returnable:
                runs.rotate(-1)  # paused: what is left waits
            else:
                return run
        return None

    def end(self) -> None:
        """The user goes on with poll(), which begins where the loop has stopped."""
        while self._runs:
            _end(self._runs[0])
            self._runs.popleft()

    def _valid(self, run: Run) -> bool:
        """Tell whether no seek, no rebalance and no poll() has come in between."""
        state, subscription = run.state, self._subscription
        if state.base is not run.base or state.consumed is not run:
            return False
        version = subscription.version
        if version != run.version:
            if subscription.assigned.get(state.tp) is not state:
                return False
            run.version = version
        return True


def _end(run: Run) -> None:
    """Leave the position where it is, without the records."""
    run.feed.stop()  # before the position is read: no record goes out behind it
    if run.state.consumed is run:
        run.state.consumed = Consumed(run.base, run.position)
