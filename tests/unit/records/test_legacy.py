"""Message formats v0 and v1."""

from __future__ import annotations

import cramjam
import pytest
from kafka.record.memory_records import MemoryRecords, MemoryRecordsBuilder

from tandem_kafka.errors import CorruptRecordError, UnsupportedCodecError
from tests.unit.records.making import GZIP, LOG_APPEND_TIME, LZ4, SNAPPY, batch, compress, message
from tests.unit.records.making import reader as open_


def fields(records):
    return [(r.offset, r.timestamp, r.timestamp_type, r.key, r.value, r.checksum) for r in records]


def theirs(data):
    found = []
    batches = MemoryRecords(data)
    while batches.has_next():
        found += [
            (
                r.offset,
                -1 if r.timestamp is None else r.timestamp,
                r.timestamp_type,
                r.key,
                r.value,
                r.checksum,
            )
            for r in batches.next_batch()
        ]
    return found


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [0, GZIP])
def test_the_same_as_kafka_python(magic, codec):
    builder = MemoryRecordsBuilder(magic, codec, 1 << 20, offset=0)
    for i in range(50):
        builder.append(
            1_000 + i if magic else None, None if i % 3 else b"k", b"v" * i if i % 7 else None
        )
    builder.close()
    data = builder.buffer()
    if codec:
        # The producer sets a wrapper's offset to 0; the broker sets it to that of the last record.
        data = (49).to_bytes(8, "big") + data[8:]
    source = open_(data)
    records = source.take(100)
    assert fields(records) == theirs(data)
    assert [record.offset for record in records] == list(range(50))
    assert source.exhausted
    assert source.next_offset == source.end_offset == 50
    assert {record.leader_epoch for record in records} == {-1}


def wrapped(codec, inner, offset, *, magic=1, flags=0):
    payload = compress(codec, b"".join(inner))
    return message(offset, payload, magic=magic, attributes=codec | flags, timestamp=8_000)


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4])
def test_relative_offsets_and_gaps_inside_a_wrapper(codec):
    inner = [message(0, b"a"), message(1, b"b"), message(4, b"c")]
    source = open_(wrapped(codec, inner, 104), 101)
    assert [(r.offset, r.value) for r in source.take(10)] == [(101, b"b"), (104, b"c")]
    assert source.next_offset == 105


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4])
def test_real_offsets_inside_a_v0_wrapper(codec):
    inner = [message(101, b"a", magic=0), message(104, b"c", magic=0)]
    [first, second] = open_(wrapped(codec, inner, 104, magic=0), 90).take(10)
    assert (first.offset, second.offset) == (101, 104)
    assert (first.timestamp, first.timestamp_type) == (-1, None)


def lz4_frame(data, checksum, *, with_size=False):
    """Return an LZ4 frame with another checksum of its header."""
    frame = bytearray(cramjam.lz4.compress(data))
    if with_size:
        frame[4] |= 8
        frame[6:6] = len(data).to_bytes(8, "little")
    frame[14 if with_size else 6] = checksum
    return bytes(frame)


@pytest.mark.parametrize("with_size", [True, False])
def test_the_header_checksum_of_lz4_does_not_matter_in_v0(with_size):
    """Old producers computed it over the magic number, too (KAFKA-3160)."""
    inner = message(3, b"a", magic=0) + message(4, b"b" * 3_000, magic=0)
    for checksum in range(256):
        frame = lz4_frame(inner, checksum, with_size=with_size)
        data = message(4, frame, magic=0, attributes=LZ4)
        assert [(r.offset, r.value) for r in open_(data, 3).take(5)] == [
            (3, b"a"),
            (4, b"b" * 3_000),
        ]


