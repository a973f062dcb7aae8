"""Work that may block, done elsewhere; its results come back on the network thread."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

__all__ = ["Offloader", "Offloading"]

T = TypeVar("T")


class Offloader(Protocol):
    """What is needed of a `Driver`."""

    def offload(self, work: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        """Run `work` where it may block, then call `done` on whatever thread that is."""
        ...


class Offloading:
    """Hands work to the driver and results to the network thread.

    Look-ups of names and providers of tokens can take seconds: they must not hold up the
    heartbeats and fetches of every other connection.
    """

    def __init__(self, driver: Offloader, wakeup: Callable[[], None]) -> None:
        self._driver = driver
        self._wakeup = wakeup
        # Filled by any thread, emptied by the network thread: `deque` allows that without a lock.
        self._finished: deque[tuple[Callable[[Any], None], Any]] = deque()

    def run(self, work: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        """Do `work` elsewhere; a later `deliver` calls `done` with its result or exception."""

        def finished(result: T | BaseException) -> None:
            self._finished.append((done, result))
            self._wakeup()

        self._driver.offload(work, finished)

    def deliver(self) -> bool:
        """Call what waits for results that are there; returns whether there were any."""
        some = bool(self._finished)
        while self._finished:
            done, result = self._finished.popleft()
            done(result)
        return some
