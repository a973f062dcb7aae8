"""Decodes messages of the formats v0 and v1 (before Kafka 0.11) into columns.

A message stands alone or wraps others; the value of a wrapper is a compressed sequence of messages.
In v1, inner offsets start at 0, and the wrapper has the real offset of the last message. In v0, the
inner messages have real offsets.
"""

from __future__ import annotations

from struct import Struct
from struct import error as struct_error
from typing import Final, NamedTuple
from zlib import crc32

from tandem_kafka.errors import UnsupportedCodecError
from tandem_kafka.records.batches import BatchHeader, MalformedBatchError, is_increasing
from tandem_kafka.records.columns import RecordColumns
from tandem_kafka.records.compression import decompress
from tandem_kafka.records.decoder import ReaderOptions
from tandem_kafka.records.lz4_headers import with_valid_checksum
from tandem_kafka.runtime.tuples import replaced
from tandem_kafka.types import UNKNOWN_EPOCH

#: The CRC covers the bytes from here on, starting with the magic byte.
CRC_AT: Final = 16
_OFFSET_LENGTH_CRC_MAGIC: Final = Struct(">qiIBB")
_INT32: Final = Struct(">i")
_INT64: Final = Struct(">q")
_OVERHEAD: Final = 12
_LZ4: Final = 3


class _Message(NamedTuple):
    offset: int
    crc: int
    attributes: int
    timestamp: int
    key: bytes | None
    value: memoryview | None
    size: int


def decode_legacy(header: BatchHeader, batch: memoryview, options: ReaderOptions) -> RecordColumns:
    """Return the message in `batch`, or the messages that it wraps.

    Raises:
        MalformedBatchError: The message violates the format, or an inner one fails its CRC.
        UnsupportedCodecError: The compression is unknown.
    """
    try:
        outer = _read_message(batch, 0, header.magic)
        if not header.codec:
            return _columns([outer], header)
        if outer.value is None:
            raise MalformedBatchError("a compressed message is empty")
        inner = memoryview(_decompress(header, outer.value, options.max_decompressed_batch_bytes))
        messages = _read_messages(inner, header.magic, check_crcs=options.check_crcs)
    except struct_error:
        raise MalformedBatchError("a message runs past its end") from None
    return _columns(_with_real_offsets(messages, header), header)


def _decompress(header: BatchHeader, data: memoryview, max_bytes: int) -> bytes:
    if header.codec > _LZ4:
        raise UnsupportedCodecError(
            f"compression codec {header.codec} is unknown in message format v{header.magic}"
        )
    if header.codec == _LZ4 and header.magic == 0:
        data = with_valid_checksum(data)
    return decompress(header.codec, data, max_bytes)


def _read_messages(data: memoryview, magic: int, *, check_crcs: bool) -> list[_Message]:
    messages: list[_Message] = []
    pos = 0
    while pos < len(data):
        message = _read_message(data, pos, magic)
        if message.attributes & 7:
            raise MalformedBatchError("a wrapped message is compressed again")
        end = pos + message.size
        if check_crcs and crc32(data[pos + CRC_AT : end]) != message.crc:
            raise MalformedBatchError("a wrapped message fails its CRC")
        messages.append(message)
        pos = end
    if not messages:
        raise MalformedBatchError("a compressed message wraps nothing")
    return messages


def _read_message(data: memoryview, start: int, magic: int) -> _Message:
    offset, length, crc, found_magic, attributes = _OFFSET_LENGTH_CRC_MAGIC.unpack_from(data, start)
    if found_magic != magic:
        raise MalformedBatchError(f"a message of format v{found_magic} inside one of v{magic}")
    pos = start + _OFFSET_LENGTH_CRC_MAGIC.size
    timestamp = -1
    if magic == 1:
        (timestamp,) = _INT64.unpack_from(data, pos)
        pos += _INT64.size
    key, pos = _read_bytes(data, pos)
    value, pos = _read_bytes(data, pos)
    if pos != start + _OVERHEAD + length:
        raise MalformedBatchError("a message's length is not that of what it has")
    whole = None if key is None else bytes(key)
    return _Message(offset, crc, attributes, timestamp, whole, value, pos - start)


def _read_bytes(data: memoryview, pos: int) -> tuple[memoryview | None, int]:
    (length,) = _INT32.unpack_from(data, pos)
    start = pos + _INT32.size
    if length < 0:
        return None, start
    if length > len(data) - start:
        raise MalformedBatchError("a key or value runs past the end of its message")
    return data[start : start + length], start + length


def _with_real_offsets(messages: list[_Message], header: BatchHeader) -> list[_Message]:
    """Make inner offsets absolute, and check that they do not exceed that of the wrapper."""
    shift = header.last_offset - messages[-1].offset if header.magic else 0
    messages = [replaced(message, offset=message.offset + shift) for message in messages]
    offsets = [message.offset for message in messages]
    if not is_increasing(offsets) or offsets[0] < 0 or offsets[-1] > header.last_offset:
        raise MalformedBatchError("the offsets of wrapped messages are out of order")
    return messages


def _columns(messages: list[_Message], header: BatchHeader) -> RecordColumns:
    # The messages in a wrapper do not have the broker's append time; the wrapper has it.
    appended = header.magic == 1 and header.log_append_time
    kind = int(appended) if header.magic else None
    return RecordColumns(
        offsets=[message.offset for message in messages],
        timestamps=[header.max_timestamp if appended else m.timestamp for m in messages],
        keys=[message.key for message in messages],
        values=[None if m.value is None else bytes(m.value) for m in messages],
        leader_epochs=[UNKNOWN_EPOCH] * len(messages),
        timestamp_types=[kind] * len(messages),
        checksums=[message.crc for message in messages],
    )
