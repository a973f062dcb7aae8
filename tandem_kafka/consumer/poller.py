"""The loop inside `poll()`, and iteration over single records."""

from __future__ import annotations

from tandem_kafka.consumer.background_events import BackgroundEvents
from tandem_kafka.consumer.collector import Collector
from tandem_kafka.consumer.commits import Commits
from tandem_kafka.consumer.core import Core
from tandem_kafka.consumer.records import ConsumerRecords
from tandem_kafka.consumer.reporters import Reporters
from tandem_kafka.events.application import DropReadAhead, Poll
from tandem_kafka.runtime import Held, thread_id

__all__ = ["ALIVE_INTERVAL_MS", "Poller"]

#: While poll() waits, it notes this often that the application is alive.
ALIVE_INTERVAL_MS = 1_000


class Poller:
    """Collects what has been fetched, or waits for it."""

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
        self._event: Poll | None = None
        #: What had changed when the last event was sent.
        self._sent_changes = -1
        self._polled_ms = 0
        self._idle_ms = 0
        self._interval_ms = max(1, min(ALIVE_INTERVAL_MS, core.config.max_poll_interval_ms // 4))

    def poll(self, deadline_ms: int, max_records: int, held: Held) -> ConsumerRecords:
        """Return records as soon as there are any; empty at the deadline, and when closed.

        Args:
            deadline_ms: When to stop waiting for the first record.
            max_records: How many to return at most.
            held: By what this thread is the reader.

        Raises:
            WakeupError: `wakeup()` was called.
            KafkaError: What the network thread has to tell, or the next record cannot be read.
        """
        core = self._core
        outer = core.reader
        try:
            core.reader = thread_id()
            return self._poll(deadline_ms, max_records, held if outer is None else None)
        finally:
            core.reader = outer

    def _poll(self, deadline_ms: int, max_records: int, held: Held | None) -> ConsumerRecords:
        self._note_poll()
        self._commits.auto_commit(self._core.clock.now_ms())
        while True:
            if held is not None and self._core.visited:
                self._core.give_way(held)
            self._core.raise_if_woken()
            self._commits.run_callbacks()
            self._background.process()
            self._reporters.report()
            fatal = self._core.engine.group.fatal
            if fatal is not None:
                raise fatal.with_traceback(None)
            if self._core.closed:
                return ConsumerRecords()  # by a listener, a signal handler or another thread
            self._make_room()
            seen = self._core.engine.buffer.added
            batch = self._collector.collect(max_records)
            now_ms = self._core.clock.now_ms()
            self._note_alive(now_ms)
            if batch or batch.next_offsets or now_ms >= deadline_ms:
                self._note_records(batch)
                return batch
            self._wait(seen, min(deadline_ms, now_ms + self._interval_ms))
            self._idle_ms += self._core.clock.now_ms() - now_ms

    def _make_room(self) -> None:
        """Drop what paused partitions hold, if others have no room for it.

        Before records are collected, when no position is about to move: the network thread takes
        the positions as they are.
        """
        partitions = self._collector.paused_over_budget()
        if partitions:
            deadline_ms = self._core.deadline_ms(None)
            self._core.ask(DropReadAhead(deadline_ms=deadline_ms, partitions=partitions))
            self._collector.purge()

    def _wait(self, seen: int, deadline_ms: int) -> None:
        engine = self._core.engine

        def news() -> bool:
            return (
                engine.buffer.added != seen
                or len(self._background) > 0
                or self._commits.waiting
                or self._core.visited
            )

        self._core.wait(news, deadline_ms)

    def _note_alive(self, now_ms: int) -> None:
        """Note that the application polls; send an event if something has to get going for it.

        While all can be read none is sent, which saves the network thread a wake-up, and the GIL
        a hand-over, for each poll(). Of partitions that are being looked up it is told once.
        """
        engine = self._core.engine
        engine.polls.polled_ms = now_ms
        changes = engine.subscription.changes.count
        news = changes != self._sent_changes and not engine.subscription.all_settled()
        if (news or engine.polls.event_needed) and (self._event is None or self._event.future.done):
            event = Poll(deadline_ms=now_ms + self._core.config.default_api_timeout_ms)
            engine.queue.add(event)
            # Noted last: were it the other way round, an interrupt in between would leave an event
            # that is never sent and keeps all others back.
            self._event = event
            self._sent_changes = changes

    def _note_poll(self) -> None:
        """Measure the time since the last poll(), and how much of it went by waiting."""
        now_ms = self._core.clock.now_ms()
        since_ms = now_ms - self._polled_ms
        if self._polled_ms and since_ms > 0:
            self._core.engine.metrics.record("time-between-poll", since_ms)
            self._core.engine.metrics.record("poll-idle", min(1.0, self._idle_ms / since_ms))
        self._polled_ms, self._idle_ms = now_ms, 0

    def _note_records(self, batch: ConsumerRecords) -> None:
        metrics, assigned = self._core.engine.metrics, self._core.engine.subscription.assigned
        for tp, records in batch.items():
            metrics.record("records", len(records))
            metrics.record_topic("records", tp.topic, len(records))
            state, end = assigned.get(tp), batch.next_offsets.get(tp)
            if state is not None and end is not None and state.high_watermark >= 0:
                metrics.record("records-lag", max(0, state.high_watermark - end.offset))
