"""Work that may block, done elsewhere; its results come back on the network thread."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Protocol, TypeVar
from weakref import WeakMethod

__all__ = ["MAX_CONCURRENT", "Offloader", "Offloading"]

T = TypeVar("T")

#: How many pieces of queued work run at a time. Work that hangs costs no more threads than this.
MAX_CONCURRENT: Final = 4


class Offloader(Protocol):
    """What is needed of a `Driver`."""

    def offload(self, work: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        """Run `work` where it may block, then call `done` on whatever thread that is."""
        ...


class Offloading:
    """Hands work to the driver and results to the network thread.

    Look-ups of names and providers of tokens can take seconds: they must not hold up the
    heartbeats and fetches of every other connection. They can also hang for ever, and cannot be
    called off. What is done for a connection is therefore bounded, and its methods are held weakly:
    work is left out, and a result is dropped, if the connection has been given up.
    """

    def __init__(self, driver: Offloader, wakeup: Callable[[], None]) -> None:
        self._driver = driver
        self._wakeup = wakeup
        # Filled by any thread, emptied by the network thread: `deque` allows that without a lock.
        self._finished: deque[tuple[Callable[[Any], None], Any]] = deque()
        self._sharing: dict[str, list[WeakMethod[Callable[[Any], None]]]] = {}
        self._queued: deque[tuple[WeakMethod[Any], WeakMethod[Callable[[Any], None]]]] = deque()
        self._running = 0

    def run(self, work: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        """Do `work` elsewhere; a later `deliver` calls `done` with its result or exception."""

        def finished(result: T | BaseException) -> None:
            self._finished.append((done, result))
            self._wakeup()

        self._driver.offload(work, finished)

    def share(self, name: str, work: Callable[[], T], done: Callable[[Any], None]) -> None:
        """Do `work` as `run` does, unless work of this name is under way: then wait for its result.

        Args:
            name: What is shared.
            work: What to do.
            done: A bound method, which is held weakly.
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
        """Do `work` as `run` does, when fewer than `MAX_CONCURRENT` pieces of queued work are under way.

        Args:
            work: A bound method, which is held weakly until it begins.
            done: A bound method, which is held weakly.
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
        """Call what waits for results that are there; returns whether there were any."""
        some = bool(self._finished)
        while self._finished:
            done, result = self._finished.popleft()
            done(result)
        return some


def _call(method: WeakMethod[Callable[[Any], None]], result: Any) -> None:
    done = method()
    if done is not None:
        done(result)
