"""`ShareWorkers`: handles the records of a share group on many threads, each by itself."""

from __future__ import annotations

import inspect
import signal
from collections.abc import Callable, Iterable
from typing import Generic

from tandem_kafka import ShareConsumer, ShareRecord
from tandem_kafka.errors import ArgumentTypeError
from tandem_kafka.runtime.callers import run
from tandem_kafka.runtime.signals import handled_signals
from tandem_kafka.types import KeyT, ValueT
from tandem_kafka.workers.retry import Retry
from tandem_kafka.workers.share_attempts import Otherwise, ShareAttempts, ShareSettings
from tandem_kafka.workers.share_control import ShareRuns
from tandem_kafka.workers.threads import ThreadCrew


class ShareWorkers(ShareRuns, Generic[KeyT, ValueT]):
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
            of attempts; the record is accepted when it returns. If it raises, it is called again
            as ``retry`` says; then the record is released, and lost if that was its last delivery.
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
        settings = ShareSettings(
            handle=handle,
            workers=workers,
            retry=retry,
            exhausted=otherwise,
            drain_timeout_ms=drain_timeout_ms,
        )
        if inspect.iscoroutinefunction(handle):
            msg = f"handle must be an ordinary function, got {handle!r}; use AsyncShareWorkers"
            raise ArgumentTypeError(msg)
        super().__init__(consumer, settings, max_processing_ms)

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
        with self._running(), handled_signals(signals, self.stop):
            control = self._new_control(self._crew_of)
            self._begin(control)
            run(control.run(until))

    def _crew_of(self, attempts: ShareAttempts) -> ThreadCrew:
        runtime = self._runtime
        return ThreadCrew(attempts, self._settings, runtime.clock, runtime.driver)
