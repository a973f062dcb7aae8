"""Ends a loop cleanly: at Ctrl-C, at SIGTERM, or after a number of records."""

from __future__ import annotations

import signal
from types import FrameType

__all__ = ["Stop"]


class Stop:
    """Says when a loop should end.

    The first Ctrl-C or SIGTERM only sets a flag, so the loop finishes its batch, commits it and
    closes the consumer. The second one raises `SystemExit`, for a handler that takes too long.
    """

    def __init__(self, after: int = 0) -> None:
        """Install the handlers.

        Args:
            after: Records after which to stop; 0 for never.
        """
        self._after = after
        self._requested = False
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._request)

    def due(self, count: int = 0) -> bool:
        """Return whether to stop, after `count` records."""
        return self._requested or 0 < self._after <= count

    def _request(self, number: int, _frame: FrameType | None) -> None:
        if self._requested:
            raise SystemExit(128 + number)
        self._requested = True
