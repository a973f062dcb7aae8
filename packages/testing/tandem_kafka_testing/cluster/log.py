"""The log of one partition: record batches, offsets, leader epochs."""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from kafka.record import MemoryRecords
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.util import calc_crc32c

from tandem_kafka_testing.cluster.batch import NO_PRODUCER, Batch, Marker
from tandem_kafka_testing.cluster.leader_epochs import LeaderEpochs
from tandem_kafka_testing.cluster.produced import Produced
from tandem_kafka_testing.cluster.producer_states import ProducerStates
from tandem_kafka_testing.cluster.transaction_index import AbortedTransaction, TransactionIndex

_OFFSET = struct.Struct(">q")
_EPOCH = struct.Struct(">i")
#: Position of the leader epoch in a batch; like the base offset, the checksum does not cover it.
_EPOCH_AT = 12
_CHECKSUM = struct.Struct(">I")
_CHECKSUM_AT, _CHECKED_FROM = 17, 21
#: The low byte of the attributes, and the bit of control batches.
_ATTRIBUTES_AT, _CONTROL = 22, 0x20
#: A marker: its key has version and kind, its value has version and coordinator epoch.
_MARKER_KEY, _MARKER_VALUE = struct.Struct(">hh"), struct.Struct(">hi")
_KINDS: dict[str, int] = {"abort": 0, "commit": 1}


