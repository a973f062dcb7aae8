"""Access to time, threads and random numbers; the only module that uses them directly.

All other modules get the time from a `Clock`, wait through a `Driver` and use a given `Random`. A
simulation can therefore control all three: the same facade, loop and request managers then run in
one thread, deterministically, from a seed.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Protocol, TypeVar

from tandem_kafka import green
from tandem_kafka.native import native

if TYPE_CHECKING:
    from tandem_kafka._native import Bell

__all__ = [
    "Clock",
    "Driver",
    "Loop",
    "MonotonicClock",
    "Random",
    "Runtime",
    "Stopwatch",
    "ThreadDriver",
    "Waiter",
    "new_lock",
    "sleep_ms",
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


class Waiter(Protocol):
    """What `Driver.notify` wakes: the lock of a waiting thread, or a task of an event loop."""

    def locked(self) -> bool:
        """Tell whether it is waiting and has not been woken."""
        ...

    def release(self) -> None:
        """Wake it; any thread or signal handler may call this."""
        ...


class Driver(Protocol):
    """Runs the loop, and lets the application wait for it."""

    #: What waits now. A waiter adds itself before it checks its condition, so that it misses no
    #: notification.
    waiting: list[Waiter]
    #: Wakes waiting threads without the GIL; None if the application cannot wait for it.
    bell: Bell | None

    @property
    def ended(self) -> bool:
        """Whether the loop has finished, or never started."""
        ...

    def start(self, loop: Loop, name: str) -> None:
        """Start the loop.

        Raises:
            RuntimeError: The system cannot start another thread.
        """
        ...

    def notify(self, *, first: bool = False) -> None:
        """Wake the waiting threads and tasks, so that they check their conditions.

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


class Stopwatch:
    """Measures a duration in real time, for spans and histograms.

    Attributes:
        began_ns: When it began, in nanoseconds since the Unix epoch.
    """

    __slots__ = ("_began_s", "began_ns")

    def __init__(self) -> None:
        self.began_ns = time.time_ns()
        self._began_s = time.perf_counter()

    @property
    def seconds(self) -> float:
        """The duration until now."""
        return time.perf_counter() - self._began_s


class ThreadDriver:
    """Runs the loop on a daemon thread, so that an unclosed consumer never blocks program exit.

    Threads and locks are looked up in `threading` when they are needed. If gevent or eventlet has
    patched them, waiting here lets other green threads run.
    """

    def __init__(self, clock: Clock, *, native_waits: bool = True) -> None:
        self._clock = clock
        #: One lock per waiting thread, which the thread holds and `notify` releases. The lock stays
        #: released until the thread takes it, so no wakeup is lost in between. A signal handler
        #: never needs a lock that the interrupted code may hold.
        self.waiting: list[Waiter] = []
        self._new_lock = threading.Lock
        #: Threads wait for it in native code, so that a standing fetch can wake them. It would
        #: block all green threads.
        self.bell: Bell | None = (
            native.Bell()
            if native_waits and native is not None and green.library() is None
            else None
        )
        self._thread: threading.Thread | None = None
        self._ended = True

    @property
    def ended(self) -> bool:
        """Whether the loop has finished, or never started."""
        return self._ended

    def start(self, loop: Loop, name: str) -> None:
        """Start the network thread."""
        self._ended = False
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
            self._ended = True
            self.notify()

    def notify(self, *, first: bool = False) -> None:
        """Wake the waiting threads; with `first`, hand the GIL over to them as well.

        Any thread or signal handler may call this. It is cheap while no thread waits.
        """
        # A waiter registers before it checks its condition. It therefore either sees a change made
        # before this call, or is registered here.
        woken = self.bell is not None and self.bell.ring()
        if self.waiting:
            woken |= self._wake()
        if woken and first:
            time.sleep(_HANDOVER_S)

    def _wake(self) -> bool:
        asleep = [lock for lock in tuple(self.waiting) if lock.locked()]
        for lock in asleep:
            with suppress(RuntimeError):  # another thread or a signal handler has released it
                lock.release()
        return bool(asleep)

    def wait(self, ready: Callable[[], bool], deadline_ms: int) -> bool:
        """Block until `ready()` or the deadline; several threads may wait at the same time."""
        if ready():
            return True
        if self.bell is not None:
            return self._wait_for(self.bell, ready, deadline_ms)
        lock = self._new_lock()
        lock.acquire()
        try:
            self.waiting.append(lock)
            while not ready():
                left_ms = deadline_ms - self._clock.now_ms()
                if left_ms <= 0:
                    return False
                lock.acquire(timeout=min(left_ms / 1000, _RECHECK_S))
            return True
        finally:
            if lock in self.waiting:
                self.waiting.remove(lock)

    def _wait_for(self, bell: Bell, ready: Callable[[], bool], deadline_ms: int) -> bool:
        while True:
            seen = bell.count  # read before the condition, so that no change is missed
            if ready():
                return True
            left_ms = deadline_ms - self._clock.now_ms()
            if left_ms <= 0:
                return False
            bell.wait(seen, min(left_ms / 1000, _RECHECK_S))

    def offload(self, work: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        """Run `work` on a new daemon thread."""

        def run() -> None:
            try:
                result: T | BaseException = work()
            except BaseException as error:  # noqa: BLE001 - passed on to the caller
                result = error
            done(result)

        # The lines that it logs name the consumer, as those of the calling thread do.
        context = copy_context()
        thread = threading.Thread(
            target=context.run, args=(run,), name="tandem-kafka-offload", daemon=True
        )
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
    def threaded(cls, *, native_waits: bool = True) -> Runtime:
        """Return a runtime with real time and a real network thread.

        Args:
            native_waits: Let threads wait in native code; tasks of an event loop cannot.
        """
        clock = MonotonicClock()
        return cls(clock=clock, driver=ThreadDriver(clock, native_waits=native_waits))


def new_lock() -> AbstractContextManager[bool]:
    """Return a lock that its holder, for instance a signal handler, may take again."""
    return threading.RLock()


def sleep_ms(duration_ms: float) -> None:
    """Let the calling thread wait; a signal handler that raises ends the wait."""
    time.sleep(max(0.0, duration_ms) / 1000)
