"""The loop inside `poll()`, which iteration uses too."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from traceback import walk_stack
from types import CodeType, FrameType
from typing import Any, Final, TypeVar

from tandem_kafka.consumer.background_events import BackgroundEvents
from tandem_kafka.consumer.commits import Commits
from tandem_kafka.consumer.core import Core
from tandem_kafka.consumer.reading.fetch_collector import FetchCollector, collect
from tandem_kafka.consumer.reading.records import ConsumerRecords
from tandem_kafka.consumer.reporters import Reporters
from tandem_kafka.errors import IllegalStateError, KafkaError, WakeupError
from tandem_kafka.events.application import DropReadAhead, Poll
from tandem_kafka.logs import ClientNames, RecentLines, client_logger
from tandem_kafka.metrics import ReaderMeasurements
from tandem_kafka.runtime.callers import Held
from tandem_kafka.state.subscription import SubscriptionKind
from tandem_kafka.types import TopicPartition

log = client_logger(__name__)

F = TypeVar("F", bound=Callable[..., Any])

#: How many lines there may be in an interval: the text of an error of the user's code may have
#: another address or number each time.
MOST_LINES = 10


class RaisedErrors:
    """The errors of `poll()` and iteration. Writer: the reader."""

    def __init__(self, client: ClientNames) -> None:
        self._client = client
        self._lines = RecentLines(MOST_LINES)
        self._count = 0

    def note(self, error: KafkaError, now_ms: int) -> None:
        """Log an error, unless the same one, or many, were logged a short time ago."""
        self._count += 1
        if not self._lines.take((type(error), str(error)), now_ms):
            return
        log.warning(
            "poll() raised an error (%d since the last such line): %s",
            self._count,
            error,
            client=self._client,
        )
        self._count = 0


#: The code of the methods that return records.
_RETURNING: Final[set[CodeType]] = set()
#: `assign()` and `unsubscribe()` call it. A signal handler may poll inside of it.
_PURGE: Final = FetchCollector.purge.__code__


def returning(method: F) -> F:
    """Mark a method that returns records to the application."""
    _RETURNING.add(method.__code__)
    return method


def nested_error() -> IllegalStateError:
    """Return the error of a call that would return what another one has begun with."""
    msg = (
        "poll() was called inside of another poll(), or of assign() or unsubscribe(), by a "
        "deserializer, an interceptor or a signal handler; make the call after it has returned"
    )
    return IllegalStateError(msg)


#: How often a waiting poll() records that the application is alive.
ALIVE_INTERVAL_MS = 1_000


class Polling:
    """What `poll()` of every consumer does besides records.

    Attributes:
        measured: Collects the measurements.
        interval_ms: How long a reader may wait before it polls again.
    """

    __slots__ = (
        "_core",
        "_errors",
        "_event",
        "_looked",
        "_reporters",
        "interval_ms",
        "measured",
    )

    def __init__(self, core: Core, reporters: Reporters) -> None:
        self._core = core
        self._reporters = reporters
        self._errors = RaisedErrors(core.client)
        self._event: Poll | None = None
        self._looked = False
        self.measured = ReaderMeasurements(core.engine.metrics)
        self.interval_ms = max(1, min(ALIVE_INTERVAL_MS, core.config.max_poll_interval_ms // 4))

    def begin(self, now_ms: int) -> None:
        """Measure the time since the last poll()."""
        polls = self._core.engine.polls
        polls.handler_ms = now_ms - polls.polled_ms if polls.polled_ms else 0
        polls.polled_ms = now_ms  # also if this poll() raises
        measured = self.measured
        since_ms = now_ms - measured.polled_ms
        if measured.polled_ms and since_ms > 0:
            measured.note_poll((since_ms, measured.idle_ms))
            if now_ms >= measured.due_ms:
                measured.flush_due(now_ms)
        measured.polled_ms, measured.idle_ms = now_ms, 0

    def returns(self, frame: FrameType) -> bool:
        """Tell whether a stack frame returns records of this consumer to the application."""
        owner = frame.f_locals.get("self") if frame.f_code in _RETURNING else None
        return getattr(getattr(owner, "_parts", None), "poller", None) is self

    async def look(self, held: Held, *, nested: bool = False) -> None:
        """Look at everything besides records; see `Polls.attention`.

        Raises:
            WakeupError: `wakeup()` was called.
            KafkaError: The network thread reported an error, or has ended.
        """
        core = self._core
        # Invariant: a nested poll(), of a listener for example, does not give way: its caller holds
        # the lock twice.
        if core.suspended and not nested:
            await core.give_way(held)
        core.raise_if_woken()
        if not self._looked:
            self._looked = True
            subscription = core.engine.subscription
            if subscription.kind is SubscriptionKind.NONE and not subscription.version:
                log.warning(
                    "poll() returns nothing without a subscription; call subscribe() or assign()",
                    client=core.client,
                )
        await self._process_events()
        self._reporters.report()
        if (fatal := core.engine.group.fatal) is not None:
            raise fatal.with_traceback(None)
        # A listener, a signal handler or another thread may have closed it.
        if core.engine.loop.finished and not (core.closing or core.closed):
            raise core.engine.loop.error()

    async def _process_events(self) -> None:
        """Process what the network thread reports."""
        raise NotImplementedError

    def note_error(self, error: KafkaError) -> None:
        """Note that poll() or iteration raises an error. The application is alive."""
        now_ms = self._core.clock.now_ms()
        self._core.engine.polls.polled_ms = now_ms
        self.tell(now_ms)
        if not isinstance(error, WakeupError):
            self._errors.note(error, now_ms)

    def tell(self, now_ms: int) -> None:
        """Tell the network thread that the application polls, if something waits for it."""
        if self._core.engine.polls.event_needed:
            self._send_event(now_ms)

    def _send_event(self, now_ms: int) -> None:
        if self._event is None or self._event.future.done:
            event = Poll(deadline_ms=now_ms + self._core.config.default_api_timeout_ms)
            self._core.engine.queue.add(event)
            # Stored last: otherwise an interrupt in between would leave an event that is never
            # sent but prevents all later ones.
            self._event = event


class Poller(Polling):
    """Collects fetched records, or waits for them."""

    __slots__ = (
        "_answered",
        "_background",
        "_collector",
        "_looking",
        "_max_bytes",
        "_quiet_changes",
        "commits",
    )

    def __init__(
        self,
        core: Core,
        commits: Commits,
        collector: FetchCollector,
        background: BackgroundEvents,
        reporters: Reporters,
    ) -> None:
        super().__init__(core, reporters)
        self.commits = commits
        self._collector = collector
        self._max_bytes = collector.max_bytes
        self._background = background
        #: Whether the innermost poll() is before its collection: listeners and callbacks may poll.
        self._looking = False
        #: `Polls.attention` at the beginning of the last look that left nothing undone.
        self._answered: object = None
        #: The count of changes at which no event is needed: one was sent, or all can be fetched.
        self._quiet_changes = -1

    async def poll(
        self,
        deadline_ms: int,
        max_records: int,
        held: Held,
        *,
        raw: bool = False,
        max_bytes: int | None = None,
        begun: bool = False,
    ) -> ConsumerRecords:
        """Return records as soon as there are any; empty at the deadline or once closed.

        Args:
            deadline_ms: When to stop waiting for the first record.
            max_records: Maximum number of records.
            held: The lock that makes this caller the reader.
            raw: Whether iteration deserializes the records.
            max_bytes: A smaller limit than usual.
            begun: Whether `UsualReading` has begun this call.

        Raises:
            WakeupError: `wakeup()` was called.
            IllegalStateError: Another call is about to return the same records.
            KafkaError: The network thread reported an error, or the next record cannot be read.
        """
        core, collector = self._core, self._collector
        outer = None if core.reader is None else core.outer_reader
        nested = outer is not None
        looking = (
            self._looking or collector.busy or not collector.publication.done
        ) and self._is_outer_looking()
        try:
            core.reader = core.callers.current()
            self._looking = False
            now_ms = core.clock.now_ms()
            if not begun:
                self.begin(now_ms)
            if now_ms >= self.commits.auto_commit_ms:
                self.commits.auto_commit(now_ms)
            collects = partial(self._collect, max_records, raw, max_bytes)
            return await self._next(now_ms, deadline_ms, collects, held, nested=nested)
        except KafkaError as error:
            self.note_error(error)
            raise
        finally:
            self._looking = looking
            core.reader = outer

    def _collect(self, max_records: int, raw: bool, max_bytes: int | None) -> ConsumerRecords:
        # Invariant: set directly before the collection, and restored. While this call waits, others
        # may collect, and a signal handler may between the stores and the collection.
        collector = self._collector
        before = collector.raw, collector.max_bytes
        try:
            collector.raw = raw
            collector.max_bytes = self._max_bytes if max_bytes is None else max_bytes
            return collect(collector, max_records)
        finally:
            collector.raw, collector.max_bytes = before

    async def _next(
        self,
        now_ms: int,
        deadline_ms: int,
        collects: Callable[[], ConsumerRecords],
        held: Held,
        *,
        nested: bool,
    ) -> ConsumerRecords:
        core, collector = self._core, self._collector
        polls, buffer = core.engine.polls, core.engine.buffer
        queue, changes = buffer.queue, core.engine.subscription.changes
        while True:
            # The usual way is straight down: nothing but records needs attention.
            attention = polls.attention
            full = queue.added_bytes - queue.released_bytes >= buffer.limit_bytes
            if attention is not self._answered or full:
                await self._answer(attention, held, nested=nested)
                if core.closed or core.engine.loop.finished:
                    return ConsumerRecords()
                now_ms = core.clock.now_ms()
            added = queue.added
            batch = collects()
            if collector.deserializing:
                now_ms = core.clock.now_ms()
            polls.polled_ms = now_ms
            if changes.count != self._quiet_changes or polls.event_needed:
                self.tell(now_ms)
            if batch or collector.moved or now_ms >= deadline_ms:
                return batch
            until_ms = min(deadline_ms, now_ms + self.interval_ms)
            await core.callers.wait(
                lambda added=added, attention=attention: (  # type: ignore[misc]
                    queue.added != added or polls.attention is not attention
                ),
                until_ms,
            )
            began_ms, now_ms = now_ms, core.clock.now_ms()
            self.measured.idle_ms += now_ms - began_ms

    def _is_outer_looking(self) -> bool:
        """Tell whether this call is made by a listener or callback of another one.

        Raises:
            IllegalStateError: The calling thread is inside another call that has begun to collect.
                Tasks cannot be: nothing is awaited from there on.
        """
        core = self._core
        if self._looking and core.reader is not None:
            return True
        if (
            self._collector.unpublished
            and not core.callers.cancellable
            and sum(self._collects(frame) for frame, _ in walk_stack(None)) > 1
        ):
            raise nested_error()
        return False

    def _collects(self, frame: FrameType) -> bool:
        """Tell whether a stack frame returns records, or belongs to `FetchCollector.purge`."""
        purges = frame.f_code is _PURGE and frame.f_locals.get("self") is self._collector
        return purges or self.returns(frame)

    async def _answer(self, attention: object, held: Held, *, nested: bool) -> None:
        core = self._core
        self._looking = True
        try:
            await self.look(held, nested=nested)
        finally:
            self._looking = False
        if core.closed:
            return
        if partitions := self._collector.to_drop():
            await self._drop(partitions)
        # What is left is for the next look: an outer poll() is suspended, or another thread
        # runs callbacks, and may be interrupted.
        # Invariant: a nested poll() leaves it to the outer one, which may be interrupted before it
        # has reported that the listener's call is complete.
        if not (nested or core.suspended or self.commits.waiting):
            self._answered = attention

    async def _process_events(self) -> None:
        self.commits.run_callbacks()
        if len(self._background):
            await self._background.process()

    async def _drop(self, partitions: frozenset[TopicPartition]) -> None:
        """Drop records that other partitions need the room of, or that are to be fetched again.

        Invariant: called and awaited before records are collected. The network thread makes the
        positions new bases, so none may be about to move, nor move meanwhile: a signal handler
        cannot poll.
        """
        collector, deadline_ms = self._collector, self._core.deadline_ms(None)
        collector.busy = True
        try:
            await self._core.ask(DropReadAhead(deadline_ms=deadline_ms, partitions=partitions))
        finally:
            collector.busy = False
        collector.purge()

    def tell(self, now_ms: int) -> None:
        """Tell the network thread that the application polls, if something waits for it.

        While all partitions can be fetched, no event is sent. This saves a wakeup of the network
        thread and a handover of the GIL for each poll(). If positions must be looked up, one
        event is enough.
        """
        engine = self._core.engine
        changes = engine.subscription.changes.count  # read first: a later change is seen next time
        if not engine.polls.event_needed:
            if changes == self._quiet_changes:
                return
            if engine.subscription.all_settled():
                self._quiet_changes = changes
                return
        if self._event is None or self._event.future.done:
            self._send_event(now_ms)
            self._quiet_changes = changes
