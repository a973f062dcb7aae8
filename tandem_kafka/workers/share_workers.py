"""`ShareWorkers`: handles the records of a share group on many threads, each by itself."""

from __future__ import annotations

import heapq
import inspect
import signal
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, Final, Generic, Literal

from tandem_kafka import ShareConsumer, ShareRecord
from tandem_kafka.errors import (
    ArgumentTypeError,
    IllegalStateError,
    InvalidArgumentError,
    RecordLockLostError,
)
from tandem_kafka.logs import LinesOf, client_logger
from tandem_kafka.runtime import Runtime
from tandem_kafka.runtime.signals import handled_signals
from tandem_kafka.types import KeyT, ValueT
from tandem_kafka.workers.retry import Retry
from tandem_kafka.workers.settings import check_not_awaitable

log = client_logger(__name__)

#: How often `run()` looks whether it must end.
_LOOK_MS: Final = 100
#: The most records that wait for their next attempt; others are released at once.
_MOST_WAITING: Final = 1_000

Record = ShareRecord[Any, Any]
Otherwise = Literal["reject", "release"] | Callable[[Any, Exception, int], object]


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
            stays locked between attempts. It is no new delivery.
        otherwise: What follows the last attempt. ``"reject"``: nobody gets the record again.
            ``"release"``: it is delivered again, if the group has attempts left. A function, for
            example ``DeadLetters``, is called with the record, the last exception and the number
            of attempts; the record is accepted when it returns, and released if it raises.
        max_processing_ms: For how long the lock of a record is renewed, in milliseconds. After
            that, it is delivered to another consumer.
        drain_timeout_ms: How long the end of ``run()`` waits for running handlers, in milliseconds.

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
        check_share_workers(consumer.acknowledgement, handle, workers, retry, otherwise)
        if inspect.iscoroutinefunction(handle):
            raise ArgumentTypeError(f"handle must be an ordinary function, got {handle!r}")
        self._consumer = consumer
        self._handle = handle
        self._workers = workers
        self._retry = retry
        self._otherwise = otherwise
        self._drain_s = drain_timeout_ms / 1_000
        self._runtime = Runtime.threaded()
        self._running: dict[Future[BaseException | None], tuple[Record, int]] = {}
        #: When to try again, a number that makes it unique, the record and its failures.
        self._waiting: list[tuple[int, int, Record, int]] = []
        self._count = 0
        self._in_progress = self._stopping = False
        #: Number of records that were accepted.
        self.done = 0
        consumer.renew_locks(max_processing_ms)

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
                100 ms while a thread is free.
            signals: Signals that end the run, such as ``signal.SIGTERM``.

        Raises:
            IllegalStateError: Another run is in progress.
            KafkaError: As for ``ShareConsumer.poll()``.
            BaseException: A handler raised one that is no ``Exception``, such as ``SystemExit``.
        """
        if self._in_progress:
            raise IllegalStateError("run() is already in progress; call it again after it returns")
        self._in_progress = True
        pool = ThreadPoolExecutor(self._workers, "tandem-kafka-share-worker")
        try:
            with LinesOf(self._consumer.log_names), handled_signals(signals, self.stop):
                try:
                    while not self._stopping and not (until is not None and until()):
                        self._step(pool)
                finally:
                    self._drain(pool)
        finally:
            self._in_progress = self._stopping = False

    def _step(self, pool: ThreadPoolExecutor) -> None:
        self._settle()
        now_ms = self._runtime.clock.now_ms()
        free = self._workers - len(self._running)
        while free > 0 and self._waiting and self._waiting[0][0] <= now_ms:
            _, _, record, failures = heapq.heappop(self._waiting)
            self._submit(pool, record, failures)
            free -= 1
        if free <= 0:
            wait(self._running, _LOOK_MS / 1_000, FIRST_COMPLETED)
            return
        # While handlers run, threads become free at any time, and retries become due.
        timeout_ms = 1 if self._running else _LOOK_MS
        if self._waiting:
            timeout_ms = max(0, min(timeout_ms, self._waiting[0][0] - now_ms))
        polled = self._consumer.poll(timeout_ms, max_records=free)
        for batch in polled.values():
            for record in batch:
                self._submit(pool, record, 0)
        if not polled and self._running:
            wait(self._running, self._idle_s(now_ms), FIRST_COMPLETED)

    def _idle_s(self, now_ms: int) -> float:
        """Return how long to wait for a handler if there are no records."""
        left_ms = self._waiting[0][0] - now_ms if self._waiting else _LOOK_MS
        return max(1, min(left_ms, _IDLE_MS)) / 1_000

    def _submit(self, pool: ThreadPoolExecutor, record: Record, failures: int) -> None:
        self._running[pool.submit(self._attempt, record)] = record, failures

    def _attempt(self, record: Record) -> BaseException | None:
        """Handle a record on a thread; return the handler's exception."""
        try:
            check_not_awaitable(self._handle, self._handle(record))
        except BaseException as error:  # noqa: BLE001 - a failed attempt, or raised by run()
            return error
        self._accept(record)
        return None

    def _accept(self, record: Record) -> None:
        try:
            record.accept()
        except RecordLockLostError as error:
            log.warning("a record was handled, and is delivered again: %s", error)
        except IllegalStateError:
            pass  # the handler has acknowledged it
        else:
            self.done += 1

    def _settle(self) -> None:
        """Decide on the records whose handlers have returned."""
        for future in [each for each in self._running if each.done()]:
            record, failures = self._running.pop(future)
            error = future.result()
            if isinstance(error, Exception):
                self._failed(record, error, failures + 1)
            elif error is not None:
                acknowledge(record.release)
                raise error

    def _failed(self, record: Record, error: Exception, failures: int) -> None:
        delay_ms = self._retry.delay_ms(failures, self._runtime.random)
        if delay_ms is None:
            give_up(record, error, failures, self._otherwise, self._accept)
        elif len(self._waiting) >= _MOST_WAITING:
            acknowledge(record.release)
        else:
            self._count += 1
            due_ms = self._runtime.clock.now_ms() + delay_ms
            heapq.heappush(self._waiting, (due_ms, self._count, record, failures))

    def _drain(self, pool: ThreadPoolExecutor) -> None:
        """Wait for handlers, and release all other records; another Ctrl-C ends the wait."""
        try:
            wait(self._running, self._drain_s)
            self._settle()
        finally:
            for future, (record, _) in self._running.items():
                if not future.done():
                    log.warning(
                        "the handler of the record at offset %d of %s-%d did not return in "
                        "drain_timeout_ms, so it is delivered again",
                        record.offset,
                        record.topic,
                        record.partition,
                    )
            self._waiting.clear()
            self._running.clear()
            pool.shutdown(wait=False, cancel_futures=True)
            # Also what Ctrl-C has kept from `_running`.
            self._consumer.release_all()
            self._consumer.commit()


