"""Runs blocking calls on other threads, and returns their results on the network thread."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from typing import Any, Final, TypeVar
from weakref import WeakMethod

from tandem_kafka.runtime import Driver

T = TypeVar("T")

#: Maximum queued calls at once; bounds the threads that are stuck in hung calls.
MAX_CONCURRENT: Final = 4


class Offloading:
    """Passes calls to the driver, and results to the network thread.

    Name lookups and token providers may take seconds, and must not delay the heartbeats and fetches
    of other connections. They may also hang forever, and cannot be cancelled. The number of calls
    for connections is therefore limited, and their methods are referenced weakly: if a connection
    has been abandoned, its call is skipped or its result dropped.
    """

    def __init__(self, driver: Driver, wakeup: Callable[[], None]) -> None:
        self._driver = driver
        self._wakeup = wakeup
        # Filled by any thread, emptied by the network thread; a deque needs no lock for this.
        self._finished: deque[tuple[Callable[[Any], None], Any]] = deque()
        self._sharing: dict[str, list[WeakMethod[Callable[[Any], None]]]] = {}
        self._queued: deque[tuple[WeakMethod[Any], WeakMethod[Callable[[Any], None]]]] = deque()
        self._running = 0

    def run(self, work: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        """Run `work` on another thread; a later `deliver` passes the outcome to `done`."""

        def enqueue(result: T | BaseException) -> None:
            self._finished.append((done, result))
            self._wakeup()

        # The lines that it logs name this thread's consumer.
        self._driver.offload(partial(copy_context().run, work), enqueue)

    def share(self, name: str, work: Callable[[], T], done: Callable[[Any], None]) -> None:
        """Run `work` like `run`, or share the result of a running call with the same name.

        Args:
            name: Identifies calls whose result can be shared.
            work: The call.
            done: A bound method, which is referenced weakly.
        """
        waiting = self._sharing.get(name)
        if waiting is None:
            self._sharing[name] = [WeakMethod(done)]
            self.run(work, partial(self._shared, name))
        else:
            self._sharing[name] = [*(each for each in waiting if each()), WeakMethod(done)]

    def _shared(self, name: str, result: Any) -> None:
        for each in self._sharing.pop(name):
            _call(each, result)

    def queue(self, work: Callable[[], T], done: Callable[[Any], None]) -> None:
        """Run `work` like `run`, but at most `MAX_CONCURRENT` such calls at a time.

        Args:
            work: A bound method, which is referenced weakly until it starts.
            done: A bound method, which is referenced weakly.
        """
        self._queued.append((WeakMethod(work), WeakMethod(done)))
        self._run_queued()

    def _run_queued(self) -> None:
        while self._queued and self._running < MAX_CONCURRENT:
            waiting, done = self._queued.popleft()
            work = waiting()
            if work is not None:
                self._running += 1
                self.run(work, partial(self._queued_done, done))

    def _queued_done(self, done: WeakMethod[Callable[[Any], None]], result: Any) -> None:
        self._running -= 1
        _call(done, result)
        self._run_queued()

    def deliver(self) -> bool:
        """Pass on the available results; return whether there were any."""
        some = bool(self._finished)
        while self._finished:
            done, result = self._finished.popleft()
            done(result)
        return some


def _call(method: WeakMethod[Callable[[Any], None]], result: Any) -> None:
    done = method()
    if done is not None:
        done(result)
