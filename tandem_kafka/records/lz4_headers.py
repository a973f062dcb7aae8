"""Header checksums of LZ4 frames.

Producers before Kafka 0.10 computed them over the frame's magic number too (KAFKA-3160). In
messages of format v0 they are therefore wrong, and decompression would reject them.
"""

from __future__ import annotations

from typing import Final

#: The magic number, the flags, the size of blocks, perhaps the size of the content; the checksum.
_MAGIC_BYTES: Final = 4
_BYTES: Final = 7
_CONTENT_SIZE: Final = 1 << 3
_CONTENT_SIZE_BYTES: Final = 8

_MASK: Final = 0xFFFFFFFF
_PRIME_1: Final = 0x9E3779B1
_PRIME_2: Final = 0x85EBCA77
_PRIME_3: Final = 0xC2B2AE3D
_PRIME_4: Final = 0x27D4EB2F
_PRIME_5: Final = 0x165667B1


def with_valid_checksum(frame: memoryview) -> memoryview:
    """Return a frame with a valid checksum of its header; a truncated one is returned unchanged."""
    if len(frame) < _BYTES:
        return frame
    at = _BYTES - 1 + (_CONTENT_SIZE_BYTES if frame[_MAGIC_BYTES] & _CONTENT_SIZE else 0)
    if at >= len(frame):
        return frame
    valid = bytearray(frame)
    valid[at] = (_xxh32(bytes(frame[_MAGIC_BYTES:at])) >> 8) & 0xFF
    return memoryview(valid)


def _xxh32(data: bytes) -> int:
    """Return the xxHash of fewer than 16 bytes, as all of these headers are."""
    value = (_PRIME_5 + len(data)) & _MASK
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little")
        value = _rotated(value + word * _PRIME_3, 17) * _PRIME_4 & _MASK
    for byte in data[whole:]:
        value = _rotated(value + byte * _PRIME_5, 11) * _PRIME_1 & _MASK
    value = (value ^ value >> 15) * _PRIME_2 & _MASK
    value = (value ^ value >> 13) * _PRIME_3 & _MASK
    return value ^ value >> 16


def _rotated(value: int, bits: int) -> int:
    value &= _MASK
    return (value << bits | value >> 32 - bits) & _MASK
