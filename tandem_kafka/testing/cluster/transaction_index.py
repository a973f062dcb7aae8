"""Which transactions of one log are open, and which were aborted."""

from __future__ import annotations

from dataclasses import dataclass

from tandem_kafka.testing.cluster.batch import Batch

__all__ = ["AbortedTransaction", "TransactionIndex"]


@dataclass(frozen=True, slots=True)
class AbortedTransaction:
    """One transaction that came to nothing; the marker that says so has the last offset."""

    producer_id: int
    first_offset: int
    last_offset: int


class TransactionIndex:
    """What a leader knows of the transactions in a log: all of it follows from the batches.

    Attributes:
        open: First offset of each transaction that has no marker yet, by producer id.
        aborted: The aborted ones, in the order of their markers.
    """

    def __init__(self) -> None:
        self.open: dict[int, int] = {}
        self.aborted: list[AbortedTransaction] = []

    def add(self, batch: Batch) -> None:
        """Take note of what was appended."""
        if batch.marker is None:
            if batch.transactional:
                self.open.setdefault(batch.producer_id, batch.base_offset)
            return
        # A marker without records before it ends nothing.
        first = self.open.pop(batch.producer_id, None)
        if first is not None and batch.marker == "abort":
            self.aborted.append(AbortedTransaction(batch.producer_id, first, batch.base_offset))

    def aborted_within(self, first: int, behind: int) -> list[AbortedTransaction]:
        """Return those that reach into the offsets from `first` to before `behind`."""
        return [a for a in self.aborted if a.last_offset >= first and a.first_offset < behind]
