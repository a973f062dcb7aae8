"""Batches that would use much memory: options that reject them, and decoding in parts."""

from __future__ import annotations

import pytest

from tandem_kafka.config import Config
from tandem_kafka.errors import CorruptRecordError
from tandem_kafka.records import ReaderOptions
from tests.tier import sample
from tests.unit.records.making import (
    GZIP,
    LZ4,
    SNAPPY,
    ZSTD,
    Rec,
    batch,
    compress,
    message,
    reader,
    record,
)

#: The number of records that the decoder decodes at once, and some more.
PART = 65_536
MANY = PART + 1_000


def offsets(records):
    return [record.offset for record in records]


def test_the_limits_are_the_options_of_the_consumer():
    options = ReaderOptions.of(
        Config.from_options(
            {
                "isolation_level": "read_committed",
                "check_crcs": False,
                "max_decompressed_batch_bytes": 1_000,
                "max_record_headers": 7,
                "fetch_buffer_max_bytes": 5_000_000,
            }
        )
    )
    assert options == ReaderOptions(
        read_committed=True,
        check_crcs=False,
        max_decompressed_batch_bytes=1_000,
        max_record_headers=7,
        decode_ahead_bytes=5_000_000,
    )
    assert ReaderOptions.of(Config.from_options({})) == ReaderOptions()


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_a_batch_with_a_huge_decompressed_size_is_rejected(codec):
    data = batch([Rec(b"\x00" * 50_000)] * 2, 70, codec=codec)
    assert len(reader(data, 70, max_batch_bytes=101_000).take(5)) == 2
    source = reader(batch(base_offset=69) + data, 69, max_batch_bytes=5_000)
    assert offsets(source.take(5)) == [69]
    for _ in range(2):
        with pytest.raises(CorruptRecordError) as caught:
            source.take(5)
        assert str(caught.value) == (
            "[Error 2] CorruptRecordError: cannot read topic-3 at offset 70: the batch with "
            "offsets 70 to 71 decompresses to more than the 5000 bytes of "
            "max_decompressed_batch_bytes; seek to offset 72 to skip the batch"
        )
    assert source.next_offset == 70


def test_a_wrapper_with_a_huge_decompressed_size_is_rejected():
    data = message(9, compress(GZIP, message(9, b"v" * 5_000)), attributes=GZIP)
    with pytest.raises(CorruptRecordError, match=r"offsets 9 to 9 .* 999 bytes of max_decompre"):
        reader(data, 9, max_batch_bytes=999).take(1)


def test_a_record_with_too_many_headers_is_rejected():
    few = [(b"h", b"x")] * 5
    data = batch([Rec(headers=few), Rec(headers=[*few, (b"", None)])], 20)
    assert [len(r.headers) for r in reader(data, 20, max_headers=6).take(5)] == [5, 6]
    with pytest.raises(CorruptRecordError) as caught:
        reader(data, 20, max_headers=5).take(5)
    assert "the record at offset 21 has 6 headers, more than the 5 of max_record_headers" in str(
        caught.value
    )


def test_claimed_headers_allocate_no_memory():
    payload = b"\x1c\x00\x00\x00\x01\x01" + b"\xfe\xff\xff\xff\x0f" + b"\x00" * 3
    with pytest.raises(CorruptRecordError, match="2147483647 headers, more than the 10000"):
        reader(batch(payload=payload)).take(1)


@pytest.mark.parametrize("codec", [0, ZSTD])
def test_a_batch_of_many_records_is_decoded_in_parts(codec):
    data = batch([Rec(None)] * MANY, 5, codec=codec) + batch(base_offset=5 + MANY)
    source = reader(data, 5)
    assert source.end_offset == 6 + MANY
    assert offsets(source.take(PART - 1)) == list(range(5, 4 + PART))
    assert offsets(source.take(3)) == [4 + PART, 5 + PART, 6 + PART]
    assert (source.next_offset, source.exhausted) == (7 + PART, False)
    assert offsets(source.take(MANY)) == list(range(7 + PART, 6 + MANY))
    assert source.exhausted


@pytest.mark.parametrize("codec", sample([0, ZSTD], 1))
def test_a_part_takes_little_memory(codec):
    source = reader(batch([Rec(None)] * 5 * PART, codec=codec))
    source.take(1)
    # A native row has 32 bytes, a Python record about 200.
    assert source.size_bytes < 5 * PART * 9 + PART * 230


def test_offsets_below_the_fetch_offset_are_skipped_in_every_part():
    source = reader(batch([Rec(None)] * MANY), PART + 2)
    assert offsets(source.take(2)) == [PART + 2, PART + 3]


def test_a_part_ends_after_many_bytes_or_headers():
    large = [Rec(b"v" * 3_000_000)] * 5
    headers = [Rec(headers=[(b"", None)] * 9_000)] * 20
    for records in (large, headers):
        source = reader(batch(records, codec=ZSTD))
        assert offsets(source.take(100)) == list(range(len(records)))
        assert (source.next_offset, source.exhausted) == (len(records), True)


@pytest.mark.parametrize("codec", [0, ZSTD])
def test_an_invalid_record_in_a_later_part_comes_after_the_earlier_parts(codec):
    records = [record(Rec(None), i) for i in range(MANY)]
    records[PART + 7] = b"\x0e" + records[PART + 7][1:]
    payload = compress(codec, b"".join(records))
    data = batch(payload=payload, count=MANY, last_delta=MANY - 1, codec=codec)
    source = reader(data + batch(base_offset=MANY))
    assert len(source.take(MANY)) == PART
    for _ in range(2):
        with pytest.raises(
            CorruptRecordError, match=f"at offset {PART}: a record's length is off by"
        ):
            source.take(1)
    assert (source.next_offset, source.exhausted) == (PART, False)


def test_offsets_that_go_back_in_a_later_part():
    records = [Rec(None)] * PART + [Rec(None, delta=PART - 1)]
    source = reader(batch(records, last_delta=PART))
    assert len(source.take(MANY)) == PART
    with pytest.raises(CorruptRecordError, match="do not increase"):
        source.take(1)


def test_a_count_that_is_too_high_for_a_later_part():
    source = reader(batch([Rec(None)] * PART, count=PART + 1, last_delta=PART))
    assert len(source.take(MANY)) == PART
    with pytest.raises(CorruptRecordError, match="past the end"):
        source.take(1)
