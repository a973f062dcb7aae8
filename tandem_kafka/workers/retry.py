"""`Retry`: how often a handler is called for a record, and how long it waits in between."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tandem_kafka.errors import ArgumentTypeError, InvalidArgumentError
from tandem_kafka.runtime import Random

#: The share by which a backoff varies, as in Kafka's clients.
JITTER = 0.2


@dataclass(frozen=True, slots=True)
class Retry:
    """How often a record is tried, with exponential backoff.

    A record that waits for its next attempt holds back only the records that must stay behind it.

    Attributes:
        attempts: Maximum number of calls for a record, the first one included. None means no
            limit.
        backoff_ms: The backoff after the first failure and the longest one, in milliseconds. Each
            failure doubles the backoff. It varies by 20 %, so that records which failed together
            are not retried together.

    Raises:
        InvalidArgumentError: A value is out of range.
        ArgumentTypeError: A value has the wrong type.
    """

    attempts: int | None = 1
    backoff_ms: tuple[float, float] = (100, 30_000)

    def __post_init__(self) -> None:
        """Check the values."""
        attempts: Any = self.attempts
        if attempts is not None and (isinstance(attempts, bool) or not isinstance(attempts, int)):
            msg = f"attempts must be an int or None (no limit), got {attempts!r}"
            raise ArgumentTypeError(msg)
        if attempts is not None and attempts < 1:
            msg = f"attempts must be at least 1, which means no retry, got {attempts}"
            raise InvalidArgumentError(msg)
        self._check_backoff()

    def _check_backoff(self) -> None:
        backoff: Any = self.backoff_ms
        pair = isinstance(backoff, tuple) and len(backoff) == 2
        if not pair or not all(isinstance(each, int | float) for each in backoff):
            msg = f"backoff_ms must be a tuple (first, longest) in milliseconds, got {backoff!r}"
            raise ArgumentTypeError(msg)
        first, longest = backoff
        if not 1 <= first <= longest:
            msg = f"backoff_ms must satisfy 1 <= first <= longest, got {backoff!r}"
            raise InvalidArgumentError(msg)

    def delay_ms(self, failures: int, random: Random) -> int | None:
        """Return the backoff after so many failures, or None if there is no further attempt."""
        if self.attempts is not None and failures >= self.attempts:
            return None
        first, longest = self.backoff_ms
        delay = min(longest, first * 2.0 ** min(failures - 1, 60))
        return max(1, round(min(longest, delay * random.uniform(1 - JITTER, 1 + JITTER))))
