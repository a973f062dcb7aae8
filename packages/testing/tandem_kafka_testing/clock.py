"""Simulated time."""

from __future__ import annotations

import math

#: 2024-01-01 in milliseconds since the Unix epoch, so that records have plausible timestamps.
_WALL_START_MS = 1_704_067_200_000

#: Later than any event.
NEVER_MS = 2**62


class SimClock:
    """A `Clock` that advances only in `advance_to`."""

    def __init__(self, start_ms: int = 1_000) -> None:
        self._start_ms = self._now_ms = start_ms
        self._shift_ms = 0

    def now_ms(self) -> int:
        """Return the simulated time."""
        return self._now_ms

    def after_ms(self, duration_ms: float) -> int:
        """Return the simulated time after a duration."""
        return self._now_ms + math.ceil(duration_ms)

    def wall_ms(self) -> int:
        """Return the simulated time as milliseconds since the Unix epoch."""
        return _WALL_START_MS + self._shift_ms + self._now_ms - self._start_ms

    def shift_wall(self, by_ms: int) -> None:
        """Set the wall clock forward or back; deadlines are not affected."""
        self._shift_ms += by_ms

    def advance_to(self, when_ms: int) -> None:
        """Advance the time.

        Raises:
            ValueError: `when_ms` is in the past.
        """
        if when_ms < self._now_ms:
            msg = f"time cannot go back from {self._now_ms} to {when_ms}"
            raise ValueError(msg)
        self._now_ms = when_ms
