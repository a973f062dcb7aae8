"""Access to time, threads and random numbers; the only package that uses them directly.

All other modules get the time from a `Clock`, wait through a `Driver` and use a given `Random`. A
simulation can therefore control all three: the same facade, loop and request managers then run in
one thread, deterministically, from a seed. Libraries on top of this package use the same seam.

`clock.py` and `driver.py` are the seam, `callers.py` is how calls of the application wait,
`process.py` notices forks, and `native.py` loads the extension.
"""

from __future__ import annotations

from random import Random

from tandem_kafka.dataclass import dataclass, field
from tandem_kafka.runtime.clock import Clock, MonotonicClock, Stopwatch, sleep_ms
from tandem_kafka.runtime.driver import Driver, Loop, ThreadDriver, Waiter, new_lock

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


@dataclass(frozen=True)
class Runtime:
    """The clock, driver and random numbers of one consumer."""

    clock: Clock
    driver: Driver
    random: Random = field(default_factory=Random)

    @classmethod
    def threaded(cls) -> Runtime:
        """Return a runtime with real time and a real network thread."""
        clock = MonotonicClock()
        return cls(clock=clock, driver=ThreadDriver(clock))
