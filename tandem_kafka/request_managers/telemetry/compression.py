"""Compresses metrics with a type that the broker accepts.

LZ4 is left out: Kafka only reads frames of independent blocks, and `cramjam` writes dependent ones.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import Final

import cramjam

NONE: Final = 0
_GZIP, _SNAPPY, _ZSTD = 1, 2, 4

#: The header of the Java client's framing of snappy: name, version, compatible version.
_XERIAL: Final = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK: Final = 32_768


def _xerial(data: bytes) -> bytes:
    framed = bytearray(_XERIAL)
    for start in range(0, len(data), _XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK]))
        framed += struct.pack(">i", len(block)) + block
    return bytes(framed)


_COMPRESSORS: Final[dict[int, Callable[[bytes], bytes]]] = {
    NONE: bytes,
    _GZIP: lambda data: bytes(cramjam.gzip.compress(data)),
    _SNAPPY: _xerial,
    _ZSTD: lambda data: bytes(cramjam.zstd.compress(data)),
}


def compress(data: bytes, accepted: Iterable[int]) -> tuple[int, bytes]:
    """Compress with the first accepted type that is supported; without one, do not compress.

    Returns:
        The id of the type, and the bytes.
    """
    chosen = next((kind for kind in accepted if kind in _COMPRESSORS), NONE)
    return chosen, _COMPRESSORS[chosen](data)
