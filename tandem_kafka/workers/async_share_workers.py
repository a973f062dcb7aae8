"""`AsyncShareWorkers`: `ShareWorkers` for asyncio."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterable
from typing import Generic

from tandem_kafka import AsyncShareConsumer, ShareRecord
from tandem_kafka.errors import ArgumentTypeError
from tandem_kafka.runtime.signals import handled_in_loop
from tandem_kafka.types import KeyT, ValueT
from tandem_kafka.workers.retry import Retry
from tandem_kafka.workers.share_attempts import Otherwise, ShareSettings
from tandem_kafka.workers.share_control import ShareRuns
from tandem_kafka.workers.tasks import TaskCrew, in_group


class AsyncShareWorkers(ShareRuns, Generic[KeyT, ValueT]):
    """Awaits a handler for each record of a share group, in many tasks, in no order.

    Guarantees and arguments are those of ``ShareWorkers``, with these differences:

    Args:
        consumer: An ``AsyncShareConsumer`` with ``acknowledgement="explicit"`` that was started
            (``async with``).
        handle: An ``async def`` function of a record. If it, or something that it awaits, is
            cancelled while ``run()`` continues, this is a failed attempt.
        workers: How many handlers run at the same time.
        retry: As for ``ShareWorkers``.
        otherwise: The function may be ``async def``. An ordinary function, for example
            ``DeadLetters``, runs on a thread.
        max_processing_ms: As for ``ShareWorkers``.
        drain_timeout_ms: As for ``ShareWorkers``. Handlers that are still running then are
            cancelled. ``run()`` also waits for one that continues although it was cancelled; after
            a second, all records are released nevertheless.

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
        settings = ShareSettings(
            handle=handle,
            workers=workers,
            retry=retry,
            exhausted=otherwise,
            drain_timeout_ms=drain_timeout_ms,
        )
        super().__init__(consumer, settings, max_processing_ms)

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

        async def in_tasks(group: asyncio.TaskGroup) -> None:
            clock = self._runtime.clock
            control = self._new_control(
                lambda attempts: TaskCrew(attempts, self._settings, clock, group)
            )
            self._begin(control)
            await control.run(until)

        with self._running(), handled_in_loop(signals, self.stop):
            await in_group(in_tasks)
