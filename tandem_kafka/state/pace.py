"""How fast the application handles records of a share group."""

from __future__ import annotations

from typing import Final

#: An application that takes longer than this share of a lock between two calls is slow.
SHARE_OF_LOCK: Final = 4
#: For so many locks, an application counts as slow after it was.
CAREFUL_LOCKS: Final = 2
#: The pace is known after so many records, or so much time.
_KNOWN_RECORDS: Final = 8
_KNOWN_MS: Final = 20
#: What came before so many records, or so much time, counts half.
_RECENT_RECORDS: Final = 500
_RECENT_MS: Final = 10_000


class Pace:
    """What the reader measures between two calls. Writer: the reader.

    Attributes:
        per_ms: How many records the application handles in a millisecond, None before it is known.
        handled: How many records it has handled since it was last slow.
        given_ms: When it last got records.
        careful_until_ms: Until when nothing is to wait for it, as it was slow.
    """

    def __init__(self) -> None:
        self.per_ms: float | None = None
        self.handled = 0
        self.given_ms = 0
        self.careful_until_ms = 0
        self._records = self._busy_ms = 0.0

    def note(self, count: int, now_ms: int, lock_ms: int) -> None:
        """Note that the application is done with records, which it got at `given_ms`.

        Args:
            count: Their number.
            now_ms: The time.
            lock_ms: How long their locks last.
        """
        busy_ms = now_ms - self.given_ms
        self.handled += count
        if busy_ms * SHARE_OF_LOCK >= lock_ms:
            self.handled = 0
            self.careful_until_ms = now_ms + CAREFUL_LOCKS * lock_ms
        self._records += count
        self._busy_ms += busy_ms
        if self._records >= _KNOWN_RECORDS or self._busy_ms >= _KNOWN_MS:
            self.per_ms = self._records / max(1, self._busy_ms)
        if self._records >= _RECENT_RECORDS or self._busy_ms >= _RECENT_MS:
            self._records /= 2
            self._busy_ms /= 2
