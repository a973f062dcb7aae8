"""The calls of the application: who makes them, and how they wait.

The facade is written once, as coroutines. With `Threads`, a call blocks its thread while it waits.
Its coroutine then never suspends, and `run` runs it to its end. With asyncio, a call belongs to a
task, and its coroutine suspends (`consumer/aio/tasks.py`).
"""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from contextlib import suppress
from traceback import walk_stack
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from weakref import ref

from tandem_kafka.dataclass import dataclass
from tandem_kafka.runtime import Clock, Driver, green
from tandem_kafka.runtime.native import native

T = TypeVar("T")

#: Tells whether a stack frame belongs to a guarded method; None if it waits to enter one, so that
#: its callers do not count.
Inside = Callable[[FrameType], bool | None]

#: How often a thread that waits for another application thread checks its condition again.
_RECHECK_MS = 250
#: How often the stack of a running thread is searched, which may change meanwhile.
_SEARCHES = 20


def run(call: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that blocks instead of suspending, and return its result.

    A wait blocks inside the coroutine, so that the stack of a blocked thread shows the methods of
    the consumer, as `OwnerLock` needs. If an interrupt precedes the first step, Python warns that
    the coroutine was never awaited, so nothing has happened.

    Raises:
        RuntimeError: The coroutine suspended: it belongs to an event loop.
    """
    try:
        call.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    call.close()
    msg = f"{call!r} suspended; only an event loop can run it"
    raise RuntimeError(msg)


if not TYPE_CHECKING and native is not None:
    run = native.run


def is_async(call: object) -> bool:
    """Tell whether a function, or an object that can be called, is ``async def``."""
    method = getattr(call, "__call__", call)  # noqa: B004 - to look at it
    return inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(method)


def thread_names() -> dict[int | None, str]:
    """Return the names of all threads by their ids."""
    return {thread.ident: thread.name for thread in threading.enumerate()}


def let_go(objects: set[T] | list[T]) -> list[T]:
    """Remove all objects, and return those that something else refers to.

    A call of a task refers to what it holds. An interrupt, such as Ctrl-C, may have ended it before
    it could release that.
    """
    known = [ref(each) for each in objects]
    objects.clear()
    return [each for found in known if (each := found()) is not None]


class Callers(Protocol):
    """Threads, or the tasks of an event loop.

    Attributes:
        kind: "thread" or "task", for messages.
        cancellable: Whether a wait can end with a cancellation. The caller must then leave at once.
    """

    kind: str
    cancellable: bool

    def check(self) -> None:
        """Raise if the current caller cannot wait here.

        Raises:
            IllegalStateError: The consumer belongs to another event loop.
        """
        ...

    def current(self) -> Hashable:
        """Return the thread or task that is calling."""
        ...

    def name(self) -> str:
        """Return the name of the calling thread or task, for messages."""
        ...

    def lock(self) -> Lock:
        """Return a new lock that one caller at a time holds."""
        ...

    def notify(self) -> None:
        """Let the waiting callers check their conditions. Any thread or signal handler may call."""
        ...

    async def wait(self, ready: Callable[[], bool], deadline_ms: int) -> bool:
        """Wait until `ready()` or the deadline; return `ready()`."""
        ...

    def close(self) -> None:
        """Release what belongs to an event loop; the consumer is closed."""
        ...

    async def join(self, deadline_ms: int) -> bool:
        """Wait until the network thread has ended; return False if the deadline passes first."""
        ...

    async def finish(self, awaitable: Awaitable[object]) -> object:
        """Wait for an awaitable of the user, such as a coroutine of a listener."""
        ...

    def hurried_since_ms(self) -> int | None:
        """Return when a cancelled call that must finish first asked this, None for others.

        A wait for brokers asks. What passed before, for example in the listener of another task's
        poll(), was no wait for brokers.
        """
        ...

    def cancellations(self) -> int:
        """Return how often the calling task was cancelled; 0 for a thread."""
        ...

    async def shield(self, call: Awaitable[T]) -> T:
        """Complete a call even if its task is cancelled meanwhile; then raise the cancellation."""
        ...


class Held(Protocol):
    """A lock that the calling thread or task holds."""

    def release(self) -> None:
        """Release the lock."""
        ...


@dataclass(frozen=True)
class OtherHolder:
    """Another thread or task that holds a lock.

    Attributes:
        name: Its name, for messages.
    """

    name: str


class Lock(Protocol):
    """A reentrant lock that rejects other callers instead of blocking them."""

    def acquire(self) -> Held | None:
        """Return the acquired lock, or None if another caller holds it."""
        ...

    def give_up(self, held: Held, inside: Inside) -> None:
        """Release the lock for another caller, even if an interrupt has prevented a release before.

        Args:
            held: The lock.
            inside: Finds guarded methods.
        """
        ...

    def is_nested(self, inside: Inside) -> bool:
        """Tell whether the current caller is inside several guarded methods."""
        ...

    def regain(self, held: Held, inside: Inside) -> bool:
        """Acquire the lock again after it was given up; return False if another caller holds it."""
        ...

    def nobody_else(self, inside: Inside) -> bool:
        """Tell whether no other caller is inside a guarded method."""
        ...

    def take_over(self, inside: Inside) -> Held | OtherHolder:
        """Acquire an abandoned lock after `acquire` failed; return its holder if it has one."""
        ...


class Holding:
    """What a thread holds. If another one has abandoned the lock meanwhile, it becomes a new lock.

    Attributes:
        release: Releases the lock.
    """

    __slots__ = ("release",)
    release: Callable[[], None]


def _nothing() -> None:
    """Release a lock that is not held."""


class OwnerLock:
    """A reentrant lock that rejects other threads instead of blocking them.

    An interrupt (Ctrl-C) can end a method anywhere, even between acquiring the lock and the `try`
    that releases it. If the lock is held but its thread has no guarded method on its stack, the
    next thread takes the lock over.

    Green threads run only while another one waits, so each entry yields to them. Otherwise a loop
    of `poll()` calls that always find records would block heartbeats and other green threads.
    """

    __slots__ = ("__dict__", "_lock")

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._green = green.library() is not None

    def acquire(self) -> Held | None:
        """Return the acquired lock, or None if another thread holds it."""
        if self._green:
            green.yield_to_others()
        lock, held = self._lock, Holding()
        held.release = lock.release
        return held if lock.acquire(False) else None

    def give_up(self, held: Held, inside: Inside) -> None:
        """Release the lock for another thread.

        A thread that was interrupted holds the lock more often than it releases it. If this is its
        only guarded method, nothing else can have acquired the lock.
        """
        nested = self.is_nested(inside)
        # An interrupt may prevent `regain`, and the caller releases the lock in any case.
        release, held.release = held.release, _nothing  # type: ignore[method-assign]
        release()
        with suppress(RuntimeError):  # not held any more
            while not nested:
                release()

    def is_nested(self, inside: Inside) -> bool:
        """Tell whether the calling thread is inside several guarded methods."""
        return sum(bool(inside(frame)) for frame, _ in walk_stack(None)) > 1

    def regain(self, held: Held, inside: Inside) -> bool:
        """Acquire the lock again, or the one that has replaced it, or replace an abandoned one."""
        found = self.acquire() or self.take_over(inside)
        if isinstance(found, OtherHolder):
            return False
        held.release = found.release  # type: ignore[method-assign]
        return True

    def nobody_else(self, inside: Inside) -> bool:
        """Tell whether no other thread is inside a guarded method."""
        return _thread_inside(inside) is None

    def take_over(self, inside: Inside) -> Held | OtherHolder:
        """Acquire an abandoned lock after `acquire` failed; return its holder if it has one."""
        abandoned = self._lock
        name = _thread_inside(inside)
        if name is not None:
            return OtherHolder(name)
        lock = threading.RLock()
        lock.acquire()
        self._lock = lock
        # The owner may have returned before the store with the lock that it still holds. It is
        # then found here. If it returns later, it finds the new lock. Two are never inside.
        name = _thread_inside(inside)
        if name is not None:
            self._lock = abandoned
            return OtherHolder(name)
        held = Holding()
        held.release = lock.release
        return held


class Threads:
    """Callers are threads, which block."""

    kind = "thread"
    cancellable = False

    def __init__(self, clock: Clock, driver: Driver) -> None:
        self._clock = clock
        self._driver = driver
        #: Returns the id of the calling thread. Looked up here: gevent and eventlet replace it.
        self.current = threading.get_ident

    def check(self) -> None:
        """Do nothing: any thread can wait."""

    def name(self) -> str:
        """Return the name of the calling thread."""
        return threading.current_thread().name

    def lock(self) -> OwnerLock:
        """Return a new lock."""
        return OwnerLock()

    def notify(self) -> None:
        """Wake the waiting threads."""
        self._driver.notify()

    async def wait(self, ready: Callable[[], bool], deadline_ms: int) -> bool:
        """Block until `ready()` or the deadline."""
        return self._driver.wait(ready, deadline_ms)

    def close(self) -> None:
        """Do nothing: threads need nothing."""

    async def join(self, deadline_ms: int) -> bool:
        """Block until the network thread has ended, or the deadline."""
        return self._driver.join(deadline_ms)

    def hurried_since_ms(self) -> int | None:
        """Return None: threads have no cancellation."""
        return None

    def cancellations(self) -> int:
        """Return 0: threads have no cancellation."""
        return 0

    async def shield(self, call: Awaitable[T]) -> T:
        """Make the call: threads have no cancellation."""
        return await call

    async def finish(self, awaitable: Awaitable[object]) -> object:
        """Run an awaitable to completion, in a new event loop.

        A thread that already runs an event loop cannot run another one. In this case a different
        thread runs the awaitable.
        """
        import asyncio  # noqa: PLC0415 - slow to import, and few listeners are coroutines

        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(_awaited(awaitable))
        outcomes: list[object] = []

        def done(outcome: object) -> None:
            outcomes.append(outcome)
            self._driver.notify()

        self._driver.offload(lambda: asyncio.run(_awaited(awaitable)), done)
        while not self._driver.wait(lambda: bool(outcomes), self._clock.now_ms() + _RECHECK_MS):
            pass
        [outcome] = outcomes
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome


async def _awaited(awaitable: Awaitable[object]) -> object:
    return await awaitable


def _thread_inside(inside: Inside) -> str | None:
    """Return the name of another thread with such a frame on its stack, or None."""
    if green.library() is not None:
        return (
            "another green thread" if any(_shows(top, inside) for top in green.frames()) else None
        )
    for ident, top in _tops().items():
        if ident != threading.get_ident() and _found(ident, top, inside):
            return thread_names().get(ident, f"thread {ident}")
    return None


def _tops() -> dict[int, FrameType]:
    """Return the innermost frame of each thread."""
    return sys._current_frames()  # noqa: SLF001 - documented, in spite of its name


def _found(ident: int, top: FrameType, inside: Inside) -> bool:
    """Tell whether a thread has such a frame on its stack; True if its stack changes all the time.

    Invariant: a stack was searched to its end. A coroutine that ends during the search loses its
    link to its caller, so the caller would not be found. While the innermost frame is the same,
    none of its callers has ended; it is held here, so no other one can take its place.
    """
    for _ in range(_SEARCHES):
        if _shows(top, inside):
            return True
        now = _tops().get(ident)
        if now is None or now is top:
            return False
        top = now
    return True


def _shows(top: FrameType, inside: Inside) -> bool:
    frame: FrameType | None = top
    while frame is not None:
        found = inside(frame)
        if found is not False:
            return found is True
        frame = frame.f_back
    return False
