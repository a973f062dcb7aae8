"""Callers that are tasks of an event loop: they suspend instead of blocking.

An `Alarm` ends their waits. There is no thread per call and no hidden task. Cancellation arrives
where a task waits, as an interrupt does in a thread.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Hashable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, TypeVar

from tandem_kafka.consumer.aio.alarms import Alarm, alarm_for
from tandem_kafka.errors import IllegalStateError
from tandem_kafka.runtime import Clock, Driver
from tandem_kafka.runtime.callers import Held, Inside, OtherHolder, let_go

if TYPE_CHECKING:
    from tandem_kafka._native import TaskCall
    from tandem_kafka.consumer.reading.reading import Begun

T = TypeVar("T")


def running_loop() -> asyncio.AbstractEventLoop:
    """Return the running event loop.

    Raises:
        IllegalStateError: No event loop of asyncio is running.
    """
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        msg = (
            "the consumer needs a running asyncio event loop; use it inside a coroutine "
            "(uvloop and anyio on asyncio work, trio does not)"
        )
        raise IllegalStateError(msg) from None


def cancellations() -> int:
    """Return how often the current task was cancelled; 0 outside of tasks."""
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


class TaskLock:
    """A reentrant lock that rejects other tasks."""

    __slots__ = ("_entries", "_holder", "_tasks")

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self._holder: Any = None
        self._entries: set[Entry | TaskCall] = set()

    def acquire(self) -> Held | None:
        """Return the acquired lock, or None if another task holds it."""
        entry = Entry(self)
        return entry if entry.acquire() else None

    def enter(self, entry: Entry) -> bool:
        """Let the current task enter, unless another one is inside."""
        current = self._tasks.current()
        if self._holder is not None:
            self._forget_interrupted()
            if self._holder not in (None, current):
                return False
        self._holder = current
        self._entries.add(entry)
        return True

    def _forget_interrupted(self) -> None:
        """End the entries that an interrupt has kept from their release.

        The task may have ended, or have gone on with something else.
        """
        entries = let_go(self._entries)
        if not (isinstance(self._holder, asyncio.Future) and self._holder.done()):
            self._entries.update(entries)
        if not self._entries:
            self._holder = None

    def leave(self, entry: Entry) -> None:
        """End an entry; do nothing if it has ended."""
        self._entries.discard(entry)
        if not self._entries:
            self._holder = None

    def give_up(self, held: Held, inside: Inside) -> None:
        """Release the lock for another task."""
        del inside
        held.release()

    def is_nested(self, inside: Inside) -> bool:
        """Tell whether the task that holds the lock has entered several times."""
        del inside
        return len(self._entries) > 1

    def regain(self, held: Held, inside: Inside) -> bool:
        """Acquire the lock again."""
        del inside
        return isinstance(held, Entry) and held.acquire()

    def nobody_else(self, inside: Inside) -> bool:
        """Return False: `enter` finds out whether a call has abandoned the lock."""
        del inside
        return False

    def take_over(self, inside: Inside) -> OtherHolder:
        """Return the task that holds the lock."""
        del inside
        get_name = getattr(self._holder, "get_name", None)
        return OtherHolder(get_name() if get_name is not None else repr(self._holder))


class Entry:
    """A lock that a task holds.

    A cancelled task may have released it before, to let another task in. A second release must
    then not end the entry of that task.
    """

    def __init__(self, lock: TaskLock) -> None:
        self._lock = lock

    def acquire(self) -> bool:
        """Acquire the lock, possibly again; return False if another task holds it."""
        return self._lock.enter(self)

    def release(self) -> None:
        """Release the lock, if it is held."""
        self._lock.leave(self)


class Tasks:
    """Callers are tasks of one event loop."""

    kind = "task"
    cancellable = True
    cancellations = staticmethod(cancellations)

    def __init__(self, clock: Clock, driver: Driver, loop: asyncio.AbstractEventLoop) -> None:
        self._clock = clock
        self._driver = driver
        self._loop = loop
        self._alarm = alarm_for(loop, driver)
        #: Tasks that must finish a call, with the cancellation to raise afterwards, and since when
        #: they hurry.
        self._shielded: dict[Hashable, tuple[asyncio.CancelledError, int | None] | None] = {}

    def check(self) -> None:
        """Raise if the current caller is not a task of this event loop.

        Raises:
            IllegalStateError: No event loop is running, or another one.
        """
        if running_loop() is not self._loop:
            msg = (
                "the consumer belongs to the event loop in which it was started; create another "
                "consumer for this one, or use asyncio.run_coroutine_threadsafe()"
            )
            raise IllegalStateError(msg)

    def current(self) -> Hashable:
        """Return the current task; the loop itself in a callback of the loop."""
        return asyncio.current_task(self._loop) or self._loop

    def name(self) -> str:
        """Return the name of the current task."""
        task = asyncio.current_task(self._loop)
        return task.get_name() if task is not None else "callback of the event loop"

    def lock(self) -> TaskLock:
        """Return a new lock."""
        return TaskLock(self)

    def notify(self) -> None:
        """Wake the waiting tasks."""
        self._driver.notify()

    async def wait(self, ready: Callable[[], bool], deadline_ms: int) -> bool:
        """Suspend until `ready()` or the deadline; return `ready()`.

        Raises:
            asyncio.CancelledError: The task was cancelled, and is not shielded.
        """
        if ready():
            return True
        self.check()
        alarm = self._alarm
        try:
            while True:
                alarm.arm()
                if ready():
                    return True
                left_ms = deadline_ms - self._clock.now_ms()
                if left_ms <= 0:
                    return False
                await self._sleep(alarm, left_ms)
        finally:
            alarm.disarm()

    async def complete(self, call: TaskCall) -> Begun | None:
        """Suspend until a call that has begun need not wait any more.

        Returns:
            What Python needs to go on; None if there is a result, or the task was cancelled.

        Raises:
            asyncio.CancelledError: The task was cancelled.
        """
        alarm = self._alarm
        try:
            alarm.arm()
            while (left_ms := call.step()) is not None:
                await (alarm.sleep(left_ms) if left_ms else asyncio.sleep(0))
                alarm.arm()
            goes_on = call.result is None and call.suspended
            return call.hand_over() if goes_on else None
        finally:
            call.leave()
            alarm.disarm()

    async def _sleep(self, alarm: Alarm, left_ms: int) -> None:
        try:
            await alarm.sleep(left_ms)
        except asyncio.CancelledError as error:
            current = self.current()
            if current not in self._shielded:
                raise
            if self._shielded[current] is None:
                self._shielded[current] = error, None

    def hurried_since_ms(self) -> int | None:
        """Return when a cancelled call that must finish first asked this, None for others."""
        if not self._shielded:
            return None
        current = self.current()
        cancelled = self._shielded.get(current)
        if cancelled is None:
            return None
        error, since_ms = cancelled
        if since_ms is None:
            since_ms = self._clock.now_ms()
            self._shielded[current] = error, since_ms
        return since_ms

    def close(self) -> None:
        """Release what belongs to the event loop. Tasks may still wait."""
        # What waits from here on does without the notifier.
        alarm, self._alarm = self._alarm, Alarm(self._loop, self._driver)
        alarm.close()

    def abandon(self) -> None:
        """Do the same on any thread, at any time: the consumer was never closed."""
        try:
            self._loop.call_soon_threadsafe(self._alarm.close)
        except RuntimeError:  # the loop has been closed
            self._alarm.close()

    async def join(self, deadline_ms: int) -> bool:
        """Suspend until the network thread has ended, or the deadline."""
        ended = await self.wait(lambda: self._driver.ended, deadline_ms)
        # The loop has finished; the thread is in its last instructions.
        return ended and self._driver.join(deadline_ms)

    async def finish(self, awaitable: Awaitable[object]) -> object:
        """Wait for an awaitable of the user, in the current task, without a shield.

        With a shield, a timeout inside the awaitable would cancel the whole call.
        """
        current = self.current()
        shielded = current in self._shielded
        cancelled = self._shielded.pop(current, None)
        try:
            return await awaitable
        finally:
            if shielded:
                self._shielded[current] = cancelled

    async def shield(self, call: Awaitable[T]) -> T:
        """Complete a call of this consumer, then raise the cancellation that arrived meanwhile.

        Only its waits for the network thread are shielded: a coroutine of the user is cancelled.
        """
        current = self.current()
        if current in self._shielded:
            return await call
        self._shielded[current] = None
        try:
            with _anyio_shield():
                return await call
        finally:
            cancelled = self._shielded.pop(current)
            if cancelled is not None:
                raise cancelled[0]


def _anyio_shield() -> AbstractContextManager[object]:
    """Return anyio's own shield, because anyio cancels a task again each time it waits."""
    anyio = sys.modules.get("anyio")
    scope: AbstractContextManager[object]
    scope = nullcontext() if anyio is None else anyio.CancelScope(shield=True)
    return scope
