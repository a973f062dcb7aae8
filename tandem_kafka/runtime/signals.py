"""Signals that end a run."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
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
            signal.signal(number, handler)


@contextmanager
def handled_in_loop(signals: Iterable[signal.Signals], stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` on these signals, in the running event loop."""
    loop = asyncio.get_running_loop()
    before: dict[signal.Signals, Any] = {}
    try:
        for each in signals:
            previous = signal.getsignal(each)
            loop.add_signal_handler(each, stop)
            before[each] = previous
        yield
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)
