"""The prefix that a schema registry's serializer writes before the payload.

It is a byte 0 and the schema id in four bytes. With Protobuf, message indexes follow: the path to
the message in the schema's file, as zigzag varints (their number, then each). A single 0 means the
first message.
"""

from __future__ import annotations

from typing import Final

from tandem_kafka.errors import KafkaError

#: Bytes before the payload, or before the message's path.
HEADER: Final = 5
#: The first byte.
MAGIC: Final = 0
#: A varint of a 64-bit number has at most ten bytes of seven bits.
_MAX_BITS: Final = 70


class DecodingError(KafkaError):
    """A value cannot be decoded."""


def schema_id(value: bytes) -> int:
    """Return the schema id of a value.

    Raises:
        DecodingError: The value is not framed.
    """
    if len(value) < HEADER:
        raise DecodingError(f"{len(value)} bytes are too few for magic byte and schema id")
    if value[0] != MAGIC:
        raise DecodingError(f"the first byte is {value[0]:#04x}, not the magic byte 0x00")
    return int.from_bytes(value[1:HEADER], "big")


def message_path(value: bytes) -> tuple[tuple[int, ...], int]:
    """Return the message indexes, and the offset of the message's bytes.

    Raises:
        DecodingError: The indexes are truncated or invalid.
    """
    count, at = _number(value, HEADER)
    if count == 0:
        return (0,), at
    if not 0 < count <= len(value):
        raise DecodingError(f"{count} message indexes in a value of {len(value)} bytes")
    path = []
    for _ in range(count):
        index, at = _number(value, at)
        path.append(index)
    return tuple(path), at


def _number(value: bytes, at: int) -> tuple[int, int]:
    found = bits = 0
    while at < len(value) and bits < _MAX_BITS:
        byte = value[at]
        at += 1
        found |= (byte & 0x7F) << bits
        if not byte & 0x80:
            return (found >> 1) ^ -(found & 1), at
        bits += 7
    raise DecodingError("the message indexes are truncated")
