"""Decode the records of a v2 batch (Kafka 0.11 and later) into columns.

A record is its length, an unused attribute byte, then as zigzag varints: timestamp and offset
relative to the batch, key length, value length, number of headers, the bytes between them.
"""

from __future__ import annotations

from typing import Final

from tandem_kafka.records.batches import BatchHeader, MalformedBatchError, grow
from tandem_kafka.records.columns import RecordColumns
from tandem_kafka.records.compression import decompress
from tandem_kafka.types import Header

__all__ = ["HEADER_SIZE", "decode_v2"]

HEADER_SIZE: Final = 61
_MAX_VARINT: Final = 1 << 64


def decode_v2(header: BatchHeader, batch: memoryview, max_bytes: int) -> RecordColumns:
    """Return the records of the batch whose bytes (header included) are `batch`.

    Raises:
        MalformedBatchError: The batch breaks the format.
        UnsupportedCodecError: Its compression is unknown.
    """
    payload = batch[HEADER_SIZE:]
    data = decompress(header.codec, payload, max_bytes) if header.codec else bytes(payload)
    try:
        columns = _decode(data, header)
    except IndexError:
        raise MalformedBatchError("a record runs past the end of its batch") from None
    _check_offsets(columns.offsets, header)
    count = len(columns)
    if header.log_append_time:
        columns.timestamps = [header.max_timestamp] * count
    columns.timestamp_types = [int(header.log_append_time)] * count
    columns.leader_epochs = [header.leader_epoch] * count
    return columns


# The hot loop of the Python twin: everything is inline, because a call costs as much as a field.
# A varint of one or two bytes (up to 8191 once unzigzagged) is read here, a longer one by
# `_long_varint`; `b + (c << 7) - 128` is its two bytes put together. Slices never fail, so one
# comparison at the end of a record tells whether all its lengths were true.
def _decode(data: bytes, header: BatchHeader) -> RecordColumns:  # noqa: C901, PLR0912, PLR0915
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    columns = RecordColumns()
    offsets, timestamps = columns.offsets, columns.timestamps
    keys, values = columns.keys, columns.values
    size = len(data)
    pos = 0
    for index in range(header.record_count):
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
        pos += 1  # the attributes: none is in use

        b = data[pos]
        pos += 1
        if b > 127:
            c = data[pos]
            if c < 128:
                b += (c << 7) - 128
                pos += 1
            else:
                b, pos = _long_varint(data, pos - 1)
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
            found, pos = _read_headers(data, pos)
            columns.headers.append(found)
        else:
            pos += 1
            if columns.headers is not None:
                columns.headers.append([])
        if pos != end:
            raise MalformedBatchError(f"a record's length says {end - pos:+} bytes of what it has")
    if pos != size:
        raise MalformedBatchError(f"{size - pos} bytes stand behind the last record")
    return columns


def _read_headers(data: bytes, pos: int) -> tuple[list[Header], int]:
    """Read a record's headers; names that are no UTF-8 get replacement characters, as in Java."""
    count, pos = _signed_varint(data, pos)
    if count < 0:
        raise MalformedBatchError(f"a record has {count} headers")
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
    """Read a varint of any length, still zigzagged; return it and the position behind."""
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


def _check_offsets(offsets: list[int], header: BatchHeader) -> None:
    """Refuse offsets that would take the consumer back, or beyond what the header says."""
    if not offsets:
        return
    if offsets[0] < header.base_offset or offsets[-1] > header.last_offset:
        raise MalformedBatchError("a record's offset is outside its batch")
    if not grow(offsets):
        raise MalformedBatchError("the offsets of a batch do not grow")
