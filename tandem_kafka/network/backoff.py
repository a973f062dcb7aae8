"""Exponential backoff between attempts."""

from __future__ import annotations

from typing import Final

from tandem_kafka.runtime import Random

#: An unlimited wait; the loop limits it to its own maximum.
FOREVER_MS: Final = 2**31 - 1

#: The minimum for the maximum backoff, whatever the options are.
SMALLEST_MAX_MS: Final = 20


class Backoff:
    """Exponential backoff with jitter, doubling from `initial_ms` up to `max_ms` (KIP-580)."""

    __slots__ = ("_attempts", "_initial_ms", "_jitter", "_max_ms", "_random")

    def __init__(self, initial_ms: int, max_ms: int, random: Random, jitter: float = 0.2) -> None:
        # With a backoff of 0, or one that never grows, a failing request would spin.
        self._initial_ms = max(1, initial_ms)
        self._max_ms = max(self._initial_ms, max_ms, SMALLEST_MAX_MS)
        self._random = random
        self._jitter = jitter
        self._attempts = 0

    @property
    def attempts(self) -> int:
        """The number of failures in a row."""
        return self._attempts

    def reset(self) -> None:
        """Start over after a success."""
        self._attempts = 0

    def next_ms(self) -> int:
        """Return how long to wait after another failure."""
        attempts, self._attempts = self._attempts, self._attempts + 1
        return self.after_ms(attempts)

    def after_ms(self, attempts: int) -> int:
        """Return how long to wait after so many failures before the last one."""
        exponent = min(attempts, 30)
        plain = min(self._initial_ms * 2**exponent, self._max_ms)
        spread = self._random.uniform(1 - self._jitter, 1 + self._jitter)
        return max(1, min(int(plain * spread), self._max_ms))