class PartitionLog:
    """Batches in the order of their offsets.

    Attributes:
        start_offset: The first offset.
        end_offset: The offset after the last record.
    """

    def __init__(self) -> None:
        self.start_offset = 0
        self.end_offset = 0
        self._batches: list[Batch] = []
        self._transactions = TransactionIndex()
        self._epochs = LeaderEpochs()
        #: Writers: the appends, and the transaction coordinator for a new epoch of a producer.
        self.producers = ProducerStates()

    @property
    def last_stable_offset(self) -> int:
        """The offset at which the first open transaction begins; without one, the end."""
        return max(
            self.start_offset, min(self._transactions.open.values(), default=self.end_offset)
        )

    @property
    def size(self) -> int:
        """The bytes of its batches."""
        return sum(len(batch.data) for batch in self._batches)

    @property
    def first_epoch(self) -> int:
        """Leader epoch of the first record, -1 if it is unknown."""
        return self._epochs.first(self.start_offset)

    # --- writing -------------------------------------------------------------------------------

    def append(
        self,
        values: Sequence[bytes | None],
        epoch: int,
        timestamp: int,
        keys: Sequence[Any] = (),
        producer_id: int = NO_PRODUCER,
    ) -> int:
        """Append one batch; returns the offset of its first record.

        With a producer id, it belongs to the transaction of that producer, which it opens.
        """
        pairs = [(keys[n] if keys else None, value) for n, value in enumerate(values)]
        data = bytes(_encoded(pairs, timestamp, producer_id))
        return self._append(Batch(0, len(pairs), epoch, timestamp, data, producer_id))

    def end_transaction(self, producer_id: int, marker: Marker, epoch: int, timestamp: int) -> int:
        """Append a marker, as the transaction coordinator requests; returns its offset."""
        pair = (_MARKER_KEY.pack(0, _KINDS[marker]), _MARKER_VALUE.pack(0, 0))
        data = _encoded([pair], timestamp, producer_id)
        data[_ATTRIBUTES_AT] |= _CONTROL
        _CHECKSUM.pack_into(data, _CHECKSUM_AT, calc_crc32c(bytes(data[_CHECKED_FROM:])))
        return self._append(Batch(0, 1, epoch, timestamp, bytes(data), producer_id, marker))

    def append_produced(self, produced: Produced, epoch: int) -> int:
        """Append the batch of a producer; returns the offset of its first record."""
        sequence = produced.sequence
        producer_id = NO_PRODUCER
        if produced.transactional and sequence is not None:
            producer_id = sequence.producer_id
        batch = Batch(
            base_offset=0,
            next_offset=produced.count,
            epoch=epoch,
            timestamp=produced.timestamp,
            data=produced.data,
            producer_id=producer_id,
            sequence=sequence,
            first_timestamp=produced.first_timestamp,
        )
        return self._append(batch)

    def _append(self, relative: Batch) -> int:
        """Append a batch whose offsets begin with 0; returns the offset of its first record."""
        self.begin_epoch(relative.epoch)
        base, data = self.end_offset, bytearray(relative.data)
        _OFFSET.pack_into(data, 0, base)
        _EPOCH.pack_into(data, _EPOCH_AT, relative.epoch)
        self.end_offset = base + relative.next_offset
        batch = replace(relative, base_offset=base, next_offset=self.end_offset, data=bytes(data))
        self._batches.append(batch)
        self._transactions.add(batch)
        self.producers.add(batch)
        return base

    def begin_epoch(self, epoch: int) -> None:
        """Begin a leader epoch at the end of the log."""
        self._epochs.begin(epoch, self.end_offset)

    def truncate(self, offset: int) -> None:
        """Drop whole batches from `offset` on, as in an unclean election."""
        self._batches = [batch for batch in self._batches if batch.next_offset <= offset]
        self.end_offset = min(
            self.end_offset,
            self._batches[-1].next_offset if self._batches else self.start_offset,
        )
        self._epochs.truncate(self.end_offset)
        self._transactions = TransactionIndex()
        self.producers = ProducerStates()
        for batch in self._batches:
            self._transactions.add(batch)
            self.producers.add(batch)

    def delete_before(self, offset: int) -> None:
        """Drop records before an offset, as retention does."""
        self._batches = [batch for batch in self._batches if batch.next_offset > offset]
        self.start_offset = offset
        self.end_offset = max(self.end_offset, offset)
        self._epochs.delete_before(offset)

    # --- reading -------------------------------------------------------------------------------

    def read(self, offset: int, max_bytes: int, before: int | None = None) -> list[Batch]:
        """Return batches from `offset` on: the first in any case, more while they fit.

        Batches from `before` on are left out, for reads up to the last stable offset.
        """
        found: list[Batch] = []
        size = 0
        begin = bisect_right(self._batches, offset, key=lambda batch: batch.next_offset)
        for number in range(begin, len(self._batches)):
            batch = self._batches[number]
            if before is not None and batch.base_offset >= before:
                break
            if found and size + len(batch.data) > max_bytes:
                break
            found.append(batch)
            size += len(batch.data)
        return found

    def aborted_among(self, offset: int, batches: Sequence[Batch]) -> list[AbortedTransaction]:
        """Return the aborted transactions that a reader of these batches needs."""
        behind = batches[-1].next_offset if batches else offset
        return self._transactions.aborted_within(offset, behind)

    def find(self, timestamp: int) -> tuple[int, int, int] | None:
        """Return offset, timestamp and epoch of the first record at or after a timestamp."""
        for batch in self._batches:
            if batch.timestamp >= timestamp:
                offset, found = _first_from(batch, timestamp)
                return max(offset, self.start_offset), found, batch.epoch
        return None

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the newest epoch not above `epoch` and its end offset; -1, -1 if unknown."""
        return self._epochs.end_of(epoch, self.end_offset)


def _first_from(batch: Batch, timestamp: int) -> tuple[int, int]:
    """Return offset and timestamp of the first record at or after a timestamp."""
    if batch.first_timestamp is None or batch.first_timestamp >= timestamp:
        first = batch.timestamp if batch.first_timestamp is None else batch.first_timestamp
        return batch.base_offset, first
    records = (record for each in MemoryRecords(batch.data) for record in each)
    found = next(record for record in records if record.timestamp >= timestamp)
    return int(found.offset), int(found.timestamp)


def _encoded(
    pairs: Iterable[tuple[Any, bytes | None]], timestamp: int, producer_id: int
) -> bytearray:
    transactional = producer_id != NO_PRODUCER
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=transactional,
        producer_id=producer_id,
        producer_epoch=0 if transactional else -1,
        base_sequence=-1,
        batch_size=2**31,
    )
    for number, (key, value) in enumerate(pairs):
        builder.append(number, timestamp=timestamp, key=key, value=value, headers=[])
    return bytearray(builder.build())
