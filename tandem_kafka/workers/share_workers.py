"""`ShareWorkers`: handles the records of a share group on many threads, each by itself."""

from __future__ import annotations

import inspect
import signal
from collections.abc import Callable, Iterable
from contextlib import nullcontext, suppress
from typing import Generic, NamedTuple

from tandem_kafka import ShareConsumer, ShareRecord
from tandem_kafka.errors import ArgumentTypeError, IllegalStateError, KafkaError
from tandem_kafka.logs import LinesOf
from tandem_kafka.runtime.signals import handled_signals
from tandem_kafka.types import KeyT, ValueT
from tandem_kafka.workers.control import COMMIT_MS
from tandem_kafka.workers.retry import Retry
from tandem_kafka.workers.settings import UnusableHandlerError, check_not_awaitable
from tandem_kafka.workers.share_attempts import (
    LOOK_MS,
    Otherwise,
    Record,
    ShareAttempts,
    check_share_workers,
)
from tandem_kafka.workers.threads import CallThreads


class _Call(NamedTuple):
    """A call of the handler: its number, the record, and which attempt it is."""

    number: int
    record: Record
    attempt: int


class _Ended(NamedTuple):
    """How a call of the handler ended.

    Attributes:
        number: The number of the call.
        accepted: Whether its record was accepted.
        delay_ms: After what time the record is tried again; None if it is not.
        raised: What ends the run.
    """

    number: int
    accepted: bool = False
    delay_ms: int | None = None
    raised: BaseException | None = None


