"""Time: the clock of the system, and the interface behind which a simulation has its own."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from time import monotonic_ns
from typing import Protocol


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


class MonotonicClock:
    """The clock of the system."""

    #: Returns nanoseconds of the same clock, for native code.
    now_ns = staticmethod(monotonic_ns)

    def now_ms(self) -> int:
        """Return milliseconds of the monotonic clock."""
        return monotonic_ns() // 1_000_000

    def after_ms(self, duration_ms: float) -> int:
        """Return milliseconds of the monotonic clock after a duration, rounded up."""
        return math.ceil(monotonic_ns() / 1_000_000 + duration_ms)

    def wall_ms(self) -> int:
        """Return milliseconds since the Unix epoch."""
        return time.time_ns() // 1_000_000


def nanoseconds_of(clock: Clock) -> Callable[[], int]:
    """Return a function that returns nanoseconds of a clock, which native code can call."""
    if isinstance(clock, MonotonicClock):
        return clock.now_ns
    return lambda: clock.now_ms() * 1_000_000


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


def sleep_ms(duration_ms: float) -> None:
    """Let the calling thread wait; a signal handler that raises ends the wait."""
    time.sleep(max(0.0, duration_ms) / 1000)
