"""Reading records: batches, Arrow record batches, and the feeds of iteration."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tandem_kafka.consumer.arguments import check_arrow_usable, check_limit
from tandem_kafka.consumer.concurrent_calls import WithCore
from tandem_kafka.consumer.core import Core, guarded
from tandem_kafka.consumer.reading.arrow_form import ArrowForm
from tandem_kafka.consumer.reading.deserializers import Deserializers
from tandem_kafka.consumer.reading.fetch_collector import FetchCollector, usual_case
from tandem_kafka.consumer.reading.interceptors import Interceptors
from tandem_kafka.consumer.reading.iteration import Follow, IteratedRecords, Iteration
from tandem_kafka.consumer.reading.poller import Poller
from tandem_kafka.consumer.reading.publication import Publication
from tandem_kafka.consumer.reading.records import ConsumerRecords
from tandem_kafka.errors import ConsumerClosedError, RecordDeserializationError
from tandem_kafka.events.completable import NO_DEADLINE_MS
from tandem_kafka.logs import client_logger
from tandem_kafka.records import Undecodable
from tandem_kafka.runtime import green
from tandem_kafka.runtime.callers import Held, Holding, run
from tandem_kafka.runtime.clock import nanoseconds_of
from tandem_kafka.runtime.native import native
from tandem_kafka.runtime.process import PROCESS
from tandem_kafka.state.subscription import SubscriptionKind

if TYPE_CHECKING:
    import pyarrow as pa

    from tandem_kafka._native import UsualReading


log = client_logger(__name__)

#: Iteration creates records in advance. A larger batch would use more memory without any gain.
MAX_RUN_RECORDS = 1_000
#: For calls without a time limit.
ENDLESS_MS = 2**40
#: How often `fill` counts the records that have arrived, at most. Without the native extension,
#: each count deserializes them.
_COUNTS, _COSTLY_COUNTS = 50, 4
#: How long `fill` may wait for more records before it processes a rebalance.
MAX_PAUSE_MS = 100
#: The most bytes of records in a record batch. For larger columns, the system provides new memory
#: each time, which takes as long as to fill it.
_ARROW_BYTES = 8 << 20

#: `Reading.poll` and `Reading.find_feed`, which are run to their ends.
PollNow = Callable[[float, int | None], tuple[ConsumerRecords[Any, Any], Publication]]
FindFeedNow = Callable[[Follow], bool]

#: A call that `UsualReading` has begun: the lock, and when its timeout ends.
Begun = tuple[Held, int]


class Reading(WithCore):
    """Each call returns records with the publication that moves their positions.

    The caller must set `publication.done` directly before it returns the records to the user. An
    interrupt or a cancellation before that moves no position.
    """

    def __init__(
        self,
        core: Core,
        poller: Poller,
        collector: FetchCollector,
        deserializers: Deserializers,
        interceptors: Interceptors,
    ) -> None:
        self._core = core
        self._poller = poller
        self._collector = collector
        self._interceptors = interceptors
        self._idle_ms = core.config.consumer_timeout_ms
        self._endless = self._idle_ms is None or self._idle_ms < 0
        self._run_records = min(core.config.max_poll_records, MAX_RUN_RECORDS)
        self._deserializers = deserializers
        self._deserializing = deserializers.active
        #: Iteration deserializes each record when it is due, unless an interceptor comes first.
        self._loop_deserializes = deserializers.active and not interceptors.consuming
        self.iteration = Iteration(
            core.engine.subscription,
            deserializers if self._loop_deserializes else None,
            poller.note_error,
            core.callers.cancellations if core.callers.cancellable else None,
        )
        #: `poll()` and `find_feed()` for threads, whose functions must be guarded.
        self.poll_now: PollNow = lambda *limits: run(self.poll(*limits))
        self.find_feed_now: FindFeedNow = lambda follow: run(self.find_feed(follow))
        #: Begins the calls of tasks; None if Python must.
        self.usual: UsualReading | None = None
        if usual_case is not None and not green.library():
            usual = native.UsualReading(  # type: ignore[union-attr]
                usual_case,
                self,
                core,
                poller,
                collector,
                poller.commits,
                self.iteration.runs,
                PROCESS,
                nanoseconds_of(core.clock),
                IteratedRecords,
                self._run_records,
                None if self._endless else min(self._idle_ms or 0, NO_DEADLINE_MS // 2),
                Holding,
                interceptors.consuming,
                self.iteration.feed if self._loop_deserializes else None,
            )
            if core.callers.cancellable:
                self.usual = usual
            else:
                self.poll_now, self.find_feed_now = usual.poll, usual.find_feed

    async def poll(
        self, timeout_ms: float, max_records: int | None, begun: Begun | None = None
    ) -> tuple[ConsumerRecords[Any, Any], Publication]:
        """Return records as soon as there are any; empty after the timeout.

        Threads call it in a guarded function.
        """
        core = self._core
        held, deadline_ms = begun or (core.enter() or await core.acquire(), None)
        try:
            limit = core.config.max_poll_records
            if max_records is not None:
                limit = check_limit(max_records, limit)
            if deadline_ms is None:
                deadline_ms = core.deadline_ms(timeout_ms)
            if self.iteration.runs:
                self.iteration.end()
            batch = await self._poller.poll(deadline_ms, limit, held, begun=begun is not None)
            return self._handed(batch)
        finally:
            held.release()

    @guarded
    async def fill(
        self, max_records: int, max_wait_ms: float
    ) -> tuple[ConsumerRecords[Any, Any], Publication] | None:
        """Return `max_records` records, or those that arrive within a time after the first.

        None if iteration ends.
        """
        core = self._core
        try:
            held = core.enter() or await core.acquire()
        except ConsumerClosedError:
            return None
        try:
            until_ms = self._idle_deadline_ms()
            self.iteration.end()
            while True:
                batch = await self._gather(until_ms, max_records, max_wait_ms, held)
                if batch and self._deserializing:
                    batch = await self._poller.poll(core.clock.now_ms(), max_records, held)
                if batch:
                    return self._handed(batch)
                if core.closed or core.clock.now_ms() >= until_ms:
                    return None
        finally:
            held.release()

    async def _gather(
        self, until_ms: int, count: int, max_wait_ms: float, held: Held
    ) -> ConsumerRecords[Any, Any]:
        """Return a batch that no wait has followed, not deserialized yet if it need not be.

        Each count collects the same records again, because a rebalance or a seek may have
        replaced them during the wait.
        """
        core, buffer = self._core, self._core.engine.buffer
        seen = buffer.added
        batch = await self._poller.poll(until_ms, count, held, raw=True)
        deadline_ms = core.deadline_ms(max_wait_ms)
        counts = _COUNTS if native is not None or not self._deserializing else _COSTLY_COUNTS
        longest_ms = (deadline_ms - core.clock.now_ms()) // counts
        longest_ms = max(1, min(longest_ms, self._poller.interval_ms))
        pause_ms = 0  # longer after each count: a backlog fills the batch at once

        def called() -> bool:
            return core.suspended or core.closing

        def news() -> bool:
            return called() or buffer.added != seen

        while batch and batch.count < count and not (core.closing or buffer.is_full):
            now_ms = core.clock.now_ms()
            if now_ms >= deadline_ms:
                break
            await core.wait(called, min(deadline_ms, now_ms + pause_ms))
            pause_ms = min(longest_ms, 2 * pause_ms + 1)
            await core.wait(news, min(deadline_ms, core.clock.now_ms() + MAX_PAUSE_MS))
            seen = buffer.added
            batch = await self._poller.poll(core.clock.now_ms(), count, held, raw=True)
        return batch

    def _handed(
        self, batch: ConsumerRecords[Any, Any]
    ) -> tuple[ConsumerRecords[Any, Any], Publication]:
        """Return the last batch as the user sees it, and the publication that moves positions."""
        assigned = self._core.engine.subscription.assigned
        for tp, end in batch.next_offsets.items():
            if tp in batch:
                state, lag = assigned.get(tp), None
                if state is not None and state.high_watermark >= 0:
                    lag = state.high_watermark - end.offset
                self._poller.measured.note_records((tp.topic, len(batch[tp]), lag))
        publication = self._collector.publication
        if batch and self._interceptors.consuming:
            batch = self._interceptors.on_consume(batch)
        return batch, publication

    # --- Arrow ---------------------------------------------------------------------------------

    @guarded
    async def poll_arrow(
        self,
        timeout_ms: float,
        max_records: int | None,
        form: ArrowForm,
    ) -> tuple[pa.RecordBatch, Publication]:
        """Return records as an Arrow record batch, which is empty after the timeout."""
        core = self._core
        held = core.enter() or await core.acquire()
        try:
            build = form.checked()
            check_arrow_usable(
                deserializing=self._deserializing, intercepting=self._interceptors.consuming
            )
            limit = check_limit(max_records, sys.maxsize)
            deadline_ms = core.deadline_ms(timeout_ms)
            self.iteration.end()
            max_bytes = min(self._collector.max_bytes, _ARROW_BYTES)
            while True:
                polled = await self._poller.poll(deadline_ms, limit, held, max_bytes=max_bytes)
                made, undecodable = build(tuple(polled.values()))
                if undecodable is not None:
                    if not undecodable.row:
                        raise self._undecodable(polled, undecodable)
                    # The records before it, which are collected again.
                    deadline_ms, limit = core.clock.now_ms(), undecodable.row
                    continue
                _, publication = self._handed(polled)
                if made.num_rows != polled.count:
                    self._poller.measured.note_dropped(polled.count - made.num_rows)
                if made.num_rows or not polled or core.clock.now_ms() >= deadline_ms:
                    return made, publication
                publication.done = True  # all of them were dropped
        finally:
            held.release()

    def _undecodable(
        self, batch: ConsumerRecords[Any, Any], undecodable: Undecodable
    ) -> RecordDeserializationError:
        """Return the error for the first record."""
        record = next(iter(batch.values()))[0]
        error = ValueError(undecodable.reason)
        return self._deserializers.error_of(undecodable.origin, error, record)

    async def next_arrow(self, form: ArrowForm) -> tuple[pa.RecordBatch, Publication] | None:
        """Return a record batch that is not empty, None if iteration ends."""
        until_ms = self._idle_deadline_ms()
        while not self._core.closed:
            left_ms = max(0, until_ms - self._core.clock.now_ms())
            try:
                found = await self.poll_arrow(left_ms, None, form)
            except ConsumerClosedError:
                return None
            if found[0].num_rows:
                return found
            if not left_ms:
                return None
        return None

    # --- iteration -----------------------------------------------------------------------------

    async def find_feed(self, follow: Follow, begun: Begun | None = None) -> bool:
        """Give the loop the feed with the next record, and wait for it if necessary.

        Threads call it in a guarded function.

        Returns:
            False if iteration ends: the consumer was closed, has no subscription, or received no
            record within `consumer_timeout_ms`.
        """
        core = self._core
        try:
            held, until_ms = begun or (core.enter() or await core.acquire(), None)
        except ConsumerClosedError:
            return False  # any caller may close the consumer during iteration
        try:
            changes = core.engine.subscription.changes
            # Invariant: read before the checks, so that a concurrent change triggers another one.
            seen = changes.count
            run = self.iteration.ready()
            if run is None:
                seen, run = await self._await_run(held, until_ms)
            if run is None:
                return False
            follow(run.feed, changes, seen)
            return True
        finally:
            held.release()

    def follow_ready(self, follow: Follow) -> bool:
        """Give the loop the next feed if it is at hand; wait for nothing."""
        if self.usual is not None and self.usual.drop_returned():
            return False
        changes = self._core.engine.subscription.changes
        seen = changes.count
        run = self.iteration.ready()
        if run is None or self._core.closed:
            return False
        follow(run.feed, changes, seen)
        return True

    async def _await_run(
        self, held: Held, until_ms: int | None
    ) -> tuple[int, IteratedRecords | None]:
        core = self._core
        if self._endless and core.engine.subscription.kind is SubscriptionKind.NONE:
            log.warning(
                "iteration ends without a subscription; call subscribe() or assign() first",
                client=core.client,
            )
            return 0, None
        deadline_ms = self._idle_deadline_ms() if until_ms is None else until_ms
        begun = until_ms is not None
        changes = core.engine.subscription.changes
        while True:
            limit, raw = self._run_records, self._loop_deserializes
            batch = await self._poller.poll(deadline_ms, limit, held, raw=raw, begun=begun)
            begun = False
            self.iteration.add(*self._handed(batch))
            seen = changes.count
            run = self.iteration.ready()
            if run is not None or core.closed or core.clock.now_ms() >= deadline_ms:
                return seen, run

    def _idle_deadline_ms(self) -> int:
        """Return when iteration ends if no record arrives."""
        return NO_DEADLINE_MS if self._endless else self._core.deadline_ms(self._idle_ms)
