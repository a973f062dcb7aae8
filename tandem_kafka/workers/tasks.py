"""Tasks of an event loop that take work by themselves: the crew of workers for asyncio."""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

from tandem_kafka.runtime import Clock
from tandem_kafka.runtime.callers import is_async
from tandem_kafka.workers.assignment import Task
from tandem_kafka.workers.run import Crew
from tandem_kafka.workers.settings import CallSettings, UnusableHandlerError
from tandem_kafka.workers.work import Work

#: How long `end` waits for handlers that are cancelled.
_CLEAN_UP_S: Final = 1


async def in_group(body: Callable[[asyncio.TaskGroup], Awaitable[None]]) -> None:
    """Call a function with a task group, and wait for its tasks.

    Raises:
        BaseException: What the function raises, as it is, not in an ExceptionGroup.
    """
    failure: BaseException | None = None
    async with asyncio.TaskGroup() as group:
        try:
            await body(group)
        except BaseException as error:  # noqa: BLE001 - raised below
            failure = error
    if failure is not None:
        raise failure


class Cancellations:
    """Tells whether the tasks of a run are cancelled because it ends, or by what they call.

    A library may cancel the task that it runs in when its time is over, and never take that back
    with `uncancel()`. Belongs to the task that makes it, which is that of the run.

    Attributes:
        ending: Whether the run cancels its tasks.
    """

    def __init__(self) -> None:
        self._run = asyncio.current_task()
        self._before = _count_of(self._run)
        self.ending = False

    @property
    def asked(self) -> bool:
        """Whether the run ends its tasks, or is about to: a loop that ends cancels all at once."""
        return self.ending or _count_of(self._run) > self._before

    async def call(self, awaitable: Awaitable[object]) -> None:
        """Await something of the application in a task of the run.

        Raises:
            RuntimeError: It was cancelled, and the run does not end.
            CancelledError: The run ends, and this was cancelled, or failed to clean up.
        """
        try:
            await awaitable
        except asyncio.CancelledError as error:
            if self.asked:
                raise
            msg = "the handler, or something that it awaited, was cancelled, but not by run()"
            raise RuntimeError(msg) from error
        except Exception as error:
            if self.asked:
                # Invariant: no failed attempt. Otherwise, the record of a handler whose clean-up
                # fails at the end of the run counts as one that cannot be handled.
                raise asyncio.CancelledError from error
            raise
        finally:
            await self._take_back()

    async def _take_back(self) -> None:
        """Forget cancellations of this task, which would end what it does next."""
        task = asyncio.current_task()
        if task is None or not task.cancelling() or self.asked:
            return
        while task.cancelling():
            task.uncancel()
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0)  # receives one that has not arrived


