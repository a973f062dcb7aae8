"""The last batches of idempotent producers in one log (KIP-98)."""

from __future__ import annotations

from collections import deque
from typing import Final

from kafka import errors

from tandem_kafka_testing.cluster.batch import Batch
from tandem_kafka_testing.cluster.produced import Sequence

#: The batches of a producer that a broker remembers, to recognize one that is sent again.
_REMEMBERED: Final = 5


class ProducerStates:
    """The epoch and the last batches of each producer."""

    def __init__(self) -> None:
        self._epochs: dict[int, int] = {}
        self._last: dict[int, deque[tuple[Sequence, int]]] = {}

    def add(self, batch: Batch) -> None:
        """Add an appended batch."""
        sequence = batch.sequence
        if sequence is None:
            return
        self.begin_epoch(sequence.producer_id, sequence.epoch)
        self._last[sequence.producer_id].append((sequence, batch.base_offset))

    def begin_epoch(self, producer_id: int, epoch: int) -> None:
        """Reject batches of earlier epochs from now on."""
        if self._epochs.get(producer_id) == epoch:
            return
        self._epochs[producer_id] = epoch
        self._last[producer_id] = deque(maxlen=_REMEMBERED)

    def offset_of(self, sequence: Sequence) -> int | None:
        """Return the base offset of a batch that is sent again, None for a new one."""
        for known, offset in self._last.get(sequence.producer_id, ()):
            if known == sequence:
                return offset
        return None

    def check(self, sequence: Sequence) -> None:
        """Check that a batch is the next one of its producer.

        Raises:
            BrokerResponseError: It has an earlier epoch, or records are missing before it.
        """
        epoch = self._epochs.get(sequence.producer_id)
        if epoch is None:
            return  # as after the records of the producer have expired
        if sequence.epoch < epoch:
            raise errors.InvalidProducerEpochError
        last = self._last[sequence.producer_id]
        newest = last[-1][0].next if last and sequence.epoch == epoch else 0
        if sequence.first != newest:
            raise errors.OutOfOrderSequenceNumberError
