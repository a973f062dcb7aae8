"""What the workers of one run have to do: tasks that wait, are with a worker, or are tried again.

This is a state machine without threads, waits or input and output. Its owner holds `lock` during
each call, unless the method says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import Any

from tandem_kafka.errors import ArgumentTypeError
from tandem_kafka.logs import ClientNames, client_logger
from tandem_kafka.runtime import Clock, Random
from tandem_kafka.workers.assignment import Task
from tandem_kafka.workers.scheduler import Scheduler
from tandem_kafka.workers.settings import CallSettings, UnusableHandlerError

log = client_logger(__name__)


class Work:
    """Tasks for a crew. `Workload` and `ShareAttempts` know what follows from their outcome.

    Attributes:
        lock: Protects the state; several threads use it.
        in_flight: Number of records that are queued, wait for a retry, or are with a worker.
        done: Number of records done.
        stopped: Whether no more tasks are given to workers.
        failure: The error that ends the run, if any.
        on_room: Called when there is room for more records, or after a failure.
        on_settled: Called when the last task of a partition that is drained has returned.
    """

    def __init__(
        self,
        settings: CallSettings,
        clock: Clock,
        random: Random,
        lock: AbstractContextManager[Any],
        client: ClientNames | None = None,
    ) -> None:
        self.lock = lock
        self.in_flight = self.done = 0
        self.stopped = False
        self.failure: BaseException | None = None
        self.on_room: Callable[[], object] = _nothing
        self.on_settled: Callable[[], object] = _nothing
        self._client = client
        self._settings = settings
        self._retry = settings.retry
        self._clock = clock
        self._random = random
        self._scheduler = Scheduler(settings.batch)

    # --- for the crew --------------------------------------------------------------------------

    def take(self) -> Task | None:
        """Return a task for a worker, or None if none is ready or the run ends."""
        if self._ends:
            return None
        scheduler = self._scheduler
        if scheduler.delayed:
            scheduler.wake(self._clock.now_ms())
        task = scheduler.take()
        if task is not None:
            task.part.running += 1
        return task

    @property
    def ready_count(self) -> int:
        """Number of tasks that wait for a worker."""
        return len(self._scheduler.ready)

    @property
    def has_ready(self) -> bool:
        """Whether a task waits for a worker."""
        return bool(self._scheduler.ready) and not self._ends

    @property
    def next_retry_ms(self) -> int | None:
        """When the next backoff ends, or None. The lock is not required.

        Invariant: None at the end of a run. `take` leaves the retry where it is, and a worker that
        waits for a moment in the past spins.
        """
        return None if self._ends else self._scheduler.next_retry_ms

    @property
    def _ends(self) -> bool:
        return self.stopped or self.failure is not None

    def settle(self, task: Task, error: BaseException | None) -> None:
        """Note the outcome of a call for a task."""
        part = task.part
        part.running -= 1
        try:
            self._follow(task, error)
        except BaseException as raised:  # noqa: BLE001 - run() raises it
            # Invariant: what the application provides may raise here, such as a handler of logging,
            # or a key whose hash has changed. The worker would end, and nobody learn of the record.
            self.fail(raised)
        if part.draining and part.running == 0:
            self.on_settled()

    def _follow(self, task: Task, error: BaseException | None) -> None:
        """Do what follows from the outcome of a call."""
        if error is None:
            self._finish(task)
        elif isinstance(error, UnusableHandlerError):
            self._fail_with(task, ArgumentTypeError(str(error)))
        elif not isinstance(error, Exception):
            self._fail_with(task, error)
        elif self._drops(task):
            self._release(task)
        else:
            self._react(task, error)

    def abandon(self, task: Task) -> None:
        """Note that a task is given up without a result. Its records are not done."""
        task.part.running -= 1
        self._release(task)
        if task.part.draining:
            self.on_settled()

    def take_back(self, task: Task) -> None:
        """Queue a task again whose call has not begun, unless nobody is to have it."""
        if self._drops(task):
            self.abandon(task)
        else:
            task.part.running -= 1
            self._scheduler.retry_now(task)

    def fail(self, error: BaseException) -> None:
        """End the run with this error, unless another one came first."""
        if self.failure is None:
            self.failure = error
        else:
            with suppress(Exception):  # a handler of logging may be the reason
                log.error(
                    "another error; run() raises the first one",
                    exc_info=error,
                    client=self._client,
                )
        self.on_room()

    # --- what follows from an outcome ----------------------------------------------------------

    def _drops(self, task: Task) -> bool:
        """Tell whether a task without a result is not tried again, because its run ends."""
        raise NotImplementedError

    def _finish(self, task: Task) -> None:
        """Note that the records of a task are done."""
        raise NotImplementedError

    def _release(self, task: Task) -> None:
        """Free the lane and the room of a task."""
        raise NotImplementedError

    def _give_up(self, task: Task, error: Exception) -> None:
        """React to the last failure, if no function takes it."""
        raise NotImplementedError

    def _refuse(self, task: Task, error: Exception) -> None:
        """React to the last failure of the function for what cannot be handled."""
        raise NotImplementedError

    def _react(self, task: Task, error: Exception) -> None:
        """Retry after an error, or do what `exhausted` says."""
        delay_ms = self._delay_ms(task)
        if delay_ms is not None:
            self._postpone(task, error, delay_ms)
        elif task.error is not None:
            self._refuse(task, error)
        elif callable(self._settings.exhausted):
            task.error = error
            self._scheduler.retry_now(task)
        else:
            self._give_up(task, error)

    def _delay_ms(self, task: Task) -> int | None:
        """Count a failure; return when the task is tried again, None if it is not."""
        if task.error is None:
            task.failures += 1
            return self._retry.delay_ms(task.failures, self._random)
        task.refusals += 1
        return self._retry.delay_ms(task.refusals, self._random)

    def _postpone(self, task: Task, error: Exception, delay_ms: int) -> None:
        task.part.retries += task.size
        log.debug(
            "%s is retried in %s ms after %r",
            place_of(task),
            delay_ms,
            error,
            client=self._client,
        )
        self._scheduler.retry_at(task, self._clock.now_ms() + delay_ms)

    def _fail_with(
        self, task: Task, error: BaseException, cause: BaseException | None = None
    ) -> None:
        """End the run. The records of the task are not done, and keep their lane."""
        error.__cause__ = cause if cause is not None else error.__cause__
        self.in_flight -= task.size
        self.fail(error)


def place_of(task: Task) -> str:
    """Return topic, partition and offset of a task, for messages."""
    record = task.record
    more = f" and {len(task.more)} more" if task.more else ""
    return f"record {record.topic}-{record.partition} at offset {record.offset}{more}"


def _nothing() -> None:
    """Do nothing."""