def test_the_lz4_frame_of_an_old_producer():
    """As kafka-python's lz4_encode_old_kafka() writes it: 0x1A instead of 0x82."""
    inner = message(7, b"a", magic=0)
    block = (len(inner) | 1 << 31).to_bytes(4, "little") + inner  # not compressed
    frame = bytes.fromhex("04224d18 6040 1a") + block + bytes(4)
    [record] = open_(message(7, frame, magic=0, attributes=LZ4)).take(5)
    assert (record.offset, record.value) == (7, b"a")


def test_the_header_checksum_of_lz4_is_checked_in_v1():
    frame = lz4_frame(message(0, b"a"), 0)
    with pytest.raises(CorruptRecordError, match="broken lz4"):
        open_(message(0, frame, attributes=LZ4)).take(5)


@pytest.mark.parametrize("cut", [0, 3, 6, 7, 10, 14])
def test_a_truncated_lz4_frame_in_v0(cut):
    frame = lz4_frame(message(0, b"a", magic=0), 0, with_size=True)[:cut]
    with pytest.raises(CorruptRecordError, match=r"broken lz4|wraps nothing"):
        open_(message(0, frame, magic=0, attributes=LZ4)).take(5)


def test_bare_snappy():
    payload = bytes(cramjam.snappy.compress_raw(message(0, b"a")))
    [record] = open_(message(5, payload, attributes=SNAPPY)).take(1)
    assert (record.offset, record.value) == (5, b"a")


def test_the_append_time_is_that_of_the_wrapper():
    data = wrapped(GZIP, [message(0, b"a"), message(1, b"b")], 1, flags=LOG_APPEND_TIME)
    assert [(r.timestamp, r.timestamp_type) for r in open_(data).take(5)] == [(8_000, 1)] * 2


def test_old_and_new_batches_together():
    data = message(0, b"a", magic=0) + message(1, b"b") + batch(base_offset=2)
    records = open_(data).take(10)
    assert [r.offset for r in records] == [0, 1, 2]
    assert [r.timestamp_type for r in records] == [None, 0, 0]
    assert [r.checksum is None for r in records] == [False, False, True]
    assert records[1].serialized_value_size == 1


def test_a_cut_at_any_byte():
    first, data = message(0, b"a"), message(0, b"a") + message(1, b"b" * 30)
    for cut in range(len(first), len(data)):
        assert [r.offset for r in open_(data[:cut]).take(5)] == [0]


def flipped(data, at):
    data = bytearray(data)
    data[at] ^= 1
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (flipped(message(3, b"abc"), -1), "fails its CRC"),
        (wrapped(GZIP, [flipped(message(0, b"abc"), -1)], 3), "wrapped message fails its CRC"),
        (wrapped(GZIP, [], 3), "wraps nothing"),
        (message(3, None, attributes=GZIP), "is empty"),
        (message(3, b"junk", attributes=GZIP), "broken gzip"),
        (wrapped(GZIP, [wrapped(GZIP, [message(0, b"")], 0)], 3), "compressed again"),
        (wrapped(GZIP, [message(0, b"", magic=0)], 3), "format v0 inside"),
        (wrapped(GZIP, [message(0, b"abc")[:-1]], 3), "past the end"),
        (wrapped(GZIP, [message(0, b"abc")[:20]], 3), "past its end"),
        (wrapped(GZIP, [message(1, b""), message(0, b"")], 3), "out of order"),
        (wrapped(GZIP, [message(1, b""), message(1, b"")], 3), "out of order"),
        (wrapped(GZIP, [message(9, b"", magic=0)], 3, magic=0), "out of order"),
        (message(-3, b"abc"), "offset is -3"),
    ],
)
def test_errors_name_the_problem(data, problem):
    for _ in range(2):
        with pytest.raises(CorruptRecordError, match=problem):
            open_(data).take(10)


@pytest.mark.parametrize(("codec", "magic"), [(4, 1), (5, 1), (4, 0)])
def test_codecs_that_old_formats_do_not_support(codec, magic):
    with pytest.raises(UnsupportedCodecError, match=f"format v{magic}"):
        open_(message(0, b"x", magic=magic, attributes=codec)).take(1)
