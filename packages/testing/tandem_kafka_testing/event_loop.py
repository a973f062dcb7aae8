"""An event loop of asyncio in simulated time: it steps the network threads instead of sleeping."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from contextvars import Context
from typing import Any

from tandem_kafka_testing.scheduler import Scheduler

#: The longest sleep without a timer.
_IDLE_MS = 3_600_000
#: Steps of the network threads in an iteration without a sleep. A seed draws up to this number.
_STEPS = 2


class _Stepping:
    """The selector of the loop: there are no sockets, and a wait lets simulated time pass."""

    def __init__(self, loop: SimulatedEventLoop, scheduler: Scheduler) -> None:
        self._loop = loop
        self._scheduler = scheduler

    def select(self, timeout: float | None) -> list[Any]:
        """Run network threads until a callback is ready, or for `timeout` seconds."""
        clock = self._scheduler.clock
        left_ms = _IDLE_MS if timeout is None else math.ceil(round(max(0, timeout) * 1000, 6))
        until_ms = clock.now_ms() + left_ms
        if not left_ms:
            for _ in range(self._scheduler.draw(_STEPS + 1)):
                self._scheduler.step(until_ms)
        while not self._loop.woken and clock.now_ms() < until_ms:
            self._scheduler.step(until_ms)
        self._loop.woken = False
        return []

    def close(self) -> None:
        """Nothing to close."""


class SimulatedEventLoop(asyncio.BaseEventLoop):
    """Runs coroutines on the clock of a simulation, deterministically.

    Attributes:
        woken: Whether a network thread has scheduled a callback since the last sleep.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__()
        self._clock = scheduler.clock
        self._selector = _Stepping(self, scheduler)
        self.woken = False

    def time(self) -> float:
        """Return the simulated time in seconds."""
        return self._clock.now_ms() / 1000

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """Schedule a callback from a network thread."""
        self.woken = True
        return self.call_soon(callback, *args, context=context)

    def _write_to_self(self) -> None:
        """Do nothing: there is no sleep in the system to interrupt."""

    def _process_events(self, event_list: list[Any]) -> None:
        """Do nothing: there are no sockets."""
