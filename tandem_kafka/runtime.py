"""The seam through which time, threads and chance enter; the only module that knows them.

Everything else asks a `Clock` for the time, waits through a `Driver` and draws from the
`Random` it was given, so that a simulation can own all three: the same facade, loop and
request managers then run in one thread, deterministically, from a seed.
"""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from types import FrameType
from typing import Protocol, TypeVar

from tandem_kafka import green

__all__ = [
    "Clock",
    "Driver",
    "Held",
    "Loop",
    "MonotonicClock",
    "OwnerLock",
    "Random",
    "Runtime",
    "ThreadDriver",
    "thread_id",
    "thread_name",
]

T = TypeVar("T")

#: About what a thread needs to wake up, once told to. Without the pause it would then wait for
#: the GIL until the network thread has done all it has to do.
_HANDOVER_S = 0.000_05

#: A waiting thread looks again this often. Python runs a signal's handler only when the main thread
#: runs; it does not wake it if the signal came just before the system call or to another thread.
_RECHECK_S = 0.25


class Clock(Protocol):
    """Tells the time in integer milliseconds."""

    def now_ms(self) -> int:
        """Milliseconds since some fixed point; never goes back. Deadlines are in this time."""
        ...

    def after_ms(self, duration_ms: float) -> int:
        """Return the first time in `now_ms` at which so much has passed: never too early."""
        ...

    def wall_ms(self) -> int:
        """Milliseconds since the Unix epoch, as record timestamps have them."""
        ...


class Loop(Protocol):
    """What a driver runs: the network thread's loop, cut where the thread may sleep."""

    @property
    def running(self) -> bool:
        """False when the loop has been told to end and has nothing left to do."""
        ...

    def run_once(self) -> None:
        """One turn: prepare, wait in the transport's poll, complete."""
        ...

    def finish(self, failure: BaseException | None = None) -> None:
        """Called once after the last turn, on the loop's thread: close what it owns.

        `failure` is what a turn raised, if that ended the loop. Must not raise.
        """
        ...


