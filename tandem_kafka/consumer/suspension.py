"""Visits of callers that interrupt the reader, to change what is read."""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import suppress

from tandem_kafka.runtime.callers import Callers, Held

#: A caller, and a new object for each suspension.
Suspending = tuple[Hashable, object]


def discard(suspending: list[Suspending], caller: Suspending) -> None:
    """Remove a caller, if it has not been removed."""
    with suppress(ValueError):  # a reader has removed it
        suspending.remove(caller)


class Suspension:
    """Exclusive access of a caller that interrupted the reader, until it is released."""

    def __init__(
        self, suspending: list[Suspending], caller: Suspending, held: Held, callers: Callers
    ) -> None:
        self._suspending = suspending
        self._caller = caller
        self._held = held
        self._callers = callers

    def release(self) -> None:
        """Leave, and let the reader continue."""
        self._held.release()
        discard(self._suspending, self._caller)
        self._callers.notify()
