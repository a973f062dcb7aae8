"""One record batch of a simulated log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from tandem_kafka_testing.cluster.produced import Sequence

NO_PRODUCER: Final = -1

Marker = Literal["commit", "abort"]


@dataclass(frozen=True, slots=True)
class Batch:
    """Encoded records, as a broker stores them.

    Attributes:
        producer_id: Id of the transactional producer, -1 without a transaction.
        marker: How the batch ends the transaction, None for a batch of records.
        sequence: The sequence numbers of an idempotent producer, None without.
        first_timestamp: The timestamp of the first record; `timestamp` is the highest one.
    """

    base_offset: int
    next_offset: int
    epoch: int
    timestamp: int
    data: bytes
    producer_id: int = NO_PRODUCER
    marker: Marker | None = None
    sequence: Sequence | None = None
    first_timestamp: int | None = None

    @property
    def transactional(self) -> bool:
        """True if it belongs to a transaction."""
        return self.producer_id != NO_PRODUCER
