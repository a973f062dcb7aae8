"""Decides which failures are logged: the first, a reminder now and then, and the end.

Failures recur many times a second in an outage. If a broker flaps, its recovery is logged only
once it is stable. This bounds the log.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from tandem_kafka.types import Node

#: When an outage is logged again; the pauses double up to the maximum.
REMINDER_MS: Final = 60_000
MAX_REMINDER_MS: Final = 960_000
#: At most this many lines in `WINDOW_MS`; the last one is kept for the end.
LINES: Final = 4
WINDOW_MS: Final = 60_000


class Outage:
    """The present outage of one thing, if there is one.

    Args:
        patience_ms: An outage that ends within this time is not logged.

    Attributes:
        name: The name of the thing.
        failures: The number of failures in this outage.
        lasted_s: The duration of the outage, in seconds.
        reported: Whether the outage was logged, and its end was not.
    """

    __slots__ = (
        "_ended_ms",
        "_lines",
        "_patience_ms",
        "_pause_ms",
        "_remind_ms",
        "_since_ms",
        "failures",
        "lasted_s",
        "name",
        "reported",
    )

    def __init__(self, patience_ms: int = 0) -> None:
        self._patience_ms = patience_ms
        self._since_ms: int | None = None
        self._ended_ms: int | None = None
        self._lines: deque[int] = deque(maxlen=LINES)
        self._pause_ms = self._remind_ms = 0
        self.name = ""
        self.failures = 0
        self.lasted_s = 0
        self.reported = False

    def failed(self, now_ms: int, *, patient: bool = True) -> bool:
        """Record a failure; return whether to log it."""
        if self._since_ms is None:
            self._since_ms, self.failures = now_ms, 0
        self.failures += 1
        self._ended_ms = None
        self.lasted_s = round((now_ms - self._since_ms) / 1_000)
        first = not self.reported
        patience_ms = self._patience_ms if patient else 0
        due_ms = self._since_ms + patience_ms if first else self._remind_ms
        if now_ms < due_ms or not self._has_room(now_ms, LINES - 1):
            return False
        self._pause_ms = REMINDER_MS if first else min(2 * self._pause_ms, MAX_REMINDER_MS)
        self._remind_ms = now_ms + self._pause_ms
        self.reported = True
        self._lines.append(now_ms)
        return True

    def succeeded(self, now_ms: int) -> bool:
        """Record a success; return whether to log the end of the outage."""
        if self._since_ms is None:
            return False
        if not self.reported:
            self._since_ms = None
            return False
        if self._ended_ms is None:
            self._ended_ms = now_ms
        if not self._has_room(now_ms, LINES):
            return False
        self.lasted_s = round((self._ended_ms - self._since_ms) / 1_000)
        self._lines.append(now_ms)
        self._since_ms = None
        self.reported = False
        return True

    def _has_room(self, now_ms: int, lines: int) -> bool:
        return sum(now_ms - at_ms < WINDOW_MS for at_ms in self._lines) < lines


class Outages:
    """The outages of servers, by address: a bootstrap server and a broker may be the same."""

    def __init__(self) -> None:
        self._by_address: dict[tuple[str, int], Outage] = {}

    def of(self, node: Node) -> Outage:
        """Return the outage of a server; a broker's name is preferred to a bootstrap server's."""
        outage = self._by_address.setdefault((node.host, node.port), Outage())
        if node.node_id >= 0 or not outage.name:
            outage.name = str(node)
        return outage