class Driver(Protocol):
    """Who runs the loop, and how the application thread waits for it."""

    def start(self, loop: Loop, name: str) -> None:
        """Begin to run the loop.

        Raises:
            RuntimeError: The system has no thread to spare.
        """
        ...

    def notify(self, *, first: bool = False) -> None:
        """Network thread: there is something new for the application thread to look at.

        `first` lets it look before this thread goes on, if it waits.
        """
        ...

    def wait(self, ready: Callable[[], bool], deadline_ms: int) -> bool:
        """Application thread: block until `ready()` or the deadline; returns `ready()`.

        A signal (Ctrl-C) ends the wait with its exception at once.
        """
        ...

    def offload(self, work: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        """Run `work` where it may block (a DNS look-up); `done` gets what came of it.

        `done` may be called on another thread and must only touch thread-safe things. It gets a
        `RuntimeError`, at once, if the system has no thread to spare.
        """
        ...

    def join(self, deadline_ms: int) -> bool:
        """Wait for the loop to have finished; False when the deadline passed first."""
        ...


class MonotonicClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        """Milliseconds of the monotonic clock."""
        return time.monotonic_ns() // 1_000_000

    def after_ms(self, duration_ms: float) -> int:
        """Milliseconds of the monotonic clock in a while, rounded up."""
        return math.ceil(time.monotonic_ns() / 1_000_000 + duration_ms)

    def wall_ms(self) -> int:
        """Milliseconds since the Unix epoch."""
        return time.time_ns() // 1_000_000


class ThreadDriver:
    """Runs the loop on a daemon thread: an unclosed consumer never holds the interpreter.

    It looks up threads and locks in `threading` when it needs them. Where gevent or eventlet has
    put green ones there, whatever waits here lets the other green threads run.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        #: For each thread that waits a lock of its own, which it holds and `notify` releases. A
        #: released lock stays so until the thread takes it: no wake-up is lost in between, and a
        #: signal handler needs no lock that the code it interrupts may hold.
        self._waiting: list[threading.Lock] = []
        self._new_lock = threading.Lock
        self._thread: threading.Thread | None = None

    def start(self, loop: Loop, name: str) -> None:
        """Start the network thread."""
        self._thread = threading.Thread(target=self._run, args=(loop,), name=name, daemon=True)
        self._thread.start()

    def _run(self, loop: Loop) -> None:
        failure: BaseException | None = None
        try:
            while loop.running:
                loop.run_once()
        except BaseException as error:  # noqa: BLE001 - a panic in the extension, too: calls raise it
            failure = error
        try:
            loop.finish(failure)
        finally:
            self.notify()

    def notify(self, *, first: bool = False) -> None:
        """Wake the threads that wait; `first` gives them the GIL as well.

        Any thread and any signal handler may call this. It costs next to nothing while no thread
        waits.
        """
        # A lock is registered before `ready` is looked at. A change made before this call is
        # therefore either seen there or finds the lock registered.
        if self._waiting and self._wake() and first:
            time.sleep(_HANDOVER_S)

    def _wake(self) -> bool:
        asleep = [lock for lock in tuple(self._waiting) if lock.locked()]
        for lock in asleep:
            with suppress(RuntimeError):  # another thread, or a signal handler, was faster
                lock.release()
        return bool(asleep)

    def wait(self, ready: Callable[[], bool], deadline_ms: int) -> bool:
        """Block until `ready()` or the deadline; several threads may wait at once."""
        if ready():
            return True
        lock = self._new_lock()
        lock.acquire()
        try:
            self._waiting.append(lock)
            while not ready():
                left_ms = deadline_ms - self._clock.now_ms()
                if left_ms <= 0:
                    return False
                lock.acquire(timeout=min(left_ms / 1000, _RECHECK_S))
            return True
        finally:
            if lock in self._waiting:
                self._waiting.remove(lock)

    def offload(self, work: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        """Run `work` on a daemon thread of its own."""

        def run() -> None:
            try:
                result: T | BaseException = work()
            except BaseException as error:  # noqa: BLE001 - handed to the caller, whatever it is
                result = error
            done(result)

        thread = threading.Thread(target=run, name="tandem-kafka-offload", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # "can't start new thread": the caller may try again later
            done(error)

    def join(self, deadline_ms: int) -> bool:
        """Join the network thread."""
        if self._thread is None:
            return True
        left_ms = max(0, deadline_ms - self._clock.now_ms())
        self._thread.join(min(left_ms / 1000, threading.TIMEOUT_MAX))
        return not self._thread.is_alive()


@dataclass(frozen=True, slots=True)
class Runtime:
    """The clock, the driver and the source of chance of one consumer."""

    clock: Clock
    driver: Driver
    random: Random = field(default_factory=Random)

    @classmethod
    def threaded(cls) -> Runtime:
        """Real time and a real network thread."""
        clock = MonotonicClock()
        return cls(clock=clock, driver=ThreadDriver(clock))


class Held(Protocol):
    """A lock that the calling thread holds."""

    def release(self) -> None:
        """Leave it."""
        ...


class OwnerLock:
    """Lets one thread in at a time, as often as it likes, and turns others away at once.

    An interrupt (Ctrl-C) can end a method anywhere, also between taking the lock and the `try`
    that releases it. A lock that is still held although its thread has no such method on its
    stack any more is therefore taken over by the next thread.

    Green threads run only when another one waits. Each entry is such a moment: else a loop of
    `poll()` that always finds records would let neither heartbeats nor other green threads run.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._green = green.library() is not None

    def acquire(self) -> Held | None:
        """Enter; returns what to release in the end, None if the lock is held elsewhere."""
        if self._green:
            green.breathe()
        lock = self._lock
        return lock if lock.acquire(False) else None

    def nobody_else(self, inside: Callable[[FrameType], bool]) -> bool:
        """Tell whether no other thread is inside."""
        return _thread_inside(inside) is None

    def take_over(self, inside: Callable[[FrameType], bool]) -> Held | str:
        """Enter if the lock was left behind, else name the thread inside; after `acquire` failed.

        Args:
            inside: Tells whether a stack frame belongs to a method that this lock guards.
        """
        abandoned = self._lock
        name = _thread_inside(inside)
        if name is not None:
            return name
        lock = threading.RLock()
        lock.acquire()
        self._lock = lock
        # The owner may have come back before the store, with the lock that it still holds. Then
        # it is seen now; if it comes later, it finds the new lock. Two are never inside.
        name = _thread_inside(inside)
        if name is not None:
            self._lock = abandoned
            return name
        return lock


def thread_id() -> int:
    """Return the number of the thread that calls."""
    return threading.get_ident()


def thread_name() -> str:
    """Name the thread that calls."""
    return threading.current_thread().name


def _thread_inside(inside: Callable[[FrameType], bool]) -> str | None:
    """Name another thread that has such a frame on its stack; None if there is none."""
    if green.library() is not None:
        return (
            "another green thread" if any(_shows(top, inside) for top in green.frames()) else None
        )
    frames = sys._current_frames()  # noqa: SLF001 - public and documented, whatever its name
    frames.pop(threading.get_ident())
    for ident, top in frames.items():
        if _shows(top, inside):
            names = {thread.ident: thread.name for thread in threading.enumerate()}
            return names.get(ident, f"thread {ident}")
    return None


def _shows(top: FrameType, inside: Callable[[FrameType], bool]) -> bool:
    frame: FrameType | None = top
    while frame is not None:
        if inside(frame):
            return True
        frame = frame.f_back
    return False
