"""Threads: what runs the loop, and lets the application wait for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from typing import TYPE_CHECKING, Protocol, TypeVar

from tandem_kafka.runtime import green
from tandem_kafka.runtime.clock import Clock
from tandem_kafka.runtime.native import native

if TYPE_CHECKING:
    from tandem_kafka._native import Notifier


T = TypeVar("T")

#: About the time that a thread needs to wake up. Without this pause, the awakened thread would wait
#: for the GIL until the network thread has finished its work.
_HANDOVER_S = 0.000_05

#: How often a waiting thread wakes up. Python runs signal handlers only while the main thread runs,
#: and a signal does not wake it if it arrives just before the system call or on another thread.
_RECHECK_S = 0.25


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
    """Woken by `Driver.notify`: the lock of a waiting thread, or a task of an event loop."""

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
    #: Wakes waiting threads and tasks without the GIL; None if the application cannot wait for it.
    notifier: Notifier | None
    #: The same if a thread may block in it; None if `wait` does more than that.
    blocks_on: Notifier | None

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

    def is_current(self) -> bool:
        """Whether the network thread is the calling one."""
        ...

    def join(self, deadline_ms: int) -> bool:
        """Wait until the loop has finished; return False if the deadline passes first."""
        ...


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
        self.notifier: Notifier | None = (
            native.Notifier()
            if native_waits and native is not None and green.library() is None
            else None
        )
        self.blocks_on = self.notifier
        self._thread: threading.Thread | None = None
        #: Writer: the network thread, once started.
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
        # Invariant: a waiter registers before it checks its condition. It therefore either sees a
        # change made before this call, or is registered here.
        woken = self.notifier is not None and self.notifier.notify()
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
        notifier = self.notifier
        while notifier is not None:
            seen = notifier.count  # read before the condition, so that no change is missed
            if ready():
                return True
            left_ms = deadline_ms - self._clock.now_ms()
            if left_ms <= 0:
                return False
            notifier.wait(seen, min(left_ms / 1000, _RECHECK_S))
        if ready():
            return True
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

    def is_current(self) -> bool:
        """Whether the network thread is the calling one."""
        return self._thread is threading.current_thread()

    def join(self, deadline_ms: int) -> bool:
        """Join the network thread."""
        if self._thread is None:
            return True
        left_ms = max(0, deadline_ms - self._clock.now_ms())
        self._thread.join(min(left_ms / 1000, threading.TIMEOUT_MAX))
        return not self._thread.is_alive()


def new_lock() -> threading.RLock:
    """Return a lock that its holder, for instance a signal handler, may take again."""
    return threading.RLock()
