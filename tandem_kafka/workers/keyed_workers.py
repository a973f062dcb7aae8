"""`KeyedWorkers`: handles the records of a `KafkaConsumer` in parallel, in order for each key."""

from __future__ import annotations

import inspect
import re
import signal
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import Executor, ProcessPoolExecutor
from pickle import PicklingError, dumps
from typing import Generic, Literal

from tandem_kafka import KafkaConsumer
from tandem_kafka.errors import ArgumentTypeError, InvalidArgumentError
from tandem_kafka.runtime.callers import run
from tandem_kafka.runtime.signals import handled_signals
from tandem_kafka.types import ConsumerRecord, KeyT, RebalanceListener, SubscriptionPattern, ValueT
from tandem_kafka.workers.control import KeyedRuns
from tandem_kafka.workers.executors import ExecutorCrew
from tandem_kafka.workers.ports import BlockingPort
from tandem_kafka.workers.rebalancing import WorkersListener
from tandem_kafka.workers.retry import Retry
from tandem_kafka.workers.run import Crew, Until
from tandem_kafka.workers.settings import Order, WorkerSettings
from tandem_kafka.workers.threads import ThreadCrew
from tandem_kafka.workers.workload import Workload


class KeyedWorkers(KeyedRuns, Generic[KeyT, ValueT]):
    """Calls a handler for each record, on many workers, in order for each key, at least once.

    A record is done when the handler returns. The commit contains the lowest offset that is not
    done, and in its metadata which later ones are done. After a crash or a rebalance, no record
    that a commit marks as done is handled again. Records that were done after the last commit are.

    ``run()`` polls on the calling thread, so a slow handler does not cost the membership. The
    handler must be thread-safe. Decode values in the handler rather than in a deserializer of the
    consumer: an error then is one of the handler, which ``retry`` and ``exhausted`` cover.

    Args:
        consumer: A consumer with ``group_id`` and ``enable_auto_commit=False``. While ``run()``
            runs, do not poll, seek or commit. Its rebalance listener is replaced; pass yours as
            ``listener``.
        handle: Called with a record. With ``batch`` above 1, it is called with a list of records.
            Its result is ignored. An exception is a failed attempt.
        order: Which records are handled one after another. ``"key"``: those of a partition with
            the same key; records without a key have no order. ``"partition"``: those of a
            partition. ``"none"``: none.
        key: A function that returns what to use instead of the record's key. Records with equal
            values are handled one after another, also those of different partitions. None means
            no order. The value must be hashable.
        workers: Number of threads, or an executor, for example a ``ProcessPoolExecutor``. An
            executor stays open. Handler and records must be picklable if it needs that.
        batch: Maximum number of records of a call. They have the same partition and key, and are
            those that wait already. If the call fails, all of them are tried again together.
        max_in_flight: Maximum number of records that are queued or running. Partitions are
            paused when it is reached; polling continues. As many more may wait for their next
            attempt, or behind such a record.
        retry: Number of attempts and backoff; by default one attempt.
        exhausted: What follows the last attempt. ``"stop"``: ``run()`` drains, commits and raises
            ``RecordFailedError``. ``"skip"``: the record counts as done, and a warning is logged.
            A function, for example ``DeadLetters``, is called with the record, the last exception
            and the number of attempts; the record is done when it returns. If it raises, it is
            called again as ``retry`` says, and then ``run()`` stops. With an executor, it runs on
            a thread of this process.
        commit_interval_ms: Time between commits, in milliseconds.
        drain_timeout_ms: How long a revocation or the end of ``run()`` waits for running handlers,
            in milliseconds. Records that wait for a worker are dropped. Must be less than the
            consumer's ``max_poll_interval_ms``.
        metadata_limit_bytes: Maximum length of the metadata of a commit, in bytes. The broker's
            limit is its ``offset.metadata.max.bytes``, 4096 by default. A partition is paused
            before its metadata could become longer.
        listener: A rebalance listener. It is called after the workers have drained revoked
            partitions, fenced lost ones, or taken over new ones.
        pattern: Subscribe to the topics that match this pattern; the consumer must have no
            other kind of subscription. Without it, the workers take over the subscription of the
            consumer, to topics or to a pattern, and ``listener`` replaces its listener.

    Raises:
        NoGroupError: The consumer has no ``group_id``.
        InvalidArgumentError: An argument has an invalid value, or ``enable_auto_commit`` is True.
        ArgumentTypeError: An argument has the wrong type.
    """

    def __init__(  # noqa: PLR0913 - options, all with a name
        self,
        consumer: KafkaConsumer[KeyT, ValueT],
        handle: Callable[..., object],
        *,
        order: Order = "key",
        key: Callable[[ConsumerRecord[KeyT, ValueT]], Hashable | None] | None = None,
        workers: int | Executor = 16,
        batch: int = 1,
        max_in_flight: int = 5_000,
        retry: Retry = Retry(),  # noqa: B008 - immutable
        exhausted: Literal["stop", "skip"]
        | Callable[[ConsumerRecord[KeyT, ValueT], Exception, int], object] = "stop",
        commit_interval_ms: float = 5_000,
        drain_timeout_ms: float = 30_000,
        metadata_limit_bytes: int = 4_096,
        listener: RebalanceListener | None = None,
        pattern: str | re.Pattern[str] | SubscriptionPattern | None = None,
    ) -> None:
        if not isinstance(consumer, KafkaConsumer):
            msg = (
                f"consumer must be a KafkaConsumer of tandem_kafka, got {consumer!r}; use "
                "AsyncKeyedWorkers for an AsyncKafkaConsumer"
            )
            raise ArgumentTypeError(msg)
        settings = WorkerSettings(
            handle=handle,
            order=order,
            key=key,
            workers=workers,
            batch=batch,
            max_in_flight=max_in_flight,
            retry=retry,
            exhausted=exhausted,
            commit_interval_ms=commit_interval_ms,
            drain_timeout_ms=drain_timeout_ms,
            metadata_limit_bytes=metadata_limit_bytes,
            listener=listener,
            pattern=pattern,
        )
        super().__init__(consumer, settings)
        _check_picklable(settings)
        if inspect.iscoroutinefunction(handle):
            msg = (
                f"handle must be an ordinary function, got the coroutine function {handle!r}; use "
                "AsyncKeyedWorkers"
            )
            raise ArgumentTypeError(msg)
        self._letters: Executor | None = None

    def run(self, until: Until | None = None, *, signals: Iterable[signal.Signals] = ()) -> None:
        """Handle records until ``stop()``, ``until()`` or a failure; then drain and commit.

        At the end, records that wait for a worker are dropped, running handlers may finish within
        ``drain_timeout_ms``, and what is done is committed. The consumer continues at the lowest
        offset that is not done. It stays open and in the group; ``run()`` may be called again.

        Args:
            until: A function that returns True when the run must end. It is called after each
                poll, at least every 100 ms.
            signals: Signals that end the run, for example ``[signal.SIGTERM, signal.SIGINT]``.
                Their handlers are installed and, at the end, restored. Only the main thread can
                do this. Without them, Ctrl-C raises KeyboardInterrupt after the drain; a second
                Ctrl-C ends the drain.

        Raises:
            RecordFailedError: A record failed and ``exhausted`` is ``"stop"``, or its function
                failed; or a record has no usable key.
            KafkaError: An error of the consumer, for example of ``poll()`` or of the last commit.
            IllegalStateError: The consumer has no topics, another ``run()`` is in progress, or the
                executor accepts no more calls.
            BaseException: A handler raised an exception that is not an ``Exception``, for example
                SystemExit. It is raised here after the drain, and its record is not done.
        """
        with self._running(), handled_signals(signals, self.stop):
            control = self._new_control(BlockingPort(self._consumer), self._crew_of)
            self._begin(control)
            run(control.run(until, WorkersListener(control, self._settings.listener)))

    def _crew_of(self, workload: Workload) -> Crew:
        runtime, settings = self._runtime, self._settings
        if isinstance(settings.workers, Executor):
            return ExecutorCrew(workload, settings, runtime.driver, self._letters)
        return ThreadCrew(workload, settings, runtime.clock, runtime.driver)


def _check_picklable(settings: WorkerSettings) -> None:
    """Check a handler for other processes now, not at the first record."""
    if isinstance(settings.workers, ProcessPoolExecutor):
        try:
            dumps(settings.handle)
        except (PicklingError, AttributeError, TypeError) as error:
            msg = (
                f"handle cannot be pickled, which a ProcessPoolExecutor needs: {error}; use a "
                "function of a module"
            )
            raise InvalidArgumentError(msg) from error
