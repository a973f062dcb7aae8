"""`AsyncShareWorkers`: `ShareWorkers` for asyncio."""

from __future__ import annotations

import asyncio
import inspect
import signal
from collections.abc import Awaitable, Callable, Iterable
from contextlib import nullcontext, suppress
from typing import Any, Final, Generic

from tandem_kafka import ShareRecord
from tandem_kafka.aio import AsyncShareConsumer
from tandem_kafka.errors import ArgumentTypeError, IllegalStateError, KafkaError
from tandem_kafka.logs import LinesOf
from tandem_kafka.runtime.signals import handled_in_loop
from tandem_kafka.types import KeyT, ValueT
from tandem_kafka.workers.control import COMMIT_MS
from tandem_kafka.workers.retry import Retry
from tandem_kafka.workers.settings import UnusableHandlerError
from tandem_kafka.workers.share_attempts import (
    LOOK_MS,
    Otherwise,
    Record,
    ShareAttempts,
    check_share_workers,
)
from tandem_kafka.workers.tasks import Cancellations, report

#: How long handlers that are cancelled may acknowledge their records.
_CLEAN_UP_S: Final = 1


class AsyncShareWorkers(Generic[KeyT, ValueT]):
    """Awaits a handler for each record of a share group, in many tasks, in no order.

    Guarantees and arguments are those of ``ShareWorkers``, with these differences:

    Args:
        consumer: An ``AsyncShareConsumer`` with ``acknowledgement="explicit"`` that was started
            (``async with``).
        handle: An ``async def`` function of a record. If it, or something that it awaits, is
            cancelled while ``run()`` goes on, this is a failed attempt.
        workers: How many handlers run at the same time.
        retry: As for ``ShareWorkers``.
        otherwise: The function may be ``async def``. An ordinary function, for example
            ``DeadLetters``, runs on a thread.
        max_processing_ms: As for ``ShareWorkers``.
        drain_timeout_ms: As for ``ShareWorkers``. Handlers that are still running then are
            cancelled. ``run()`` also waits for one that goes on although it was cancelled; after a
            second, all records are released nevertheless.

    Raises:
        InvalidArgumentError, ArgumentTypeError: As for ``ShareWorkers``.
        IllegalStateError: The consumer has not been started.

    Example::

        async with AsyncShareConsumer("jobs", group_id="resizers", acknowledgement="explicit") as c:
            await AsyncShareWorkers(c, resize, workers=500).run()
    """

    def __init__(  # noqa: PLR0913 - options, all with a name
        self,
        consumer: AsyncShareConsumer[KeyT, ValueT],
        handle: Callable[[ShareRecord[KeyT, ValueT]], Awaitable[object]],
        *,
        workers: int = 16,
        retry: Retry = Retry(),  # noqa: B008 - immutable
        otherwise: Otherwise = "reject",
        max_processing_ms: float = 600_000,
        drain_timeout_ms: float = 30_000,
    ) -> None:
        if not isinstance(consumer, AsyncShareConsumer):
            msg = (
                f"consumer must be an AsyncShareConsumer, got {consumer!r}; "
                "use ShareWorkers for a ShareConsumer"
            )
            raise ArgumentTypeError(msg)
        check_share_workers(
            consumer.acknowledgement, handle, workers, retry, otherwise, drain_timeout_ms
        )
        self._consumer = consumer
        self._handle: Callable[[Any], Any] = handle
        self._workers = workers
        self._attempts = ShareAttempts(retry, otherwise, consumer.log_names)
        self._drain_s = drain_timeout_ms / 1_000
        #: The tasks of running handlers, with their records.
        self._running: dict[asyncio.Task[None], Record] = {}
        self._news = asyncio.Event()
        self._failure: BaseException | None = None
        self._in_progress = self._stopping = False
        self._cancellations: Cancellations
        consumer.renew_locks(max_processing_ms)

    @property
    def done(self) -> int:
        """Number of records that were accepted."""
        return self._attempts.done

    def stop(self) -> None:
        """End ``run()``. Any thread, handler or signal handler may call this."""
        self._stopping = True

    async def run(
        self,
        until: Callable[[], bool] | None = None,
        *,
        signals: Iterable[signal.Signals] = (),
    ) -> None:
        """Handle records until ``stop()`` or ``until()``; as ``ShareWorkers.run()``.

        If it is cancelled, it cancels the running handlers, releases their records, and raises
        ``CancelledError``. All its tasks end before it returns.

        Args:
            until: A function that returns True when the run must end. It is called at least every
                100 ms.
            signals: Signals that end the run. Their handlers are installed in the event loop and,
                at the end, restored. They end all runs that have them. Only the main thread can
                do this.

        Raises:
            IllegalStateError, KafkaError, BaseException: As ``ShareWorkers.run()``.
            ArgumentTypeError: ``handle`` is not an ``async def`` function.
            asyncio.CancelledError: The task was cancelled.
        """
        if self._in_progress:
            raise IllegalStateError("run() is already in progress; call it again after it returns")
        self._in_progress = True
        self._cancellations = Cancellations()
        drain_s, failed = self._drain_s, True
        try:
            with LinesOf(self._consumer.log_names), handled_in_loop(signals, self.stop):
                try:
                    while not self._stopping and not (until is not None and until()):
                        await self._step()
                    failed = False
                except asyncio.CancelledError:
                    drain_s = 0
                    raise
                finally:
                    await self._drain(drain_s, failed=failed)
            if isinstance(self._failure, UnusableHandlerError):
                raise ArgumentTypeError(str(self._failure))
            if self._failure is not None:
                raise self._failure
        finally:
            self._in_progress = self._stopping = False
            self._failure = None

    async def _step(self) -> None:
        free = self._workers - len(self._running)
        while free > 0 and (due := self._attempts.due()) is not None:
            self._start(*due)
            free -= 1
        if free <= 0 or self._attempts.full:
            self._news.clear()
            wait_ms = self._attempts.left_ms() if free > 0 else LOOK_MS
            with suppress(TimeoutError):
                # Invariant: no wait_for(), which in Python 3.11 may swallow a cancellation.
                async with asyncio.timeout(wait_ms / 1_000):
                    await self._news.wait()
            return
        polled = await self._consumer.poll(self._attempts.left_ms(), max_records=free)
        for batch in polled.values():
            for record in batch:
                self._start(record, 0)

    def _start(self, record: Record, failures: int) -> None:
        task = asyncio.create_task(self._attempt(record, failures + 1))
        self._running[task] = record
        task.add_done_callback(self._settle)

    def _settle(self, task: asyncio.Task[None]) -> None:
        record = self._running.pop(task, None)
        self._news.set()
        if task.cancelled():
            if record is not None:  # else the run ends, and releases all records together
                self._attempts.end(record.release)
        elif (error := task.exception()) is not None:
            self._failure = self._failure or error  # run() raises it, and releases the record
            self._stopping = True

    async def _attempt(self, record: Record, attempt: int) -> None:
        attempts = self._attempts
        try:
            await self._cancellations.call(self._call(record))
        except Exception as error:  # noqa: BLE001 - a failed attempt
            delay_ms = attempts.delay_ms(attempt)
            if delay_ms is not None:
                attempts.postpone(record, attempt, delay_ms)
            elif not callable(attempts.otherwise):
                attempts.give_up(record, error, attempt)
            elif await self._reported(record, error, attempt):
                attempts.done += attempts.accept(record)
        else:
            attempts.done += attempts.accept(record)

    async def _call(self, record: Record) -> None:
        result = self._handle(record)
        if not inspect.isawaitable(result):
            msg = (
                f"handle must be an `async def` function, but {self._handle!r} returned "
                f"{result!r}; use ShareWorkers for ordinary functions"
            )
            raise UnusableHandlerError(msg)
        await result

    async def _reported(self, record: Record, error: Exception, attempt: int) -> bool:
        try:
            reporting = report(self._attempts.otherwise, record, error, attempt)
            await self._cancellations.call(reporting)
        except Exception as failed:  # noqa: BLE001 - logged
            self._attempts.release_after(record, failed)
            return False
        return True

    async def _drain(self, timeout_s: float, *, failed: bool) -> None:
        """Wait for handlers, cancel those that do not end, and release all other records.

        As in `ShareWorkers`, nothing takes the place of what has ended the run, or its drain.
        """
        clock = self._attempts.runtime.clock
        end_ms = clock.after_ms(timeout_s * 1_000)
        try:
            await self._end_handlers(timeout_s)
        except BaseException:
            failed = True
            raise
        finally:
            self._attempts.forget()
            with suppress(KafkaError) if failed or self._failure is not None else nullcontext():
                await self._consumer.release_all()
                await self._consumer.commit(max(end_ms - clock.now_ms(), COMMIT_MS))

    async def _end_handlers(self, timeout_s: float) -> None:
        try:
            if self._running:
                _, late = await asyncio.wait(self._running, timeout=timeout_s)
                for task in late if timeout_s else ():  # else it was cancelled, and nothing drained
                    self._attempts.warn_of(self._running[task])
        finally:
            running, self._running = self._running, {}
            self._cancellations.ending = True
            for task in running:
                task.cancel()
            ended = asyncio.gather(*running, return_exceptions=True)
            try:
                if (await asyncio.wait([ended], timeout=_CLEAN_UP_S))[1]:
                    # Invariant: nothing stays locked for as long as one of them goes on.
                    with suppress(KafkaError):
                        await self._consumer.release_all()
            except asyncio.CancelledError:
                ended.cancel()  # once more, and waited for nevertheless
                raise
            finally:
                await ended
