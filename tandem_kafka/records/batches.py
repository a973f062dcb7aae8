"""Reads the headers of record batches without decoding records.

A fetched partition is a sequence of batches, of which the last one may be incomplete. Every format
starts with an offset and a length, and has its version ("magic") at byte 16, so the headers can be
read one after the other. Formats v0 and v1 have no batches; each message or compressed wrapper is
treated as one.
"""

from __future__ import annotations

from operator import lt
from struct import Struct
from typing import Final, NamedTuple

from tandem_kafka.runtime.tuples import replaced
from tandem_kafka.types import UNKNOWN_EPOCH

_OFFSET_AND_LENGTH: Final = Struct(">qi")
_MAGIC_AT: Final = 16
#: With fewer bytes there is not even a magic byte.
_SHORTEST: Final = _MAGIC_AT + 1

#: Offset, length, leader epoch, magic, CRC, attributes, last offset delta, base and max timestamp,
#: producer id, producer epoch, base sequence, number of records.
_V2: Final = Struct(">qiibIhiqqqhii")
#: Offset, length, CRC, magic, attributes; in v1 also a timestamp.
_V0: Final = Struct(">qiIbb")
_V1: Final = Struct(">qiIbbq")

#: A message of v0 or v1 has at least a key length and a value length.
_KEY_AND_VALUE_LENGTHS: Final = 8

#: No record can have this offset, because the position after it would exceed 64 bits.
_OFFSET_END: Final = 2**63 - 1

_CODEC_MASK: Final = 0x07
_LOG_APPEND_TIME: Final = 0x08
_TRANSACTIONAL: Final = 0x10
_CONTROL: Final = 0x20


class MalformedBatchError(ValueError):
    """A batch violates its format; the reader raises it as a `CorruptRecordError`."""


class BatchTooLargeError(MalformedBatchError):
    """The decompressed size of a batch exceeds the limit."""


class BatchHeader(NamedTuple):
    """The header of one batch.

    Attributes:
        start: The position of the batch in the partition's bytes.
        size: The size of the batch in bytes, including the header.
        base_offset: The offset of the first record. For v0 and v1, that of the last record,
            because the first offset of a wrapper is only known after decompression.
        last_offset: The offset of the last record, even if compaction has removed it.
        attributes: Codec and flags; see the properties.
        producer_id: The producer of the batch, -1 for none.
        record_count: The number of records; 1 for v0 and v1.
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
        """The number of the compression codec, 0 for none."""
        return self.attributes & _CODEC_MASK

    @property
    def log_append_time(self) -> bool:
        """Whether the broker's append time applies to all records."""
        return bool(self.attributes & _LOG_APPEND_TIME)

    @property
    def transactional(self) -> bool:
        """Whether the batch belongs to a transaction."""
        return self.magic >= 2 and bool(self.attributes & _TRANSACTIONAL)

    @property
    def control(self) -> bool:
        """Whether the batch is a transaction marker without records."""
        return self.magic >= 2 and bool(self.attributes & _CONTROL)


class BatchWalk(NamedTuple):
    """The result of reading all headers.

    Attributes:
        end: The end of the valid batches.
        last_offset: The last offset of the last valid batch, None if there is none.
        problem: Why reading ended before the end of the bytes, or None. An incomplete last batch
            is only a problem if there is no other.
    """

    end: int
    last_offset: int | None
    problem: str | None


def walk_batches(records: memoryview, high_watermark: int) -> BatchWalk:
    """Read the headers of all complete batches.

    The CRC covers neither the offset nor the length of a batch, nor its leader epoch (see
    `open_reader`). For format v2, this function therefore checks that they are consistent with each
    other and with the high watermark (unknown if 0 or less).
    """
    found = BatchWalk(0, None, None)
    before_last: tuple[BatchHeader, int | None] | None = None
    total = len(records)
    try:
        while total - found.end >= _SHORTEST:
            header = read_header(records, found.end)
            if header is None:
                break
            if before_last is not None and before_last[0].magic == header.magic == 2:
                previous, offset_before = before_last
                if header.base_offset <= previous.last_offset:
                    problem = _overlap(previous.base_offset, header.base_offset)
                    # Either of the two may be wrong.
                    return BatchWalk(previous.start, offset_before, problem)
                if _is_beyond(header.base_offset, previous.last_offset + 1, high_watermark):
                    return replaced(found, problem=_beyond(header.base_offset, high_watermark))
            before_last = header, found.last_offset
            found = BatchWalk(found.end + header.size, header.last_offset, None)
    except MalformedBatchError as error:
        return replaced(found, problem=str(error))
    if total and not found.end:
        problem = (
            f"{total} bytes hold no complete batch, so no record can be read; "
            "raise max_partition_fetch_bytes above the size of the largest batch"
        )
        return replaced(found, problem=problem)
    return found


def check_beginning(
    records: memoryview, walk: BatchWalk, offset: int, high_watermark: int
) -> str | None:
    """Return what is wrong with the first batches in the response to a fetch at `offset`, if any.

    A broker starts with the batch that contains the offset, or else with the next batch.
    """
    behind: int | None = None
    start = 0
    while start < walk.end:
        header = read_header(records, start)
        if header is None or header.magic != 2:
            return None
        if header.last_offset >= offset:
            if header.base_offset <= offset:
                return None
            if behind is not None:
                return _gap(behind, offset, header.base_offset)
            if _is_beyond(header.base_offset, offset, high_watermark):
                return _beyond(header.base_offset, high_watermark)
            return None
        behind = header.base_offset
        start += header.size
    return None


def _is_beyond(base_offset: int, expected: int, high_watermark: int) -> bool:
    """Tell whether a batch is after a gap that reaches the high watermark.

    Compaction leaves no such gap. A batch without a gap may be at the high watermark, because the
    broker reads the watermark before it reads the log.
    """
    return 0 < high_watermark <= base_offset and base_offset > expected


_GARBLED: Final = "the response or the log is corrupt; seek to this offset to fetch it again"


def _overlap(first: int, second: int) -> str:
    return f"the batches at offsets {first} and {second} overlap: {_GARBLED}"


def _beyond(base_offset: int, high_watermark: int) -> str:
    return (
        f"the batch at offset {base_offset} is not below the high watermark {high_watermark}: "
        f"{_GARBLED}"
    )


def _gap(behind: int, offset: int, following: int) -> str:
    return (
        f"the batch at offset {behind} is before offset {offset}, and the next one begins at "
        f"{following}: {_GARBLED}"
    )


def is_increasing(offsets: list[int]) -> bool:
    """Tell whether each offset is greater than the previous one."""
    return all(map(lt, offsets, offsets[1:]))


def read_header(records: memoryview, start: int) -> BatchHeader | None:
    """Return the header at `start`, or None if its batch is incomplete."""
    _, length = _OFFSET_AND_LENGTH.unpack_from(records, start)
    size = _OFFSET_AND_LENGTH.size + length
    if length < 0:
        raise MalformedBatchError(f"a batch has the length {length}")
    if start + size > len(records):
        return None
    if size < _SHORTEST:
        raise MalformedBatchError(f"a batch has the length {length}")
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
