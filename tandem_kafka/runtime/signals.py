"""Signals that end a run."""

from __future__ import annotations

import asyncio
import gc
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any


@contextmanager
def handled_signals(signals: Iterable[signal.Signals], stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` on these signals."""
    before: dict[signal.Signals, Any] = {}
    try:
        for each in signals:
            before[each] = signal.signal(each, lambda _number, _frame: stop())
        yield
    finally:
        for number, handler in before.items():
            _install(number, handler)


@contextmanager
def handled_in_loop(signals: Iterable[signal.Signals], stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` on these signals, in the running event loop; several runs may have the same."""
    loop = asyncio.get_running_loop()
    with ExitStack() as ends:
        for each in signals:
            taken = _TAKEN.get((loop, each)) or _Taken(loop, each)
            taken.stops.append(stop)
            ends.callback(taken.leave, stop)
        yield


class _Taken:
    """A signal of an event loop that runs have taken, until the last of them ends."""

    def __init__(self, loop: asyncio.AbstractEventLoop, number: signal.Signals) -> None:
        self._loop = loop
        self._number = number
        self._handler = signal.getsignal(number)
        handlers = _handlers_of(loop, number)
        self._in_loop = handlers.get(number)
        #: What each run does on the signal.
        self.stops: list[Callable[[], None]] = []
        loop.add_signal_handler(number, self._stop)
        _TAKEN[loop, number] = self

    def _stop(self) -> None:
        for stop in self.stops:
            stop()

    def leave(self, stop: Callable[[], None]) -> None:
        """Call this function no longer; restore the program's handler if it was the last one."""
        self.stops.remove(stop)
        if self.stops:
            return
        del _TAKEN[self._loop, self._number]
        if self._in_loop is not None:
            _handlers_of(self._loop, self._number)[self._number] = self._in_loop
        else:
            self._loop.remove_signal_handler(self._number)
            _install(self._number, self._handler)


_TAKEN: dict[tuple[asyncio.AbstractEventLoop, signal.Signals], _Taken] = {}


def _handlers_of(loop: asyncio.AbstractEventLoop, number: int) -> dict[int, Any]:
    """Return the event loop's own dictionary of signal handlers, empty if it has none.

    No method of a loop returns a handler. That of uvloop is not visible from Python.
    """
    found: dict[int, Any] | None = getattr(loop, "_signal_handlers", None)
    if found is not None:
        return found
    tables = [each for each in gc.get_referents(loop) if isinstance(each, dict)]
    return next((each for each in tables if type(each.get(number)).__name__ == "Handle"), {})


def _install(number: signal.Signals, handler: Any) -> None:
    if handler is not None:  # one that was not installed from Python cannot be restored
        signal.signal(number, handler)
