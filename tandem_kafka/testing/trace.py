"""What happened in a simulation: its last lines for the reader, a digest of all for comparing."""

from __future__ import annotations

import hashlib
from collections import deque

from tandem_kafka.testing.clock import SimClock

__all__ = ["Trace"]

_MANY = 200


class Trace:
    """Two runs that did the same have the same digest."""

    def __init__(self, clock: SimClock, keep: int | None = 400) -> None:
        self._clock = clock
        self._hash = hashlib.sha256()
        self.count = 0
        self._last: deque[str] = deque(maxlen=keep)
        #: Lines that are not in the hash yet: it takes many at once.
        self._fresh: list[str] = []

    def note(self, text: str) -> None:
        """Add a line; the time is put before it."""
        self.count += 1
        self._fresh.append(f"{self._clock.now_ms():>10} {text}")
        if len(self._fresh) >= _MANY:
            self._take_in()

    def _take_in(self) -> None:
        self._hash.update("".join(self._fresh).encode())
        self._last.extend(self._fresh)
        self._fresh.clear()

    @property
    def digest(self) -> str:
        """A short fingerprint of every line so far."""
        self._take_in()
        return self._hash.hexdigest()[:16]

    @property
    def lines(self) -> list[str]:
        """The newest lines, oldest first."""
        self._take_in()
        return list(self._last)
