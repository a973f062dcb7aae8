"""Exponential back-off between attempts, and the wait that never ends."""

from __future__ import annotations

from typing import Final

from tandem_kafka.runtime import Random

__all__ = ["FOREVER_MS", "Backoff"]

#: "Nothing to wait for here": the loop sleeps at most its own maximum.
FOREVER_MS: Final = 2**31 - 1

#: A back-off grows at least this far, whatever the options say.
SMALLEST_MAX_MS: Final = 20


class Backoff:
    """Exponential back-off with jitter, from `initial_ms` doubling up to `max_ms` (KIP-580)."""

    __slots__ = ("_attempts", "_initial_ms", "_jitter", "_max_ms", "_random")

    def __init__(self, initial_ms: int, max_ms: int, random: Random, jitter: float = 0.2) -> None:
        # A back-off of 0, or one that never grows, would let a failing request spin.
        self._initial_ms = max(1, initial_ms)
        self._max_ms = max(self._initial_ms, max_ms, SMALLEST_MAX_MS)
        self._random = random
        self._jitter = jitter
        self._attempts = 0

    @property
    def attempts(self) -> int:
        """Failures in a row."""
        return self._attempts

    def reset(self) -> None:
        """Start over: it worked."""
        self._attempts = 0

    def next_ms(self) -> int:
        """How long to wait after one more failure."""
        exponent = min(self._attempts, 30)
        self._attempts += 1
        plain = min(self._initial_ms * 2**exponent, self._max_ms)
        spread = self._random.uniform(1 - self._jitter, 1 + self._jitter)
        return max(1, min(int(plain * spread), self._max_ms))
