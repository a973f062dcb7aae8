"""Unsigned varints of the protocol: seven bits in a byte, the lowest first."""

from __future__ import annotations

#: The bits that five bytes can hold; without a limit, a corrupted frame could be one huge number.
_MOST_BITS = 35


def read_varint(data: memoryview, position: int) -> tuple[int, int]:
    """Return a number of up to 32 bits, and the position after it.

    Raises:
        ValueError: It has more than five bytes.
        IndexError: The data ends in it.
    """
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift >= _MOST_BITS:
            raise ValueError("a varint has more than five bytes")


def encode_varint(value: int) -> bytes:
    """Return a number that is not negative in as few bytes as possible."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
