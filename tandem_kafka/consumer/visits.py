"""Visits of callers that interrupt the reader, to change what is read."""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import suppress

from tandem_kafka.runtime.callers import Callers, Held

#: A caller, and a new object for each visit.
Visitor = tuple[Hashable, object]


def discard(visitors: list[Visitor], visitor: Visitor) -> None:
    """Remove a visitor, if it has not been removed."""
    with suppress(ValueError):  # a reader has removed it
        visitors.remove(visitor)


class Visit:
    """Exclusive access of a caller that interrupted the reader, until it is released."""

    def __init__(
        self, visitors: list[Visitor], visitor: Visitor, held: Held, callers: Callers
    ) -> None:
        self._visitors = visitors
        self._visitor = visitor
        self._held = held
        self._callers = callers

    def release(self) -> None:
        """Leave, and let the reader continue."""
        self._held.release()
        discard(self._visitors, self._visitor)
        self._callers.notify()
