"""Time that passes only when a simulation says so."""

from __future__ import annotations

import math

__all__ = ["SimClock"]

#: 2024-01-01 in milliseconds since the Unix epoch: simulated records have believable timestamps.
_WALL_START_MS = 1_704_067_200_000


class SimClock:
    """A `Clock` that stands still between two calls of `advance_to`."""

    def __init__(self, start_ms: int = 1_000) -> None:
        self._start_ms = self._now_ms = start_ms
        self._shift_ms = 0

    def now_ms(self) -> int:
        """Return the simulated time."""
        return self._now_ms

    def after_ms(self, duration_ms: float) -> int:
        """Return the simulated time in a while."""
        return self._now_ms + math.ceil(duration_ms)

    def wall_ms(self) -> int:
        """Return the simulated time as milliseconds since the Unix epoch."""
        return _WALL_START_MS + self._shift_ms + self._now_ms - self._start_ms

    def shift_wall(self, by_ms: int) -> None:
        """Set the wall clock forth or back, as an administrator does; deadlines do not care."""
        self._shift_ms += by_ms

    def advance_to(self, when_ms: int) -> None:
        """Let time pass.

        Raises:
            ValueError: That would be backwards.
        """
        if when_ms < self._now_ms:
            msg = f"time cannot go back from {self._now_ms} to {when_ms}"
            raise ValueError(msg)
        self._now_ms = when_ms
