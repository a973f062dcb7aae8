"""Access to time, threads and random numbers; the only module that uses them directly.

All other modules get the time from a `Clock`, wait through a `Driver` and use a given `Random`. A
simulation can therefore control all three: the same facade, loop and request managers then run in
one thread, deterministically, from a seed.
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

#: About the time that a thread needs to wake up. Without this pause, the awakened thread would wait
#: for the GIL until the network thread has finished its work.
_HANDOVER_S = 0.000_05

#: How often a waiting thread wakes up. Python runs signal handlers only while the main thread runs,
#: and a signal does not wake it if it arrives just before the system call or on another thread.
_RECHECK_S = 0.25


class Clock(Protocol):
    """Returns the time in integer milliseconds."""

    def now_ms(self) -> int:
        """Return milliseconds since a fixed point; never goes back. Deadlines use this time."""
        ...

    def after_ms(self, duration_ms: float) -> int:
        """Return the first `now_ms` after a duration; never too early."""
        ...

    def wall_ms(self) -> int:
        """Return milliseconds since the Unix epoch, as in record timestamps."""
        ...


class Loop(Protocol):
    """The network thread's loop, which a driver runs."""

    @property
    def running(self) -> bool:
        """False once the loop must end and has finished its work."""
        ...

    def run_once(self) -> None:
        """Run one iteration: prepare, wait in the transport's poll, complete."""
        ...

    def finish(self, failure: BaseException | None = None) -> None:
        """Close what the loop owns; called once on its thread, after the last iteration.

        Must not raise. `failure` is the exception that ended the loop, if any.
        """
        ...


class Driver(Protocol):
    """Runs the loop, and lets application threads wait for it."""

    def start(self, loop: Loop, name: str) -> None:
        """Start the loop.

        Raises:
            RuntimeError: The system cannot start another thread.
        """
        ...

    def notify(self, *, first: bool = False) -> None:
        """Wake the waiting application threads, so that they check their conditions.

        With `first`, an awakened thread runs before the calling thread continues.
        """
        ...

    def wait(self, ready: Callable[[], bool], deadline_ms: int) -> bool:
        """Application thread: block until `ready()` or the deadline; return `ready()`.

        A signal (Ctrl-C) ends the wait immediately with its exception.
        """
        ...

    def offload(self, work: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        """Run `work`, such as a DNS lookup, where it may block; pass the outcome to `done`.

        `done` may be called on another thread and must be thread-safe. If the system cannot
        start another thread, it receives a `RuntimeError` immediately.
        """
        ...

    def join(self, deadline_ms: int) -> bool:
        """Wait until the loop has finished; return False if the deadline passes first."""
        ...


class MonotonicClock:
    """The clock of the system."""

    def now_ms(self) -> int:
        """Return milliseconds of the monotonic clock."""
        return time.monotonic_ns() // 1_000_000

    def after_ms(self, duration_ms: float) -> int:
        """Return milliseconds of the monotonic clock after a duration, rounded up."""
        return math.ceil(time.monotonic_ns() / 1_000_000 + duration_ms)

    def wall_ms(self) -> int:
        """Return milliseconds since the Unix epoch."""
        return time.time_ns() // 1_000_000


class ThreadDriver:
    """Runs the loop on a daemon thread, so that an unclosed consumer never blocks program exit.

    Threads and locks are looked up in `threading` when they are needed. If gevent or eventlet has
    patched them, waiting here lets other green threads run.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        #: One lock per waiting thread, which the thread holds and `notify` releases. The lock stays
        #: released until the thread takes it, so no wakeup is lost in between. A signal handler
        #: never needs a lock that the interrupted code may hold.
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
        except BaseException as error:  # noqa: BLE001 - also a native panic; later calls raise it
            failure = error
        try:
            loop.finish(failure)
        finally:
            self.notify()

    def notify(self, *, first: bool = False) -> None:
        """Wake the waiting threads; with `first`, hand the GIL over to them as well.

        Any thread or signal handler may call this. It is cheap while no thread waits.
        """
        # A waiting thread registers its lock before it checks `ready`. It therefore either sees a
        # change made before this call, or its lock is registered here.
        if self._waiting and self._wake() and first:
            time.sleep(_HANDOVER_S)

    def _wake(self) -> bool:
        asleep = [lock for lock in tuple(self._waiting) if lock.locked()]
        for lock in asleep:
            with suppress(RuntimeError):  # another thread or a signal handler has released it
                lock.release()
        return bool(asleep)

    def wait(self, ready: Callable[[], bool], deadline_ms: int) -> bool:
        """Block until `ready()` or the deadline; several threads may wait at the same time."""
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
        """Run `work` on a new daemon thread."""

        def run() -> None:
            try:
                result: T | BaseException = work()
            except BaseException as error:  # noqa: BLE001 - passed on to the caller
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
    """The clock, driver and random numbers of one consumer."""

    clock: Clock
    driver: Driver
    random: Random = field(default_factory=Random)

    @classmethod
    def threaded(cls) -> Runtime:
        """Return a runtime with real time and a real network thread."""
        clock = MonotonicClock()
        return cls(clock=clock, driver=ThreadDriver(clock))


class Held(Protocol):
    """A lock that the calling thread holds."""

    def release(self) -> None:
        """Release the lock."""
        ...


class OwnerLock:
    """A reentrant lock that rejects other threads instead of blocking them.

    An interrupt (Ctrl-C) can end a method anywhere, even between acquiring the lock and the `try`
    that releases it. If the lock is held but its thread has no guarded method on its stack, the
    next thread takes the lock over.

    Green threads run only while another one waits, so each entry yields to them. Otherwise a loop
    of `poll()` calls that always find records would block heartbeats and other green threads.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._green = green.library() is not None

    def acquire(self) -> Held | None:
        """Return the acquired lock, or None if another thread holds it."""
        if self._green:
            green.yield_to_others()
        lock = self._lock
        return lock if lock.acquire(False) else None

    def nobody_else(self, inside: Callable[[FrameType], bool]) -> bool:
        """Tell whether no other thread is inside a guarded method."""
        return _thread_inside(inside) is None

    def take_over(self, inside: Callable[[FrameType], bool]) -> Held | str:
        """Acquire an abandoned lock after `acquire` failed, or name the thread that holds it.

        Args:
            inside: Tells whether a stack frame belongs to a guarded method.
        """
        abandoned = self._lock
        name = _thread_inside(inside)
        if name is not None:
            return name
        lock = threading.RLock()
        lock.acquire()
        self._lock = lock
        # The owner may have returned before the store with the lock that it still holds. It is
        # then found here. If it returns later, it finds the new lock. Two are never inside.
        name = _thread_inside(inside)
        if name is not None:
            self._lock = abandoned
            return name
        return lock


def thread_id() -> int:
    """Return the id of the calling thread."""
    return threading.get_ident()


def thread_name() -> str:
    """Return the name of the calling thread."""
    return threading.current_thread().name


def _thread_inside(inside: Callable[[FrameType], bool]) -> str | None:
    """Return the name of another thread with such a frame on its stack, or None."""
    if green.library() is not None:
        return (
            "another green thread" if any(_shows(top, inside) for top in green.frames()) else None
        )
    frames = sys._current_frames()  # noqa: SLF001 - documented, in spite of its name
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
