"""`AsyncKeyedWorkers`: `KeyedWorkers` for asyncio."""

from __future__ import annotations

import asyncio
import re
import signal
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Iterable
from typing import Any, Generic, Literal

from tandem_kafka import AsyncKafkaConsumer, AsyncRebalanceListener
from tandem_kafka.errors import ArgumentTypeError, KafkaError
from tandem_kafka.runtime.signals import handled_in_loop
from tandem_kafka.types import (
    ConsumerRecord,
    KeyT,
    Offsets,
    RebalanceListener,
    SubscriptionPattern,
    ValueT,
)
from tandem_kafka.workers.control import KeyedRuns
from tandem_kafka.workers.ports import ConsumerPort, Done
from tandem_kafka.workers.rebalancing import AsyncWorkersListener
from tandem_kafka.workers.retry import Retry
from tandem_kafka.workers.run import Until
from tandem_kafka.workers.settings import Order, WorkerSettings
from tandem_kafka.workers.tasks import TaskCrew, in_group


class AsyncKeyedWorkers(KeyedRuns, Generic[KeyT, ValueT]):
    """Awaits a handler for each record, in many tasks, in order for each key, at least once.

    Guarantees, commits and arguments are those of ``KeyedWorkers``, with these differences:

    Args:
        consumer: An ``AsyncKafkaConsumer`` that was started (``async with``), with ``group_id``
            and ``enable_auto_commit=False``.
        handle: An ``async def`` function of a record. With ``batch`` above 1, it takes a list of
            records. If it, or something that it awaits, is cancelled while ``run()`` continues,
            this is a failed attempt.
        order: As for ``KeyedWorkers``.
        key: As for ``KeyedWorkers``.
        workers: Number of tasks.
        batch: As for ``KeyedWorkers``.
        max_in_flight: As for ``KeyedWorkers``.
        retry: As for ``KeyedWorkers``.
        exhausted: The function may be ``async def``. An ordinary function, for example
            ``DeadLetters``, runs on a thread.
        commit_interval_ms: As for ``KeyedWorkers``.
        drain_timeout_ms: As for ``KeyedWorkers``. Handlers that are still running at the end of
            ``run()`` are cancelled.
        metadata_limit_bytes: As for ``KeyedWorkers``.
        listener: Its methods may be coroutines.
        pattern: As for ``KeyedWorkers``.

    Raises:
        IllegalStateError: The consumer has not been started.
        NoGroupError, InvalidArgumentError, ArgumentTypeError: As for ``KeyedWorkers``.
    """

    def __init__(  # noqa: PLR0913 - options, all with a name
        self,
        consumer: AsyncKafkaConsumer[KeyT, ValueT],
        handle: Callable[..., Awaitable[object]],
        *,
        order: Order = "key",
        key: Callable[[ConsumerRecord[KeyT, ValueT]], Hashable | None] | None = None,
        workers: int = 16,
        batch: int = 1,
        max_in_flight: int = 5_000,
        retry: Retry = Retry(),  # noqa: B008 - immutable
        exhausted: Literal["stop", "skip"]
        | Callable[[ConsumerRecord[KeyT, ValueT], Exception, int], object] = "stop",
        commit_interval_ms: float = 5_000,
        drain_timeout_ms: float = 30_000,
        metadata_limit_bytes: int = 4_096,
        listener: AsyncRebalanceListener | RebalanceListener | None = None,
        pattern: str | re.Pattern[str] | SubscriptionPattern | None = None,
    ) -> None:
        if not isinstance(consumer, AsyncKafkaConsumer):
            msg = (
                f"consumer must be a tandem_kafka.AsyncKafkaConsumer, got {consumer!r}; "
                "use KeyedWorkers for a KafkaConsumer"
            )
            raise ArgumentTypeError(msg)
        if not isinstance(workers, int):
            msg = f"workers must be a number of tasks, got {workers!r}; executors need KeyedWorkers"
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

    async def run(
        self, until: Until | None = None, *, signals: Iterable[signal.Signals] = ()
    ) -> None:
        """Handle records until ``stop()``, ``until()`` or a failure; then drain and commit.

        This works as ``KeyedWorkers.run()``. If it is cancelled, it cancels the running handlers,
        commits what is done, and raises ``CancelledError``. All its tasks end before it returns.

        Args:
            until: A function that returns True when the run must end. It is called after each
                poll, at least every 100 ms.
            signals: Signals that end the run. Their handlers are installed in the event loop and,
                at the end, restored. They end all runs that have them. Only the main thread can
                do this.

        Raises:
            RecordFailedError, KafkaError, IllegalStateError: As ``KeyedWorkers.run()``.
            ArgumentTypeError: ``handle`` is not an ``async def`` function.
            asyncio.CancelledError: The task was cancelled.
        """

        async def in_tasks(group: asyncio.TaskGroup) -> None:
            port, clock = AsyncPort(self._consumer), self._runtime.clock
            control = self._new_control(
                port, lambda workload: TaskCrew(workload, self._settings, clock, group)
            )
            serving = group.create_task(port.serve(), name="tandem-kafka-commits")
            self._begin(control)
            try:
                await control.run(until, AsyncWorkersListener(control, self._settings.listener))
            finally:
                serving.cancel()

        with self._running(), handled_in_loop(signals, self.stop):
            await in_group(in_tasks)


#: How long a commit in the background is retried. The next one contains what it has not committed.
COMMIT_MS = 5_000


class AsyncPort(ConsumerPort):
    """An `AsyncKafkaConsumer`. Commits in the background belong to a task of `run()`, `serve`.

    Commits are sent one at a time. A retried commit could otherwise overtake a newer one.
    """

    def __init__(self, consumer: AsyncKafkaConsumer[Any, Any]) -> None:
        super().__init__(consumer)
        self._committing = asyncio.Lock()
        self._requested: deque[tuple[Offsets, Done]] = deque()
        self._news = asyncio.Event()

    async def serve(self) -> None:
        """Send the commits of `begin_commit`, until cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            while self._requested:
                offsets, done = self._requested.popleft()
                error: Exception | None = None
                try:
                    await self.commit(offsets, COMMIT_MS)
                except KafkaError as raised:
                    error = raised
                done(error)

    async def begin_commit(self, offsets: Offsets, done: Done) -> None:
        """Let `serve` send a commit."""
        self._requested.append((offsets, done))
        self._news.set()

    async def commit(self, offsets: Offsets, timeout_ms: float) -> None:
        """Commit and wait."""
        async with self._committing:
            await super().commit(offsets, timeout_ms)
