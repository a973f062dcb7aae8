"""What happened in a simulation: its last lines for the reader, a digest of all for comparing."""

from __future__ import annotations

import hashlib
from collections import deque

from tandem_kafka.testing.clock import SimClock

__all__ = ["Trace"]


class Trace:
    """Two runs that did the same have the same digest."""

    def __init__(self, clock: SimClock, keep: int | None = 400) -> None:
        self._clock = clock
        self._hash = hashlib.sha256()
        self.count = 0
        self._last: deque[str] = deque(maxlen=keep)

    def note(self, text: str) -> None:
        """Add a line; the time is put before it."""
        line = f"{self._clock.now_ms():>10} {text}"
        self.count += 1
        self._last.append(line)
        self._hash.update(line.encode())

    @property
    def digest(self) -> str:
        """A short fingerprint of every line so far."""
        return self._hash.hexdigest()[:16]

    @property
    def lines(self) -> list[str]:
        """The newest lines, oldest first."""
        return list(self._last)
