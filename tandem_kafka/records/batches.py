"""Walk over the headers of record batches, without decoding a record.

A fetched partition is a row of batches, and the broker may cut the last one short. Every format
starts with an offset and a length, and has its version ("magic") at byte 16, so that the walk
steps from header to header. Formats v0 and v1 have no batches: there each message, or each
compressed wrapper of messages, stands for one.
"""

from __future__ import annotations

from operator import lt
from struct import Struct
from typing import Final, NamedTuple

from tandem_kafka.types import UNKNOWN_EPOCH

__all__ = ["BatchHeader", "BatchWalk", "MalformedBatchError", "grow", "walk_batches"]

_OFFSET_AND_LENGTH: Final = Struct(">qi")
_MAGIC_AT: Final = 16
#: Below so many bytes there is no magic to look at, let alone a batch.
_SHORTEST: Final = _MAGIC_AT + 1

#: Offset, length, leader epoch, magic, CRC, attributes, last offset delta, base and max timestamp,
#: producer id, producer epoch, base sequence, number of records.
_V2: Final = Struct(">qiibIhiqqqhii")
#: Offset, length, CRC, magic, attributes; v1 has a timestamp behind it.
_V0: Final = Struct(">qiIbb")
_V1: Final = Struct(">qiIbbq")

#: A message of v0 or v1 has a key length and a value length at the least.
_KEY_AND_VALUE_LENGTHS: Final = 8

#: No record has this offset: the position behind it would not fit into 64 bits.
_OFFSET_END: Final = 2**63 - 1

_CODEC_MASK: Final = 0x07
_LOG_APPEND_TIME: Final = 0x08
_TRANSACTIONAL: Final = 0x10
_CONTROL: Final = 0x20


class MalformedBatchError(ValueError):
    """A batch breaks its format; the reader turns it into a `CorruptRecordError`."""


class BatchHeader(NamedTuple):
    """One batch's header.

    Attributes:
        start: Where the batch begins in the partition's bytes.
        size: Its length in bytes, the header included.
        base_offset: Offset of the first record; for v0 and v1 that of the last one, as only
            decompressing a wrapper tells where it begins.
        last_offset: Offset of the last record, also where compaction removed it.
        attributes: Codec and flags, see the properties.
        producer_id: Producer of the batch, -1 for none.
        record_count: Number of records; for v0 and v1 number of messages or wrappers, thus 1.
    """

    start: int
    size: int
    magic: int
    base_offset: int
    last_offset: int
    leader_epoch: int
    crc: int
    attributes: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    record_count: int

    @property
    def codec(self) -> int:
        """Number of the compression codec, 0 for none."""
        return self.attributes & _CODEC_MASK

    @property
    def log_append_time(self) -> bool:
        """Whether the broker's time stands for that of every record."""
        return bool(self.attributes & _LOG_APPEND_TIME)

    @property
    def transactional(self) -> bool:
        """Whether the batch is part of a transaction."""
        return self.magic >= 2 and bool(self.attributes & _TRANSACTIONAL)

    @property
    def control(self) -> bool:
        """Whether the batch holds a transaction's marker in place of records."""
        return self.magic >= 2 and bool(self.attributes & _CONTROL)


class BatchWalk(NamedTuple):
    """What a walk found.

    Attributes:
        headers: The complete batches, in order.
        problem: Why the walk ended before the bytes did, or None; a batch that the broker cut
            short is no problem, except where nothing else is there.
    """

    headers: tuple[BatchHeader, ...]
    problem: str | None


def walk_batches(records: memoryview) -> BatchWalk:
    """Read the headers of all complete batches."""
    headers: list[BatchHeader] = []
    start, total = 0, len(records)
    try:
        while total - start >= _SHORTEST:
            header = _read_header(records, start)
            if header is None:
                break
            headers.append(header)
            start += header.size
    except MalformedBatchError as error:
        return BatchWalk(tuple(headers), str(error))
    problem = None
    if total and not headers:
        problem = (
            f"{total} bytes hold no complete batch, so there is no going on; "
            "raise max_partition_fetch_bytes above the size of the largest batch"
        )
    return BatchWalk(tuple(headers), problem)


def grow(offsets: list[int]) -> bool:
    """Tell whether each offset is above the one before it."""
    return all(map(lt, offsets, offsets[1:]))


def _read_header(records: memoryview, start: int) -> BatchHeader | None:
    """Return the header at `start`, None if its batch is cut short."""
    _, length = _OFFSET_AND_LENGTH.unpack_from(records, start)
    size = _OFFSET_AND_LENGTH.size + length
    if length < 0:
        raise MalformedBatchError(f"a batch length is {length}")
    if start + size > len(records):
        return None
    if size < _SHORTEST:
        raise MalformedBatchError(f"a batch length is {length}")
    magic = records[start + _MAGIC_AT]
    if magic == 2:
        return _read_v2(records, start, size)
    if magic < 2:
        return _read_legacy(records, start, size, magic)
    raise MalformedBatchError(f"unknown message format v{magic}")


def _read_v2(records: memoryview, start: int, size: int) -> BatchHeader:
    if size < _V2.size:
        raise MalformedBatchError(f"a batch of {size} bytes is shorter than its header")
    fields = _V2.unpack_from(records, start)
    base, _, epoch, magic, crc, attributes, delta, first_ms, max_ms, producer, _, _, count = fields
    if base < 0 or delta < 0 or count < 0 or base + delta >= _OFFSET_END:
        raise MalformedBatchError(
            f"a batch header with offset {base}, last offset delta {delta} and {count} records"
        )
    return BatchHeader(
        start,
        size,
        magic,
        base,
        base + delta,
        epoch,
        crc,
        attributes,
        first_ms,
        max_ms,
        producer,
        count,
    )


def _read_legacy(records: memoryview, start: int, size: int, magic: int) -> BatchHeader:
    layout = _V1 if magic == 1 else _V0
    if size < layout.size + _KEY_AND_VALUE_LENGTHS:
        raise MalformedBatchError(f"a message of {size} bytes is shorter than its header")
    offset, _, crc, _, attributes, *timestamp = layout.unpack_from(records, start)
    if not 0 <= offset < _OFFSET_END:
        raise MalformedBatchError(f"a message offset is {offset}")
    time_ms = timestamp[0] if timestamp else -1
    return BatchHeader(
        start,
        size,
        magic,
        offset,
        offset,
        UNKNOWN_EPOCH,
        crc,
        attributes,
        time_ms,
        time_ms,
        -1,
        1,
    )
