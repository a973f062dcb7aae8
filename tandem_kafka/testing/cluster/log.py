"""The log of one partition: record batches, offsets, leader epochs."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any

from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.util import calc_crc32c

from tandem_kafka.testing.cluster.batch import NO_PRODUCER, Batch, Marker
from tandem_kafka.testing.cluster.leader_epochs import LeaderEpochs
from tandem_kafka.testing.cluster.transaction_index import AbortedTransaction, TransactionIndex

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
        end_offset: The offset behind the last record.
    """

    def __init__(self) -> None:
        self.start_offset = 0
        self.end_offset = 0
        self._batches: list[Batch] = []
        self._transactions = TransactionIndex()
        self._epochs = LeaderEpochs()

    @property
    def last_stable_offset(self) -> int:
        """The offset at which the first open transaction begins; without one, the end."""
        return max(
            self.start_offset, min(self._transactions.open.values(), default=self.end_offset)
        )

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
        return self._append(
            _encoded(pairs, timestamp, producer_id), len(pairs), epoch, timestamp, producer_id
        )

    def end_transaction(self, producer_id: int, marker: Marker, epoch: int, timestamp: int) -> int:
        """Append a marker, as the transaction coordinator requests; returns its offset."""
        pair = (_MARKER_KEY.pack(0, _KINDS[marker]), _MARKER_VALUE.pack(0, 0))
        data = _encoded([pair], timestamp, producer_id)
        data[_ATTRIBUTES_AT] |= _CONTROL
        _CHECKSUM.pack_into(data, _CHECKSUM_AT, calc_crc32c(bytes(data[_CHECKED_FROM:])))
        return self._append(data, 1, epoch, timestamp, producer_id, marker)

    def _append(
        self,
        data: bytearray,
        count: int,
        epoch: int,
        timestamp: int,
        producer_id: int,
        marker: Marker | None = None,
    ) -> int:
        self.begin_epoch(epoch)
        base = self.end_offset
        _OFFSET.pack_into(data, 0, base)
        _EPOCH.pack_into(data, _EPOCH_AT, epoch)
        self.end_offset = base + count
        batch = Batch(base, self.end_offset, epoch, timestamp, bytes(data), producer_id, marker)
        self._batches.append(batch)
        self._transactions.add(batch)
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
        for batch in self._batches:
            self._transactions.add(batch)

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
        for batch in self._batches:
            if batch.next_offset <= offset:
                continue
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
                return max(batch.base_offset, self.start_offset), batch.timestamp, batch.epoch
        return None

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the newest epoch not above `epoch` and its end offset; -1, -1 if unknown."""
        return self._epochs.end_of(epoch, self.end_offset)


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