class TaskCrew(Crew):
    """A fixed number of tasks in the task group of `run()`.

    A task wakes up at most one other task, as in `ThreadCrew`.
    """

    def __init__(
        self, workload: Work, settings: CallSettings, clock: Clock, group: asyncio.TaskGroup
    ) -> None:
        super().__init__(workload, settings)
        self._clock = clock
        self._group = group
        self._cancellations = Cancellations()
        self._loop = asyncio.get_running_loop()
        self._tasks: list[asyncio.Task[None]] = []
        self._idle: deque[asyncio.Future[None]] = deque()
        #: Whether a task was woken up and has not run yet.
        self._waking = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms: int | None = None
        #: What `wait` waits for.
        self._settled: asyncio.Future[None] | None = None
        self._ended = False
        workload.on_settled = self._note_settled

    def start(self) -> None:
        """Start the tasks."""
        count = self._settings.workers
        assert isinstance(count, int)  # noqa: S101 - checked
        for number in range(count):
            name = f"tandem-kafka-worker-{number}"
            self._tasks.append(self._group.create_task(self._work(), name=name))

    async def _work(self) -> None:
        task = await self._next()
        while task is not None:
            error: BaseException | None = None
            try:
                await self._cancellations.call(self._call(task))
            except asyncio.CancelledError:
                with self._workload.lock:
                    self._workload.abandon(task)
                raise
            except BaseException as raised:  # noqa: BLE001 - settle() decides
                error = raised
            with self._workload.lock:
                self._workload.settle(task, error)
            task = await self._next()

    async def _call(self, task: Task) -> None:
        settings = self._settings
        if task.error is not None:
            for record in task.records:
                await report(settings.exhausted, record, task.error, task.failures)
            return
        result = settings.handle(task.record if settings.batch == 1 else task.records)
        if not inspect.isawaitable(result):
            msg = (
                f"handle must be an `async def` function, but {settings.handle!r} returned "
                f"{result!r}; use {settings.blocking} for ordinary functions"
            )
            raise UnusableHandlerError(msg)
        await result

    async def _next(self) -> Task | None:
        while not self._ended:
            with self._workload.lock:
                task = self._workload.take()
            self._set_timer()
            if task is not None:
                self.dispatch()
                return task
            sleep = self._loop.create_future()
            self._idle.append(sleep)
            try:
                with suppress(RuntimeError):  # what a handler had left behind has cancelled it
                    await self._cancellations.call(sleep)
            finally:
                self._waking = False
                if sleep in self._idle:
                    self._idle.remove(sleep)
        return None

    def _set_timer(self) -> None:
        """Let the loop wake a task when the next backoff ends."""
        due_ms = self._workload.next_retry_ms
        if due_ms is None or (self._timer_ms is not None and self._timer_ms <= due_ms):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ms = due_ms
        left_s = max(0, due_ms - self._clock.now_ms()) / 1_000
        self._timer = self._loop.call_later(left_s, self._end_backoff)

    def _end_backoff(self) -> None:
        self._timer = self._timer_ms = None
        if self._idle:
            self._wake_one()
        # Otherwise, the next task that is done with its call takes the record.

    def _wake_one(self) -> None:
        while self._idle:
            sleep = self._idle.popleft()
            if not sleep.done():
                sleep.set_result(None)
                self._waking = True
                return

    def dispatch(self) -> None:
        """Wake up a task if there is work, unless one is about to run."""
        if self._idle and not self._waking and self._workload.has_ready:
            self._wake_one()

    def _note_settled(self) -> None:
        if self._settled is not None and not self._settled.done():
            self._settled.set_result(None)

    async def wait(self, ready: Callable[[], bool], deadline_ms: int) -> bool:
        """Suspend until `ready()` or the deadline."""
        left_ms = deadline_ms - self._clock.now_ms()
        expired = left_ms <= 0

        def expire() -> None:
            nonlocal expired
            expired = True
            self._note_settled()

        timer = self._loop.call_later(left_ms / 1_000, expire)
        try:
            while not (ready() or expired):
                self._settled = self._loop.create_future()
                await self._settled
            return ready()
        finally:
            self._settled = None
            timer.cancel()

    async def end(self, deadline_ms: int) -> None:
        """End the tasks; those whose handler does not return in time are cancelled.

        This waits a second for these. Those that continue end the task group of `run()` later.
        """
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()
        while self._idle:
            self._wake_one()
        left_s = max(0, deadline_ms - self._clock.now_ms()) / 1_000
        try:
            await self._wait_for_tasks(left_s)
        finally:
            self._cancellations.ending = True
            try:
                self._cancel_tasks()
                await self._wait_for_tasks(_CLEAN_UP_S)
            except asyncio.CancelledError:
                self._cancel_tasks()
                raise

    async def _wait_for_tasks(self, timeout_s: float) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout_s)

    def _cancel_tasks(self) -> None:
        for task in self._tasks:
            task.cancel()


async def report(exhausted: Any, record: Any, error: Exception, attempts: int) -> None:
    """Call the function for what cannot be handled; one that is no coroutine may block a thread."""
    if is_async(exhausted):
        await exhausted(record, error, attempts)
        return
    result = await asyncio.to_thread(exhausted, record, error, attempts)
    if inspect.isawaitable(result):
        await result


def _count_of(task: asyncio.Task[Any] | None) -> int:
    return 0 if task is None else task.cancelling()