class ShareWorkers(Generic[KeyT, ValueT]):
    """Calls a handler for each record of a share group, on many threads, in no order.

    A record is accepted when the handler returns. While it works, the network thread renews the
    lock of its record, so nobody else gets it. ``run()`` polls only when a thread is free.

    Args:
        consumer: A consumer with ``acknowledgement="explicit"``. While ``run()`` runs, do not poll.
        handle: Called with a record, on one of the threads. Its result is ignored. An exception is
            a failed attempt.
        workers: Number of threads.
        retry: Number of attempts in this process, and backoff; by default one attempt. The record
            stays locked between attempts. It is no new delivery. While 1,000 records wait for
            their next attempt, no others are taken.
        otherwise: What follows the last attempt. ``"reject"``: nobody gets the record again.
            ``"release"``: it is delivered again, if the group has attempts left. A function, for
            example ``DeadLetters``, is called with the record, the last exception and the number
            of attempts; the record is accepted when it returns, and released if it raises.
        max_processing_ms: For how long the lock of a record is renewed, in milliseconds. After
            that, it is delivered to another consumer.
        drain_timeout_ms: How long the end of ``run()`` waits for running handlers and the brokers,
            in milliseconds; for the brokers at least 5,000.

    Raises:
        InvalidArgumentError: An argument has an invalid value, or the consumer acknowledges
            implicitly.
        ArgumentTypeError: An argument has the wrong type.

    Example::

        with ShareConsumer("jobs", group_id="resizers", acknowledgement="explicit") as consumer:
            ShareWorkers(consumer, resize, workers=64).run()
    """

    def __init__(  # noqa: PLR0913 - options, all with a name
        self,
        consumer: ShareConsumer[KeyT, ValueT],
        handle: Callable[[ShareRecord[KeyT, ValueT]], object],
        *,
        workers: int = 16,
        retry: Retry = Retry(),  # noqa: B008 - immutable
        otherwise: Otherwise = "reject",
        max_processing_ms: float = 600_000,
        drain_timeout_ms: float = 30_000,
    ) -> None:
        if not isinstance(consumer, ShareConsumer):
            msg = (
                f"consumer must be a ShareConsumer, got {consumer!r}; "
                "use AsyncShareWorkers for an AsyncShareConsumer"
            )
            raise ArgumentTypeError(msg)
        check_share_workers(
            consumer.acknowledgement, handle, workers, retry, otherwise, drain_timeout_ms
        )
        if inspect.iscoroutinefunction(handle):
            msg = f"handle must be an ordinary function, got {handle!r}; use AsyncShareWorkers"
            raise ArgumentTypeError(msg)
        self._consumer = consumer
        self._handle = handle
        self._workers = workers
        self._attempts = ShareAttempts(retry, otherwise, consumer.log_names)
        self._drain_ms = drain_timeout_ms
        #: The calls that have not ended, by their numbers.
        self._running: dict[int, _Call] = {}
        self._count = 0
        #: What ends the run.
        self._failure: BaseException | None = None
        self._in_progress = self._stopping = False
        consumer.renew_locks(max_processing_ms)

    @property
    def done(self) -> int:
        """Number of records that were accepted."""
        return self._attempts.done

    def stop(self) -> None:
        """End ``run()``. Any thread, handler or signal handler may call this."""
        self._stopping = True

    def run(
        self,
        until: Callable[[], bool] | None = None,
        *,
        signals: Iterable[signal.Signals] = (),
    ) -> None:
        """Handle records until ``stop()`` or ``until()``.

        At the end, running handlers may finish within ``drain_timeout_ms``. All records without an
        acknowledgement are released, such as those that wait for another attempt. The consumer
        stays open; ``run()`` may be called again.

        Args:
            until: A function that returns True when the run must end. It is called at least every
                100 ms.
            signals: Signals that end the run, such as ``signal.SIGTERM``.

        Raises:
            IllegalStateError: Another run is in progress.
            KafkaError: As for ``ShareConsumer.poll()``.
            ArgumentTypeError: ``handle`` or ``otherwise`` is an ``async def`` function.
            BaseException: A handler raised one that is no ``Exception``, such as ``SystemExit``.
        """
        if self._in_progress:
            raise IllegalStateError("run() is already in progress; call it again after it returns")
        self._in_progress = True
        try:
            with LinesOf(self._consumer.log_names), handled_signals(signals, self.stop):
                # Those of an earlier run may still be in its late handlers.
                threads, failed = CallThreads(self._make, self._workers), True
                try:
                    threads.start()
                    while not self._stopping and not (until is not None and until()):
                        self._step(threads)
                    failed = False
                finally:
                    self._drain(threads, failed=failed)
            if self._failure is not None:
                raise self._failure
        finally:
            self._in_progress = self._stopping = False
            self._failure = None

    def _step(self, threads: CallThreads[_Call, _Ended]) -> None:
        attempts = self._attempts
        while (ended := threads.ended()) is not None:
            self._settle(ended)
        if self._stopping:
            return
        free = self._workers - len(self._running)
        while free > 0 and (due := attempts.due()) is not None:
            self._submit(threads, *due)
            free -= 1
        if free <= 0 or attempts.full:
            self._wait(threads, attempts.left_ms() if free > 0 else LOOK_MS)
            return
        polled = self._consumer.poll(attempts.left_ms(), max_records=free)
        for batch in polled.values():
            for record in batch:
                self._submit(threads, record, 0)

    def _wait(self, threads: CallThreads[_Call, _Ended], timeout_ms: float) -> None:
        """Wait for the end of a call."""
        ended = threads.ended(timeout_ms)
        if ended is not None:
            self._settle(ended)

    def _submit(self, threads: CallThreads[_Call, _Ended], record: Record, failures: int) -> None:
        self._count += 1
        call = _Call(self._count, record, failures + 1)
        threads.make(call)
        # Ctrl-C before this: the call is not waited for, and its record released.
        self._running[call.number] = call

    def _make(self, call: _Call) -> _Ended:
        try:
            return self._handled(*call)
        except UnusableHandlerError as error:
            return _Ended(call.number, raised=ArgumentTypeError(str(error)))
        except BaseException as error:  # noqa: BLE001 - run() raises it, and releases the record
            return _Ended(call.number, raised=error)

    def _handled(self, number: int, record: Record, attempt: int) -> _Ended:
        """Handle a record on a thread."""
        attempts, otherwise = self._attempts, self._attempts.otherwise
        try:
            check_not_awaitable(self._handle, self._handle(record))
        except Exception as error:  # noqa: BLE001 - a failed attempt
            delay_ms = attempts.delay_ms(attempt)
            if delay_ms is not None:
                return _Ended(number, delay_ms=delay_ms)
            if not callable(otherwise):
                attempts.give_up(record, error, attempt)
                return _Ended(number)
            try:
                check_not_awaitable(otherwise, otherwise(record, error, attempt), name="otherwise")
            except Exception as failed:  # noqa: BLE001 - logged
                attempts.release_after(record, failed)
                return _Ended(number)
        return _Ended(number, attempts.accept(record))

    def _settle(self, ended: _Ended) -> None:
        call = self._running.pop(ended.number, None)
        if ended.raised is not None:
            self._failure = self._failure or ended.raised  # run() raises it after the drain
            self._stopping = True
        self._attempts.done += ended.accepted
        if ended.delay_ms is not None and call is not None:
            self._attempts.postpone(call.record, call.attempt, ended.delay_ms)

    def _drain(self, threads: CallThreads[_Call, _Ended], *, failed: bool) -> None:
        """Wait for handlers, and release all other records; another Ctrl-C ends the wait.

        No error of the consumer takes the place of what has ended the run, or its drain.
        """
        clock = self._attempts.runtime.clock
        end_ms = clock.after_ms(self._drain_ms)
        try:
            while self._running and (left_ms := end_ms - clock.now_ms()) > 0:
                self._wait(threads, left_ms)
            for call in self._running.values():
                self._attempts.warn_of(call.record)
        except BaseException:
            failed = True
            raise
        finally:
            threads.end()
            self._attempts.forget()
            self._running.clear()
            with suppress(KafkaError) if failed or self._failure is not None else nullcontext():
                # Also what Ctrl-C has kept from `_running`.
                self._consumer.release_all()
                self._consumer.commit(max(end_ms - clock.now_ms(), COMMIT_MS))
