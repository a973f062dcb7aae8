"""A run of share workers: takes records while workers are free, and releases what is not done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tandem_kafka import AsyncShareConsumer, ShareConsumer
from tandem_kafka.errors import KafkaError
from tandem_kafka.logs import client_logger
from tandem_kafka.runtime import Clock, Runtime
from tandem_kafka.workers.ports import result_of
from tandem_kafka.workers.run import CHECK_MS, Crew, Run, Runs
from tandem_kafka.workers.share_attempts import ShareAttempts, ShareSettings
from tandem_kafka.workers.threads import new_lock

log = client_logger(__name__)


class ShareControl(Run):
    """Runs the workers of one share consumer.

    With a `ShareConsumer`, the coroutines block and never suspend.
    """

    _workload: ShareAttempts

    def __init__(
        self,
        consumer: Any,
        workload: ShareAttempts,
        crew: Crew,
        clock: Clock,
        drain_timeout_ms: float,
    ) -> None:
        super().__init__(workload, crew, clock, drain_timeout_ms)
        self._consumer = consumer
        self._released = False
        workload.on_room = workload.on_settled  # ends a wait of the crew

    async def begin(self, listener: Any) -> None:
        """Start the workers."""
        del listener
        self._crew.start()

    async def step(self, longest_ms: int) -> None:
        """Poll once if a worker is free, and hand out the records."""
        workload = self._workload
        with workload.lock:
            workload.wake()
            room = workload.room
            workload.awaited = not room
            ready = workload.has_ready
        if ready:
            self._crew.dispatch()
        timeout_ms = self._timeout_ms(longest_ms)
        if not room:
            until_ms = self._clock.after_ms(timeout_ms)
            await self._crew.wait(self._has_news, until_ms)
            return
        polled = await result_of(self._consumer.poll(timeout_ms, room))
        with workload.lock:
            for records in polled.values():
                workload.admit(records)
        self._crew.dispatch()

    def _has_news(self) -> bool:
        return self._workload.room > 0 or self._workload.failure is not None

    def _timeout_ms(self, longest_ms: int) -> int:
        """Return how long to wait: until an attempt is due, or the run must look up."""
        now_ms, due_ms = self._clock.now_ms(), self._workload.next_retry_ms
        longest_ms = min(longest_ms, CHECK_MS)  # stop() does not wake up the consumer
        return longest_ms if due_ms is None else max(0, min(longest_ms, due_ms - now_ms))

    # --- the end -------------------------------------------------------------------------------

    async def _drain_all(self, deadline_ms: int) -> None:
        workload = self._workload
        with workload.lock:
            workload.drop_queued()
        self._crew.cancel((workload.part,))
        self._crew.dispatch()
        if await self._drained(self._is_idle, deadline_ms):
            return
        for task in tuple(workload.running):
            log.warning(
                "the handler of the record at offset %d of %s-%d did not return in "
                "drain_timeout_ms, so it is delivered again",
                task.record.offset,
                task.record.topic,
                task.record.partition,
            )

    def _is_idle(self) -> bool:
        with self._workload.lock:
            return not self._workload.busy

    async def _save(self, deadline_ms: int) -> KafkaError | None:
        await self._crew.end(deadline_ms)
        return await self._release(deadline_ms)

    async def conclude(self, deadline_ms: int) -> None:
        """End the workers, and release what is not done, unless that is over."""
        if not self._released:
            try:
                await self._crew.end(deadline_ms)
            finally:
                await self._release(deadline_ms)

    async def _release(self, deadline_ms: int) -> KafkaError | None:
        """Release all records that are not done, also what an interrupt has kept from workers."""
        try:
            self.give_back()
            await result_of(self._consumer.release_all())
            self._released = True
            await result_of(self._consumer.commit(self._left_ms(deadline_ms)))
        except KafkaError as error:
            return error
        return None

    def give_back(self) -> None:
        """Let late handlers change nothing more."""
        with self._workload.lock:
            self._workload.close()


class ShareRuns(Runs[ShareControl]):
    """Keeps track of the runs of `ShareWorkers` or `AsyncShareWorkers`."""

    def __init__(
        self,
        consumer: ShareConsumer[Any, Any] | AsyncShareConsumer[Any, Any],
        settings: ShareSettings,
        max_processing_ms: float,
    ) -> None:
        settings.check(consumer.acknowledgement)
        super().__init__(Runtime.threaded(), consumer.log_names)
        self._settings = settings
        self._consumer = consumer
        consumer.renew_locks(max_processing_ms)

    @contextmanager
    def _running(self) -> Iterator[None]:
        """Note that a run is in progress; as in `Runs`."""
        lend = self._consumer._lend  # noqa: SLF001 - not public
        with super()._running():
            lend(object())
            try:
                yield
            finally:
                # Invariant: behind the end of the run, whatever interrupts that.
                lend(None)

    def _new_control(self, crew_of: Callable[[ShareAttempts], Crew]) -> ShareControl:
        settings, clock = self._settings, self._runtime.clock
        attempts = ShareAttempts(settings, clock, self._runtime.random, new_lock(), self._client)
        drain_ms = settings.drain_timeout_ms
        return ShareControl(self._consumer, attempts, crew_of(attempts), clock, drain_ms)
