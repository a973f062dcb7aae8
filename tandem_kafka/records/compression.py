"""Decompresses batches up to a size limit.

The output buffer has a limited size, and decompression stops when it is full. A few bytes that
claim to be terabytes therefore cost no more than the limit. (A zstd frame may also request a
window, which the library limits to 128 MiB.)
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Final

import cramjam

from tandem_kafka.errors import UnsupportedCodecError
from tandem_kafka.records.batches import BatchTooLargeError, MalformedBatchError

CODEC_NAMES: Final = {0: "none", 1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}

_Into = Callable[[memoryview, bytearray], int]
_STREAMS: Final[dict[int, _Into]] = {
    1: cramjam.gzip.decompress_into,
    3: cramjam.lz4.decompress_into,
    4: cramjam.zstd.decompress_into,
}
_SNAPPY: Final = 2

#: The first estimate of the decompressed size, as a multiple of the compressed one, its growth
#: factor, and the minimum.
_GUESS: Final = 4
_GROWTH: Final = 8
_LEAST: Final = 1 << 16

#: The start of the Java client's snappy stream. The version numbers after it have no meaning, and
#: their byte order depends on the producer.
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER_SIZE: Final = 16
_BLOCK_LENGTH: Final = Struct(">i")
#: The maximum ratio of a snappy element: a copy of 64 bytes takes 3.
_SNAPPY_RATIO: Final = 22


def _full_buffer_text() -> str:
    """Return the library's message for a full output buffer. It has no error class for that."""
    try:
        cramjam.gzip.decompress_into(cramjam.gzip.compress(b"ab"), bytearray(1))
    except cramjam.DecompressionError as error:
        return str(error)
    return ""


_FULL_BUFFER: Final = _full_buffer_text()


def decompress(codec: int, data: memoryview, max_bytes: int) -> bytes:
    """Return the decompressed bytes, concatenated frames included.

    Raises:
        MalformedBatchError: The data is corrupt.
        BatchTooLargeError: The decompressed data exceeds `max_bytes`.
        UnsupportedCodecError: The codec is unknown.
    """
    try:
        if codec == _SNAPPY:
            return _decompress_snappy(data, max_bytes)
        if codec in _STREAMS:
            return _decompress_stream(_STREAMS[codec], data, max_bytes)
    except cramjam.DecompressionError as error:
        raise MalformedBatchError(f"broken {CODEC_NAMES[codec]} data: {error}") from error
    raise UnsupportedCodecError(f"compression codec {codec} is unknown")


def _decompress_stream(into: _Into, data: memoryview, max_bytes: int) -> bytes:
    """Decompress into a buffer that grows until the data fits or the limit is reached."""
    size = min(max(_GUESS * len(data), _LEAST), max_bytes)
    while True:
        buffer = bytearray(size)
        try:
            used = into(data, buffer)
        except cramjam.DecompressionError as error:
            if str(error) != _FULL_BUFFER:
                raise
            if size >= max_bytes:
                raise _too_large(max_bytes) from error
            size = min(size * _GROWTH, max_bytes)
        else:
            return bytes(memoryview(buffer)[:used])


def _decompress_snappy(data: memoryview, max_bytes: int) -> bytes:
    """Decompress a raw snappy block, or the sequence of blocks that the Java client writes."""
    if not _is_xerial_header(data, 0):
        return _snappy_block(data, 0, max_bytes)
    blocks: list[bytes] = []
    size = at = 0
    while at < len(data):
        if _is_xerial_header(data, at):
            at += _XERIAL_HEADER_SIZE
            continue
        start = at + _BLOCK_LENGTH.size
        if start > len(data):
            raise MalformedBatchError("broken snappy data: a block is truncated")
        (length,) = _BLOCK_LENGTH.unpack_from(data, at)
        at = start + length
        if length < 0 or at > len(data):
            raise MalformedBatchError(f"broken snappy data: a block has the length {length}")
        blocks.append(_snappy_block(data[start:at], size, max_bytes))
        size += len(blocks[-1])
    return b"".join(blocks)


def _is_xerial_header(data: memoryview, at: int) -> bool:
    return bytes(data[at : at + len(_XERIAL_MAGIC)]) == _XERIAL_MAGIC


def _snappy_block(block: memoryview, before: int, max_bytes: int) -> bytes:
    """Decompress a block after others with a total of `before` decompressed bytes."""
    claimed = cramjam.snappy.decompress_raw_len(block)
    if before + claimed > max_bytes:
        raise _too_large(max_bytes)
    if claimed > _SNAPPY_RATIO * len(block):
        raise MalformedBatchError(
            f"broken snappy data: {len(block)} bytes claim to decompress to {claimed}"
        )
    buffer = bytearray(claimed)
    used = cramjam.snappy.decompress_raw_into(block, buffer)
    return bytes(memoryview(buffer)[:used])


def _too_large(max_bytes: int) -> BatchTooLargeError:
    return BatchTooLargeError(
        f"decompresses to more than the {max_bytes} bytes of max_decompressed_batch_bytes"
    )
