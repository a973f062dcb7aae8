"""The open and aborted transactions of one log."""

from __future__ import annotations

from dataclasses import dataclass

from tandem_kafka_testing.cluster.batch import Batch


@dataclass(frozen=True, slots=True)
class AbortedTransaction:
    """An aborted transaction; its marker has the last offset."""

    producer_id: int
    first_offset: int
    last_offset: int


class TransactionIndex:
    """The transactions in the batches of a log.

    Attributes:
        open: First offset of each transaction that has no marker yet, by producer id.
        aborted: The aborted transactions, in the order of their markers.
    """

    def __init__(self) -> None:
        self.open: dict[int, int] = {}
        self.aborted: list[AbortedTransaction] = []

    def add(self, batch: Batch) -> None:
        """Add an appended batch."""
        if batch.marker is None:
            if batch.transactional:
                self.open.setdefault(batch.producer_id, batch.base_offset)
            return
        # A marker without records before it ends no transaction.
        first = self.open.pop(batch.producer_id, None)
        if first is not None and batch.marker == "abort":
            self.aborted.append(AbortedTransaction(batch.producer_id, first, batch.base_offset))

    def aborted_within(self, first: int, behind: int) -> list[AbortedTransaction]:
        """Return the aborted transactions between the offsets `first` and `behind`, exclusive."""
        return [a for a in self.aborted if a.last_offset >= first and a.first_offset < behind]
