"""Threads that take tasks by themselves: the crew of `workers=N`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection

from tandem_kafka.runtime import Clock, Driver
from tandem_kafka.workers.assignment import AssignedPartition, Task
from tandem_kafka.workers.settings import Settings
from tandem_kafka.workers.workload import Workload

__all__ = ["ThreadCrew", "new_lock"]

#: How often an idle thread checks its condition, in case nothing wakes it up.
RECHECK_S = 60.0


def new_lock() -> threading.Lock:
    """Return the lock that protects a workload which threads share."""
    return threading.Lock()


class ThreadCrew:
    """Daemon threads: a handler that never returns does not keep the process from ending.

    A thread reports the outcome of a call and takes the next task in one step, with one entry into
    the lock. It wakes up at most one other thread, which does the same. Tasks that are done faster
    than a thread wakes up thus cost no wakeups.
    """

    def __init__(
        self,
        workload: Workload,
        settings: Settings,
        clock: Clock,
        driver: Driver,
        lock: threading.Lock,
    ) -> None:
        self._workload = workload
        self._settings = settings
        self._clock = clock
        self._driver = driver
        self._changed = threading.Condition(lock)
        self._idle = 0
        #: The retry for which an idle thread waits, on behalf of all; None if no thread does.
        self._timer_ms: int | None = None
        self._ended = False
        self._alive = 0
        workload.on_settled = driver.notify

    def start(self) -> None:
        """Start the threads.

        Raises:
            RuntimeError: The system cannot start another thread.
        """
        count = self._settings.workers
        assert isinstance(count, int)  # noqa: S101 - executors have another crew
        for number in range(count):
            name = f"tandem-kafka-worker-{number}"
            thread = threading.Thread(target=self._work, name=name, daemon=True)
            self._alive += 1
            try:
                thread.start()
            except BaseException:
                self._alive -= 1
                raise

    def _work(self) -> None:
        settle, changed = self._workload.settle, self._changed
        call, error = self._call, None
        task: Task | None = None
        try:
            while True:
                with changed:
                    if task is not None:
                        settle(task, error)
                    task = self._next()
                if task is None:
                    return
                error = None
                try:
                    call(task)
                except BaseException as raised:  # noqa: BLE001 - settle() decides
                    error = raised
        finally:
            with changed:
                self._alive -= 1
            self._driver.notify()

    def _call(self, task: Task) -> None:
        settings = self._settings
        if task.error is not None:
            for record in task.records:
                settings.exhausted(record, task.error, task.failures)  # type: ignore[operator]
        elif settings.batch == 1:
            settings.handle(task.record)
        else:
            settings.handle(task.records)

    def _next(self) -> Task | None:
        """Wait for a task; None if the thread must end. The caller holds the lock."""
        workload = self._workload
        while not self._ended:
            task = workload.take()
            if task is not None:
                if self._idle and (workload.has_ready or self._needs_timer):
                    self._changed.notify()
                return task
            self._wait()
        return None

    @property
    def _needs_timer(self) -> bool:
        """Whether no thread waits for the next retry."""
        due_ms = self._workload.next_retry_ms
        return due_ms is not None and (self._timer_ms is None or due_ms < self._timer_ms)

    def _wait(self) -> None:
        due_ms = self._workload.next_retry_ms if self._needs_timer else None
        timeout_s = RECHECK_S
        if due_ms is not None:
            self._timer_ms = due_ms
            timeout_s = max(0.0, min(RECHECK_S, (due_ms - self._clock.now_ms()) / 1_000))
        self._idle += 1
        try:
            self._changed.wait(timeout_s)
        finally:
            self._idle -= 1
            if due_ms is not None and self._timer_ms == due_ms:
                self._timer_ms = None

    @property
    def next_ms(self) -> int | None:
        """Idle threads wait for retries themselves."""
        return None

    def dispatch(self) -> None:
        """Wake up a thread if a task is ready."""
        with self._changed:
            if self._idle and self._workload.has_ready:
                self._changed.notify()

    def cancel(self, parts: Collection[AssignedPartition]) -> None:
        """Do nothing: a thread has at most one task, whose call has begun."""

    async def wait(self, ready: Callable[[], bool], deadline_ms: int) -> bool:
        """Block until `ready()` or the deadline."""
        return self._driver.wait(ready, deadline_ms)

    async def end(self, deadline_ms: int) -> None:
        """End the threads; those whose handler does not return in time end after it returns."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        self._driver.wait(lambda: self._alive == 0, deadline_ms)
