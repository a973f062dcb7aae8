"""Records in flight: what a share partition knows of each offset that it has offered."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from tandem_kafka_testing.clock import NEVER_MS


class RecordState(enum.Enum):
    """The state of one record."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4

    @property
    def terminal(self) -> bool:
        """True if the record is never offered again."""
        return self in (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)


class Span(NamedTuple):
    """Offsets from `first` to `last`, inclusive."""

    first: int
    last: int


@dataclass(slots=True, eq=False)
class Delivery:
    """The state of one record, or of all records of a batch.

    Attributes:
        count: How often it was offered.
        member_id: The member that has acquired it; empty without one.
        lock_ends_ms: When it is released.
        ending: The state that is being written; None otherwise. Meanwhile it stays acquired.
    """

    state: RecordState = RecordState.AVAILABLE
    count: int = 0
    member_id: str = ""
    lock_ends_ms: int = NEVER_MS
    ending: RecordState | None = None

    @property
    def available(self) -> bool:
        """True if a member may acquire it."""
        return self.state is RecordState.AVAILABLE

    @property
    def acquired(self) -> bool:
        """True while a member has acquired it."""
        return self.state is RecordState.ACQUIRED

    def acquire(self, member_id: str, lock_ends_ms: int) -> None:
        """Offer it to a member."""
        self.state, self.member_id = RecordState.ACQUIRED, member_id
        self.count += 1
        self.lock_ends_ms = lock_ends_ms

    def end(self, state: RecordState, most_deliveries: int) -> None:
        """End the acquisition; a record that was offered too often is archived."""
        if state is RecordState.AVAILABLE and self.count >= most_deliveries:
            state = RecordState.ARCHIVED
        self.state, self.member_id, self.lock_ends_ms = state, "", NEVER_MS
        self.ending = None


@dataclass(slots=True, eq=False)
class InFlightBatch:
    """Offsets that were acquired together.

    Attributes:
        whole: The state of all of them; without effect after `split`.
        each: The state of each offset, after one has differed; None before.
    """

    first: int
    last: int
    whole: Delivery
    each: dict[int, Delivery] | None = None

    @property
    def size(self) -> int:
        """Number of offsets."""
        return self.last - self.first + 1

    def within(self, first: int, last: int) -> bool:
        """Return whether all its offsets are in a range."""
        return first <= self.first and self.last <= last

    def split(self) -> dict[int, Delivery]:
        """Keep the state of each offset from now on; returns the states."""
        if self.each is None:
            self.each = {n: replace(self.whole) for n in range(self.first, self.last + 1)}
        return self.each

    def parts(self) -> Iterator[tuple[Span, Delivery]]:
        """Iterate over ranges with one state."""
        if self.each is None:
            yield Span(self.first, self.last), self.whole
            return
        for offset, delivery in self.each.items():
            yield Span(offset, offset), delivery
