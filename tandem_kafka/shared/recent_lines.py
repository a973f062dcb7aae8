"""Log lines that would repeat themselves."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Final

#: How often the same line is logged at most.
INTERVAL_MS: Final = 60_000


class RecentLines:
    """The lines that were logged in the last interval, in the order of their times.

    One thread uses it.
    """

    __slots__ = ("_logged_ms", "_most")

    def __init__(self, most: float = math.inf) -> None:
        """Allow `most` different lines in an interval."""
        self._most = most
        self._logged_ms: dict[Hashable, int] = {}

    def take(self, line: Hashable, now_ms: int) -> bool:
        """Tell whether a line may be logged now, which counts as logged then."""
        logged_ms = self._logged_ms
        while logged_ms and now_ms - logged_ms[oldest := next(iter(logged_ms))] >= INTERVAL_MS:
            del logged_ms[oldest]
        if line in logged_ms or len(logged_ms) >= self._most:
            return False
        logged_ms[line] = now_ms
        return True
