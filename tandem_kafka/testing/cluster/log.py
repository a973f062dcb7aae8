"""The log of one partition: record batches, offsets, leader epochs."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kafka.record.default_records import DefaultRecordBatchBuilder

__all__ = ["Batch", "PartitionLog"]

_OFFSET = struct.Struct(">q")
_EPOCH = struct.Struct(">i")
#: Where a batch holds its leader epoch; like the base offset it is outside the checksum.
_EPOCH_AT = 12


@dataclass(frozen=True, slots=True)
class Batch:
    """Some records, encoded as a broker keeps them."""

    base_offset: int
    next_offset: int
    epoch: int
    timestamp: int
    data: bytes


class PartitionLog:
    """Batches in the order of their offsets.

    Attributes:
        start_offset: The first offset there is.
        end_offset: Behind the last.
    """

    def __init__(self) -> None:
        self.start_offset = 0
        self.end_offset = 0
        self._batches: list[Batch] = []

    def append(
        self, values: Sequence[bytes | None], epoch: int, timestamp: int, keys: Sequence[Any] = ()
    ) -> int:
        """Append one batch; returns the offset of its first record."""
        builder = DefaultRecordBatchBuilder(
            magic=2,
            compression_type=0,
            is_transactional=0,
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=-1,
            batch_size=2**31,
        )
        for number, value in enumerate(values):
            key = keys[number] if keys else None
            builder.append(number, timestamp=timestamp, key=key, value=value, headers=[])
        data = bytearray(builder.build())
        base = self.end_offset
        _OFFSET.pack_into(data, 0, base)
        _EPOCH.pack_into(data, _EPOCH_AT, epoch)
        self.end_offset = base + len(values)
        self._batches.append(Batch(base, self.end_offset, epoch, timestamp, bytes(data)))
        return base

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Return whole batches from `offset` on: one in any case, more while they fit."""
        parts: list[bytes] = []
        size = 0
        for batch in self._batches:
            if batch.next_offset <= offset:
                continue
            if parts and size + len(batch.data) > max_bytes:
                break
            parts.append(batch.data)
            size += len(batch.data)
        return b"".join(parts)

    def find(self, timestamp: int) -> tuple[int, int, int] | None:
        """Return offset, timestamp and epoch of the first record that is not older."""
        for batch in self._batches:
            if batch.timestamp >= timestamp:
                return max(batch.base_offset, self.start_offset), batch.timestamp, batch.epoch
        return None

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the newest epoch not above `epoch`, and where it ends; -1, -1 if there is none."""
        known = [batch for batch in self._batches if batch.epoch <= epoch]
        if not known:
            return -1, -1
        return known[-1].epoch, known[-1].next_offset

    def truncate(self, offset: int) -> None:
        """Lose whole batches from `offset` on, as in an unclean election."""
        self._batches = [batch for batch in self._batches if batch.next_offset <= offset]
        self.end_offset = min(
            self.end_offset, self._batches[-1].next_offset if self._batches else offset
        )

    def delete_before(self, offset: int) -> None:
        """Drop what is older, as retention does."""
        self._batches = [batch for batch in self._batches if batch.next_offset > offset]
        self.start_offset = offset
        self.end_offset = max(self.end_offset, offset)
