"""The seam through which time, threads and chance enter; the only module that knows them.

Everything else asks a `Clock` for the time, waits through a `Driver` and draws from the
`Random` it was given, so that a simulation can own all three: the same facade, loop and
request managers then run in one thread, deterministically, from a seed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Protocol, TypeVar

__all__ = [
    "Clock",
    "Driver",
    "Loop",
    "MonotonicClock",
    "OwnerLock",
    "Random",
    "Runtime",
    "ThreadDriver",
]

T = TypeVar("T")

#: About what a thread needs to wake up, once told to. Without the pause it would then wait for
#: the GIL until the network thread has done all it has to do.
_HAND_OVER_S = 0.000_05


class Clock(Protocol):
    """Tells the time in integer milliseconds."""

    def now_ms(self) -> int:
        """Milliseconds since some fixed point; never goes back. Deadlines are in this time."""
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

    def wall_ms(self) -> int:
        """Milliseconds since the Unix epoch."""
        return time.time_ns() // 1_000_000


class ThreadDriver:
    """Runs the loop on a daemon thread: an unclosed consumer never holds the interpreter."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._changed = threading.Condition()  # re-entrant: a signal handler may notify
        self._waiting = False
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
        """Wake the application thread if it waits; `first` gives it the GIL as well."""
        # The flag is set under the lock before `ready` is looked at, so a change made before
        # this call is either seen there or finds the flag set: no wake-up is lost, and a busy
        # application thread costs no lock.
        if self._waiting:
            with self._changed:
                self._changed.notify_all()
            if first:
                time.sleep(_HAND_OVER_S)

    def wait(self, ready: Callable[[], bool], deadline_ms: int) -> bool:
        """Block on a condition until `ready()` or the deadline."""
        if ready():
            return True
        with self._changed:
            self._waiting = True
            try:
                while not ready():
                    left_ms = deadline_ms - self._clock.now_ms()
                    if left_ms <= 0:
                        return False
                    self._changed.wait(min(left_ms / 1000, threading.TIMEOUT_MAX))
                return True
            finally:
                self._waiting = False

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


class OwnerLock:
    """Lets one thread in at a time, as often as it likes, and turns others away at once."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._owner = 0

    def acquire(self) -> bool:
        """Enter; False if another thread is inside."""
        if not self._lock.acquire(blocking=False):
            return False
        self._owner = threading.get_ident()
        return True

    def release(self) -> None:
        """Leave."""
        self._lock.release()

    def describe(self) -> str:
        """Name the thread that called and the thread inside."""
        names = {thread.ident: thread.name for thread in threading.enumerate()}
        inside = names.get(self._owner, f"thread {self._owner}")
        return f"thread {threading.current_thread().name!r} called while {inside!r} is inside"
