"""Handlers that run in an executor: the crew of `workers=Executor`."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from functools import partial
from typing import Any

from tandem_kafka.errors import IllegalStateError
from tandem_kafka.runtime import Driver
from tandem_kafka.workers.assignment import Portion, Task
from tandem_kafka.workers.run import Crew
from tandem_kafka.workers.settings import (
    UnusableHandlerError,
    WorkerSettings,
    check_not_awaitable,
    report,
)
from tandem_kafka.workers.workload import Workload

#: Submitted calls for each worker: one that runs, and one so that the worker need not wait.
SUBMITTED_PER_WORKER = 2


class ExecutorCrew(Crew):
    """Submits as many calls as the executor has use for; the others wait in the workload.

    The completion of a call submits the next one, on the thread that the executor chooses. The
    function for exhausted records runs on a thread of this process.
    """

    def __init__(
        self,
        workload: Workload,
        settings: WorkerSettings,
        driver: Driver,
        letters: Executor | None = None,
    ) -> None:
        super().__init__(workload, settings)
        self._driver = driver
        self._executor = settings.workers
        self._letters = letters
        self._owns_letters = False
        self._limit = SUBMITTED_PER_WORKER * _workers_of(settings.workers)
        self._submitted: dict[Future[Any], Task] = {}
        self._dispatching = self._again = False
        self._taken_back: set[Future[Any]] = set()
        workload.on_settled = driver.notify

    @property
    def next_ms(self) -> int | None:  # type: ignore[override]
        """When the next retry is due: no thread of this crew waits for it.

        None while the executor is full: the end of a call dispatches, so `poll()` need not spin.
        """
        full = len(self._submitted) >= self._limit
        return None if full else self._workload.next_retry_ms

    def dispatch(self) -> None:
        """Submit tasks while there is room.

        A call that is done at once submits the next one from within `submit()`. It leaves that to
        the loop here, because otherwise each call would add to the stack.
        """
        lock = self._workload.lock
        while True:
            with lock:
                if self._dispatching:
                    self._again = True
                    return
                self._dispatching, self._again = True, False
            try:
                while self._submit_next():
                    pass
            finally:
                with lock:
                    self._dispatching = False
                    again = self._again
            if not again:
                return

    def _submit_next(self) -> bool:
        with self._workload.lock:
            task = self._workload.take() if len(self._submitted) < self._limit else None
        if task is None:
            return False
        try:
            future = self._submit(task)
        except (RuntimeError, BrokenExecutor) as error:
            with self._workload.lock:
                self._workload.abandon(task)
                self._workload.fail(_unusable(self._executor, error))
            return False
        with self._workload.lock:
            self._submitted[future] = task
        future.add_done_callback(partial(self._conclude, task))
        return True

    def _submit(self, task: Task) -> Future[Any]:
        settings = self._settings
        if task.error is not None:
            if self._letters is None:
                self._letters = ThreadPoolExecutor(1, "tandem-kafka-exhausted")
                self._owns_letters = True
            return self._letters.submit(report, settings, task)
        assert isinstance(self._executor, Executor)  # noqa: S101 - a number has another crew
        argument = task.record if settings.batch == 1 else task.records
        return self._executor.submit(settings.handle, argument)

    def _conclude(self, task: Task, future: Future[Any]) -> None:
        cancelled = future.cancelled()
        error = None if cancelled else future.exception()
        workload = self._workload
        with workload.lock:
            self._submitted.pop(future, None)
            if cancelled or isinstance(error, BrokenExecutor):
                workload.abandon(task)
                if future not in self._taken_back:
                    workload.fail(_unusable(self._executor, error))
                self._taken_back.discard(future)
            else:
                workload.settle(task, error or self._misuse(task, future.result()))
        self.dispatch()

    def _misuse(self, task: Task, result: Any) -> BaseException | None:
        """Return an error if the handler has only made a coroutine."""
        if result is None or task.error is not None:
            return None
        try:
            check_not_awaitable(self._settings.handle, result)
        except UnusableHandlerError as error:
            return error
        return None

    def cancel(self, parts: Collection[Portion]) -> None:
        """Take calls back that the executor has not begun."""
        with self._workload.lock:
            mine = [future for future, task in self._submitted.items() if task.part in parts]
            self._taken_back.update(mine)
        for future in mine:
            if not future.cancel():
                with self._workload.lock:
                    self._taken_back.discard(future)

    async def wait(self, ready: Callable[[], bool], deadline_ms: int) -> bool:
        """Block until `ready()` or the deadline."""
        return self._driver.wait(ready, deadline_ms)

    async def end(self, deadline_ms: int) -> None:
        """Take back what has not begun, and wait for the rest; the executor stays open."""
        with self._workload.lock:
            parts = {task.part for task in self._submitted.values()}
        self.cancel(parts)
        self._driver.wait(lambda: not self._submitted, deadline_ms)
        if self._owns_letters and self._letters is not None:
            self._letters.shutdown(wait=False)


def _workers_of(executor: Any) -> int:
    """Return the number of workers; the executors of the standard library know it."""
    known = getattr(executor, "_max_workers", None)
    return known if isinstance(known, int) else os.cpu_count() or 1


def _unusable(executor: Any, error: BaseException | None) -> IllegalStateError:
    msg = (
        f"the executor {type(executor).__name__} accepts no more calls, or lost one (a worker "
        "process died, or shutdown() was called); records without a result are not committed"
    )
    raised = IllegalStateError(msg)
    raised.__cause__ = error
    return raised
