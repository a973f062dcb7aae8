"""The trace of a simulation: its last lines, and a digest of all lines to compare runs."""

from __future__ import annotations

import hashlib
from collections import deque

from tandem_kafka_testing.clock import SimClock

_MANY = 200


class Trace:
    """Lines with times; equal runs have equal digests."""

    def __init__(self, clock: SimClock, keep: int | None = 400) -> None:
        self._clock = clock
        self._hash = hashlib.sha256()
        self.count = 0
        self._last: deque[str] = deque(maxlen=keep)
        #: Lines that are not hashed yet: many at once are faster.
        self._fresh: list[str] = []

    def note(self, text: str) -> None:
        """Add a line with the present time."""
        self.count += 1
        self._fresh.append(f"{self._clock.now_ms():>10} {text}")
        if len(self._fresh) >= _MANY:
            self._hash_fresh()

    def _hash_fresh(self) -> None:
        self._hash.update("".join(self._fresh).encode())
        self._last.extend(self._fresh)
        self._fresh.clear()

    @property
    def digest(self) -> str:
        """A short hash of all lines so far."""
        self._hash_fresh()
        return self._hash.hexdigest()[:16]

    @property
    def lines(self) -> list[str]:
        """The newest lines, oldest first."""
        self._hash_fresh()
        return list(self._last)
