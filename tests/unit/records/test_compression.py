"""Decompression: all codecs, concatenated frames and size limits."""

from __future__ import annotations

import struct

import cramjam
import pytest

from tandem_kafka.errors import UnsupportedCodecError
from tandem_kafka.records.batches import MalformedBatchError
from tandem_kafka.records.compression import decompress
from tests.unit.records.making import GZIP, LZ4, SNAPPY, XERIAL, ZSTD, compress, xerial

ALL = [GZIP, SNAPPY, LZ4, ZSTD]
DATA = b"".join(b"%d " % i for i in range(20_000))


@pytest.mark.parametrize("codec", ALL)
@pytest.mark.parametrize("data", [b"", b"x", DATA, bytes(3_000_000)], ids=len)
def test_compressed_data_is_decompressed(codec, data):
    assert decompress(codec, memoryview(compress(codec, data)), 1 << 30) == data


@pytest.mark.parametrize("codec", ALL)
def test_concatenated_frames(codec):
    twice = compress(codec, DATA) + compress(codec, b"more")
    assert decompress(codec, memoryview(twice), 1 << 30) == DATA + b"more"


@pytest.mark.parametrize("codec", ALL)
def test_the_bound_is_exact(codec):
    packed = memoryview(compress(codec, DATA))
    assert decompress(codec, packed, len(DATA)) == DATA
    with pytest.raises(MalformedBatchError, match="bytes of max_decompressed_batch_bytes"):
        decompress(codec, packed, len(DATA) - 1)


@pytest.mark.parametrize("codec", ALL)
def test_truncated_data_is_detected(codec):
    packed = compress(codec, DATA)
    with pytest.raises(MalformedBatchError):
        decompress(codec, memoryview(packed[:-3]), 1 << 30)


def test_bare_snappy():
    packed = bytes(cramjam.snappy.compress_raw(DATA))
    assert decompress(SNAPPY, memoryview(packed), 1 << 30) == DATA


def test_the_versions_in_a_snappy_stream_do_not_matter():
    packed = xerial(DATA).replace(XERIAL, XERIAL[:8] + b"\x01\x00\x00\x00\x01\x00\x00\x00")
    assert decompress(SNAPPY, memoryview(packed), 1 << 30) == DATA


@pytest.mark.parametrize(
    "packed",
    [
        b"\xff\xff\xff\xff\x0f",  # claims 4 GiB
        b"\x80\x80\x80\x80\x04\x00",  # claims 1 GiB
        XERIAL + b"\x00\x00",
        XERIAL + struct.pack(">i", -5),
        XERIAL + struct.pack(">i", 500) + b"abc",
        XERIAL + struct.pack(">i", 0),
    ],
)
def test_snappy_with_a_false_length(packed):
    with pytest.raises(MalformedBatchError):
        decompress(SNAPPY, memoryview(packed), 1 << 30)


def test_a_claimed_size_allocates_no_memory():
    with pytest.raises(MalformedBatchError, match="6 bytes claim to decompress to 1073741824"):
        decompress(SNAPPY, memoryview(b"\x80\x80\x80\x80\x04\x00"), 1 << 30)


def test_snappy_with_the_best_ratio_is_accepted():
    data = bytes(1 << 20)
    packed = bytes(cramjam.snappy.compress_raw(data))
    assert len(data) > 21 * len(packed)
    assert decompress(SNAPPY, memoryview(packed), 1 << 30) == data


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_an_unknown_codec(codec):
    with pytest.raises(UnsupportedCodecError, match=f"codec {codec}"):
        decompress(codec, memoryview(b""), 100)
