"""The loop inside `poll()`, which iteration uses too."""

from __future__ import annotations

from tandem_kafka.consumer.background_events import BackgroundEvents
from tandem_kafka.consumer.collector import Collector
from tandem_kafka.consumer.commits import Commits
from tandem_kafka.consumer.core import Core
from tandem_kafka.consumer.records import ConsumerRecords
from tandem_kafka.consumer.reporters import Reporters
from tandem_kafka.errors import KafkaError, WakeupError
from tandem_kafka.events.application import DropReadAhead, Poll
from tandem_kafka.logs import ClientNames, client_logger
from tandem_kafka.runtime.callers import Held
from tandem_kafka.types import TopicPartition

log = client_logger(__name__)

#: How often an error that is raised again and again is logged.
INTERVAL_MS = 60_000
#: How many lines there may be in that time: the text of an error of the user's code may have
#: another address or number each time.
MOST_LINES = 10


class RaisedErrors:
    """The errors of `poll()` and iteration. Writer: the reader."""

    def __init__(self, client: ClientNames) -> None:
        self._client = client
        self._last: KafkaError | None = None
        self._logged_ms = self._interval_began_ms = 0
        self._count = self._lines = 0

    def note(self, error: KafkaError, now_ms: int) -> None:
        """Log an error, unless the same one, or many, were logged a short time ago."""
        self._count += 1
        if now_ms - self._interval_began_ms >= INTERVAL_MS:
            self._interval_began_ms, self._lines = now_ms, 0
        again = error == self._last and now_ms - self._logged_ms < INTERVAL_MS
        if again or self._lines >= MOST_LINES:
            return
        self._lines += 1
        log.warning(
            "poll() raises an error, one of %d since the last such line: %s",
            self._count,
            error,
            client=self._client,
        )
        self._last, self._logged_ms, self._count = error, now_ms, 0


#: How often a waiting poll() records that the application is alive.
ALIVE_INTERVAL_MS = 1_000


class Poller:
    """Collects fetched records, or waits for them.

    Attributes:
        interval_ms: How long a reader may wait before it polls again.
    """

    def __init__(
        self,
        core: Core,
        commits: Commits,
        collector: Collector,
        background: BackgroundEvents,
        reporters: Reporters,
    ) -> None:
        self._core = core
        self._commits = commits
        self._collector = collector
        self._background = background
        self._reporters = reporters
        self._errors = RaisedErrors(core.client)
        self._event: Poll | None = None
        #: The count of changes at the time of the last event.
        self._sent_changes = -1
        self._polled_ms = 0
        self._idle_ms = 0
        self.interval_ms = max(1, min(ALIVE_INTERVAL_MS, core.config.max_poll_interval_ms // 4))

    async def poll(self, deadline_ms: int, max_records: int, held: Held) -> ConsumerRecords:
        """Return records as soon as there are any; empty at the deadline or once closed.

        Args:
            deadline_ms: When to stop waiting for the first record.
            max_records: Maximum number of records.
            held: The lock that makes this caller the reader.

        Raises:
            WakeupError: `wakeup()` was called.
            KafkaError: The network thread reported an error, or the next record cannot be read.
        """
        core, commits = self._core, self._commits
        outer = core.outer_reader
        try:
            core.reader = core.callers.current()
            now_ms = core.clock.now_ms()
            self._note_poll(now_ms)
            commits.auto_commit(now_ms)
            while True:
                # Invariant: a nested poll(), of a listener for example, does not give way: its
                # caller holds the lock twice.
                if core.visited and outer is None:
                    await core.give_way(held)
                core.raise_if_woken()
                commits.run_callbacks()
                if len(self._background):
                    await self._background.process()
                self._reporters.report()
                self._raise_fatal()
                if core.closed:
                    return ConsumerRecords()  # a listener, signal handler or other thread closed it
                if partitions := self._collector.paused_over_budget():
                    await self._make_room(partitions)
                seen = core.engine.buffer.added
                batch = self._collector.collect(max_records)
                now_ms = core.clock.now_ms()
                self._note_alive(now_ms)
                if batch or batch.next_offsets or now_ms >= deadline_ms:
                    return batch
                await self._wait(seen, min(deadline_ms, now_ms + self.interval_ms))
                self._idle_ms += core.clock.now_ms() - now_ms
        except KafkaError as error:
            self.note_error(error)
            raise
        finally:
            core.reader = outer

    def _raise_fatal(self) -> None:
        fatal = self._core.engine.group.fatal
        if fatal is not None:
            raise fatal.with_traceback(None)

    def note_error(self, error: KafkaError) -> None:
        """Note that poll() or iteration raises an error. The application is alive."""
        now_ms = self._core.clock.now_ms()
        self._note_alive(now_ms)
        if not isinstance(error, WakeupError):
            self._errors.note(error, now_ms)

    async def _make_room(self, partitions: frozenset[TopicPartition]) -> None:
        """Drop records of paused partitions, because other partitions need the room.

        Invariant: called and awaited before records are collected. The network thread makes the
        positions new bases, so none may be about to move.
        """
        deadline_ms = self._core.deadline_ms(None)
        await self._core.ask(DropReadAhead(deadline_ms=deadline_ms, partitions=partitions))
        self._collector.purge()

    async def _wait(self, seen: int, deadline_ms: int) -> None:
        engine = self._core.engine

        def news() -> bool:
            return (
                engine.buffer.added != seen
                or len(self._background) > 0
                or self._commits.waiting
                or self._core.visited
            )

        await self._core.wait(news, deadline_ms)

    def _note_alive(self, now_ms: int) -> None:
        """Record that the application polls; send an event only if something waits for it.

        While all partitions can be fetched, no event is sent. This saves a wakeup of the network
        thread and a handover of the GIL for each poll(). If positions must be looked up, one
        event is enough.
        """
        engine = self._core.engine
        engine.polls.polled_ms = now_ms
        changes = engine.subscription.changes.count
        news = changes != self._sent_changes and not engine.subscription.all_settled()
        if (news or engine.polls.event_needed) and (self._event is None or self._event.future.done):
            event = Poll(deadline_ms=now_ms + self._core.config.default_api_timeout_ms)
            engine.queue.add(event)
            # Stored last: otherwise an interrupt in between would leave an event that is never
            # sent but prevents all later ones.
            self._event = event
            self._sent_changes = changes

    def _note_poll(self, now_ms: int) -> None:
        """Measure the time since the last poll(), and the share of it spent waiting."""
        polls, since_ms = self._core.engine.polls, now_ms - self._polled_ms
        polls.handler_ms = now_ms - polls.polled_ms if polls.polled_ms else 0
        polls.polled_ms = now_ms  # also if this poll() raises
        if self._polled_ms and since_ms > 0:
            self._core.engine.metrics.record("time-between-poll", since_ms)
            self._core.engine.metrics.record("poll-idle", min(1.0, self._idle_ms / since_ms))
        self._polled_ms, self._idle_ms = now_ms, 0

    def note_records(self, batch: ConsumerRecords) -> None:
        """Measure records that are handed out."""
        metrics, assigned = self._core.engine.metrics, self._core.engine.subscription.assigned
        for tp, records in batch.items():
            metrics.record("records", len(records))
            metrics.record_topic("records", tp.topic, len(records))
            state, end = assigned.get(tp), batch.next_offsets.get(tp)
            if state is not None and end is not None and state.high_watermark >= 0:
                metrics.record("records-lag", max(0, state.high_watermark - end.offset))