#: How long to wait for a handler before the next poll.
_IDLE_MS: Final = 20


def acknowledge(how: Callable[[], None]) -> None:
    """Acknowledge a record, unless its handler has, or it is delivered again anyway."""
    try:
        how()
    except (IllegalStateError, RecordLockLostError) as error:
        log.debug("%s", error)


def give_up(
    record: Record,
    error: Exception,
    failures: int,
    otherwise: Otherwise,
    accept: Callable[[Record], None],
) -> None:
    """Do what follows the last attempt."""
    if callable(otherwise):
        try:
            otherwise(record, error, failures)
        except Exception:
            log.exception("otherwise() failed; the record is delivered again")
            acknowledge(record.release)
        else:
            accept(record)
        return
    log.warning(
        "the handler failed %d times for offset %d of %s-%d, so the record is %s: %r",
        failures,
        record.offset,
        record.topic,
        record.partition,
        "rejected" if otherwise == "reject" else "released",
        error,
    )
    acknowledge(record.reject if otherwise == "reject" else record.release)


def check_share_workers(
    acknowledgement: str, handle: Any, workers: Any, retry: Any, otherwise: Any
) -> None:
    """Check the arguments.

    Raises:
        InvalidArgumentError, ArgumentTypeError: One of them has an invalid value or type.
    """
    if acknowledgement != "explicit":
        msg = 'the consumer acknowledges implicitly; create it with acknowledgement="explicit"'
        raise InvalidArgumentError(msg)
    if not callable(handle):
        raise ArgumentTypeError(f"handle must be a function that takes a record, got {handle!r}")
    if isinstance(workers, bool) or not isinstance(workers, int):
        raise ArgumentTypeError(f"workers must be a number, got {workers!r}")
    if workers < 1:
        raise InvalidArgumentError(f"workers must be at least 1, got {workers}")
    if not isinstance(retry, Retry):
        raise ArgumentTypeError(f"retry must be a Retry, got {retry!r}")
    if otherwise not in ("reject", "release") and not callable(otherwise):
        msg = (
            'otherwise must be "reject", "release" or a function of record, error and number of '
            f"attempts, got {otherwise!r}"
        )
        raise InvalidArgumentError(msg)
