"""Signals of the system's timer in a test, which is otherwise the time limit of pytest-timeout."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["alarms"]


@contextmanager
def alarms(handle: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Call a function at SIGALRM; afterwards the time limit goes on, for the fixtures too."""
    before = signal.signal(signal.SIGALRM, handle)
    left = signal.setitimer(signal.ITIMER_REAL, 0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, *left)
