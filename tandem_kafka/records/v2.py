"""Decodes the records of a v2 batch (Kafka 0.11 and later) into columns.

A record has a length, an unused attribute byte, timestamp and offset relative to the batch, key,
value and headers. All numbers are zigzag varints.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Self

from tandem_kafka.records.batches import BatchHeader, MalformedBatchError, is_increasing
from tandem_kafka.records.columns import RecordColumns
from tandem_kafka.records.compression import decompress
from tandem_kafka.records.decoder import ReaderOptions
from tandem_kafka.types import Header

HEADER_SIZE: Final = 61
_MAX_VARINT: Final = 1 << 64

#: A part ends with the record that reaches one of these limits. A batch whose records use much more
#: memory than its bytes is therefore never decoded at once. rust/src/batches/rows.rs has the same.
PART_RECORDS: Final = 65_536
PART_BYTES: Final = 8 * 1024 * 1024
PART_HEADERS: Final = 100_000

#: A timestamp is a sum that wraps at 64 bits, as in Java; sums of smaller numbers cannot wrap.
_SMALL_TIMESTAMP: Final = 1 << 62


class _Part(NamedTuple):
    """Records, the position after them, and whether a timestamp may exceed 64 bits."""

    columns: RecordColumns
    pos: int
    wide: bool


class BatchReader:
    """Decodes the records of one v2 batch in parts.

    Args:
        header: The header of the batch.
        data: Bytes with the decompressed records.
        pos: The start of the records in `data`.
        end: The end of the records in `data`.
        max_headers: Maximum number of headers of a record.

    Attributes:
        exhausted: True after the last record.
        unpacked_bytes: The memory of the decompressed batch, 0 if it was not compressed.
        part_bytes: The memory of the records that `next_part` returned last.
    """

    __slots__ = (
        "_data",
        "_end",
        "_header",
        "_left",
        "_max_headers",
        "_next",
        "_pos",
        "exhausted",
        "part_bytes",
        "unpacked_bytes",
    )

    def __init__(
        self, header: BatchHeader, data: bytes, pos: int, end: int, max_headers: int
    ) -> None:
        self._header = header
        self._data = data
        self._pos = pos
        self._end = end
        self._max_headers = max_headers
        self._left = header.record_count
        #: The minimum offset of the next record.
        self._next = header.base_offset
        self.exhausted = False
        self.unpacked_bytes = len(data) if header.codec else 0
        self.part_bytes = 0

    @classmethod
    def open(cls, header: BatchHeader, records: bytes | memoryview, options: ReaderOptions) -> Self:
        """Return a reader of a batch in a partition's bytes.

        Raises:
            MalformedBatchError: The compressed data is corrupt.
            BatchTooLargeError: The decompressed size exceeds the limit.
            UnsupportedCodecError: The compression is unknown.
        """
        start, end = header.start + HEADER_SIZE, header.start + header.size
        most = options.max_record_headers
        if header.codec:
            payload = memoryview(records)[start:end]
            data = decompress(header.codec, payload, options.max_decompressed_batch_bytes)
            return cls(header, data, 0, len(data), most)
        if isinstance(records, bytes):
            return cls(header, records, start, end, most)
        return cls(header, bytes(records[start:end]), 0, end - start, most)

    def next_part(self) -> RecordColumns:
        """Return the next records; empty at the end of a batch without further records.

        Raises:
            MalformedBatchError: The batch violates the format; the next call raises again.
        """
        header = self._header
        try:
            part = self._decode()
        except (IndexError, MalformedBatchError):
            self._isolate_batch()
            part = self._decode_strictly()
        columns, pos, wide = part
        if pos > self._end:
            self._isolate_batch()
            columns, pos, wide = self._decode_strictly()
        count = len(columns)
        if count == self._left and pos != self._end:
            raise MalformedBatchError(f"{self._end - pos} bytes follow the last record")
        self._check_offsets(columns.offsets)
        self.part_bytes = pos - self._pos + columns.overhead_bytes()
        self._pos = pos
        self._left -= count
        self.exhausted = not self._left
        if header.log_append_time:
            columns.timestamps = [header.max_timestamp] * count
        elif wide or not -_SMALL_TIMESTAMP < header.base_timestamp < _SMALL_TIMESTAMP:
            columns.timestamps = list(map(_wrap_to_64_bits, columns.timestamps))
        columns.timestamp_types = [int(header.log_append_time)] * count
        columns.leader_epochs = [header.leader_epoch] * count
        return columns

    def _isolate_batch(self) -> None:
        """Remove the bytes around the batch, so that an invalid record cannot extend into them."""
        self._data = self._data[self._pos : self._end]
        self._pos, self._end = 0, len(self._data)

    def _decode_strictly(self) -> _Part:
        try:
            return self._decode()
        except IndexError:
            raise MalformedBatchError("a record runs past the end of its batch") from None

    def _decode(self) -> _Part:
        return _decode(self._data, self._pos, self._left, self._header, self._max_headers)

    def _check_offsets(self, offsets: list[int]) -> None:
        """Reject offsets that decrease or are outside the range in the header."""
        if not offsets:
            return
        header = self._header
        if offsets[0] < header.base_offset or offsets[-1] > header.last_offset:
            raise MalformedBatchError("a record's offset is outside its batch")
        if offsets[0] < self._next or not is_increasing(offsets):
            raise MalformedBatchError("the offsets of a batch do not increase")
        self._next = offsets[-1] + 1


# The hot loop of the Python implementation. Everything is inline, because a call costs as much as a
# field. Varints of one or two bytes (up to 8191 after zigzag decoding) are read here, and longer
# ones by `_long_varint`; `b + (c << 7) - 128` combines two bytes. Slices never fail, so a single
# comparison at the end of a record checks all its lengths.
def _decode(  # noqa: C901, PLR0912, PLR0915
    data: bytes, pos: int, left: int, header: BatchHeader, max_headers: int
) -> _Part:
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    columns = RecordColumns()
    offsets, timestamps = columns.offsets, columns.timestamps
    keys, values = columns.keys, columns.values
    enough = pos + PART_BYTES
    header_count = 0
    wide = False
    for index in range(min(left, PART_RECORDS)):
        b = data[pos]
        pos += 1
        if b > 127:
            c = data[pos]
            if c < 128:
                b += (c << 7) - 128
                pos += 1
            else:
                b, pos = _long_varint(data, pos - 1)
        end = pos + (b >> 1)
        pos += 1  # the attributes, which are unused

        b = data[pos]
        pos += 1
        if b > 127:
            c = data[pos]
            if c < 128:
                b += (c << 7) - 128
                pos += 1
            else:
                b, pos = _long_varint(data, pos - 1)
                wide = wide or b >= _SMALL_TIMESTAMP
        timestamps.append(base_timestamp + ((b >> 1) ^ -(b & 1)))

        b = data[pos]
        pos += 1
        if b > 127:
            c = data[pos]
            if c < 128:
                b += (c << 7) - 128
                pos += 1
            else:
                b, pos = _long_varint(data, pos - 1)
        offsets.append(base_offset + ((b >> 1) ^ -(b & 1)))

        b = data[pos]
        pos += 1
        if b > 127:
            c = data[pos]
            if c < 128:
                b += (c << 7) - 128
                pos += 1
            else:
                b, pos = _long_varint(data, pos - 1)
        if b & 1:
            keys.append(None)
        else:
            start = pos
            pos += b >> 1
            keys.append(data[start:pos])

        b = data[pos]
        pos += 1
        if b > 127:
            c = data[pos]
            if c < 128:
                b += (c << 7) - 128
                pos += 1
            else:
                b, pos = _long_varint(data, pos - 1)
        if b & 1:
            values.append(None)
        else:
            start = pos
            pos += b >> 1
            values.append(data[start:pos])

        if data[pos]:
            if columns.headers is None:
                columns.headers = [[] for _ in range(index)]
            found, pos = _read_headers(data, pos, offsets[-1], max_headers)
            columns.headers.append(found)
            header_count += len(found)
        else:
            pos += 1
            if columns.headers is not None:
                columns.headers.append([])
        if pos != end:
            raise MalformedBatchError(f"a record's length is off by {end - pos:+} bytes")
        if pos >= enough or header_count >= PART_HEADERS:
            break
    return _Part(columns, pos, wide)


def _read_headers(data: bytes, pos: int, offset: int, max_headers: int) -> tuple[list[Header], int]:
    """Read a record's headers; invalid UTF-8 in names is replaced, as in Java."""
    count, pos = _signed_varint(data, pos)
    if count < 0:
        raise MalformedBatchError(f"a record has {count} headers")
    if count > max_headers:
        raise MalformedBatchError(
            f"the record at offset {offset} has {count} headers, more than the {max_headers} of "
            "max_record_headers"
        )
    headers: list[Header] = []
    for _ in range(count):
        length, pos = _signed_varint(data, pos)
        if length < 0:
            raise MalformedBatchError("a header has no name")
        name = data[pos : pos + length].decode(errors="replace")
        length, pos = _signed_varint(data, pos + length)
        value = None
        if length >= 0:
            value = data[pos : pos + length]
            pos += length
        headers.append((name, value))
    return headers, pos


def _signed_varint(data: bytes, pos: int) -> tuple[int, int]:
    raw, pos = _long_varint(data, pos)
    return (raw >> 1) ^ -(raw & 1), pos


def _long_varint(data: bytes, pos: int) -> tuple[int, int]:
    """Read a varint without zigzag decoding; return it and the position after it."""
    value = shift = 0
    while True:
        b = data[pos]
        pos += 1
        value |= (b & 127) << shift
        if b < 128:
            break
        shift += 7
        if shift > 63:
            raise MalformedBatchError("a varint has more than ten bytes")
    if value >= _MAX_VARINT:
        raise MalformedBatchError("a varint has more than 64 bits")
    return value, pos


def _wrap_to_64_bits(timestamp: int) -> int:
    """Return a sum as a signed 64-bit number, with overflow."""
    return (timestamp + (1 << 63)) % (1 << 64) - (1 << 63)
