"""One record batch of a simulated log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

__all__ = ["NO_PRODUCER", "Batch", "Marker"]

NO_PRODUCER: Final = -1

Marker = Literal["commit", "abort"]


@dataclass(frozen=True, slots=True)
class Batch:
    """Some records, encoded as a broker keeps them.

    Attributes:
        producer_id: Of the transactional producer, -1 for any other.
        marker: How it ends the producer's transaction, None if it holds records.
    """

    base_offset: int
    next_offset: int
    epoch: int
    timestamp: int
    data: bytes
    producer_id: int = NO_PRODUCER
    marker: Marker | None = None

    @property
    def transactional(self) -> bool:
        """True if it belongs to a transaction."""
        return self.producer_id != NO_PRODUCER
