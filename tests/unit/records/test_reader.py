"""A partition's records: which are returned, and the position after them."""

from __future__ import annotations

import pickle

import kafka.errors
import pytest

from tandem_kafka.errors import CorruptRecordError, UnsupportedCodecError
from tandem_kafka.records import FetchedPartition, ReaderOptions
from tandem_kafka.types import ConsumerRecord
from tests.unit.records.making import (
    CONTROL,
    GZIP,
    LOG_APPEND_TIME,
    LZ4,
    SNAPPY,
    TRANSACTIONAL,
    ZSTD,
    Rec,
    batch,
    marker,
    message,
    open_reader,
    reader,
)


def offsets(records):
    return [record.offset for record in records]


def three(base_offset=0, **settings):
    return batch([Rec(b"a"), Rec(b"b"), Rec(b"c")], base_offset, **settings)


def test_a_record_has_all_its_fields():
    data = batch(
        [
            Rec(
                b"v",
                b"key",
                [(b"h", b"1"), (b"h", None), (b"\xc3\xa4", b"")],
                timestamp_delta=-5,
            )
        ],
        40,
    )
    [record] = reader(data, 40).take(10)
    assert record == ConsumerRecord(
        topic="topic",
        partition=3,
        leader_epoch=5,
        offset=40,
        timestamp=995,
        timestamp_type=0,
        key=b"key",
        value=b"v",
        headers=[("h", b"1"), ("h", None), ("ä", b"")],
        checksum=None,
        serialized_key_size=3,
        serialized_value_size=1,
        serialized_header_size=5,
    )


def test_absent_key_value_and_headers():
    [tombstone, empty] = reader(batch([Rec(None, b"k"), Rec(b"", None)])).take(10)
    assert tombstone.value is None
    assert tombstone.serialized_value_size == -1
    assert (empty.key, empty.value) == (None, b"")
    assert (empty.serialized_key_size, empty.serialized_value_size) == (-1, 0)
    assert empty.headers == []
    assert empty.serialized_header_size == -1


def test_records_without_headers_do_not_share_a_list():
    first, second = reader(batch([Rec(), Rec()])).take(2)
    first.headers.append(("mine", b""))
    assert second.headers == []


def test_headers_on_some_records_only():
    data = batch([Rec(), Rec(headers=[(b"h", b"x")]), Rec()])
    assert [record.headers for record in reader(data).take(3)] == [[], [("h", b"x")], []]


def test_headers_in_one_batch_only():
    data = batch() + batch([Rec(headers=[(b"h", b"x")])], 1) + batch(base_offset=2)
    records = reader(data).take(3)
    assert [record.headers for record in records] == [[], [("h", b"x")], []]
    assert [record.serialized_header_size for record in records] == [-1, 2, -1]


def test_a_header_name_with_invalid_utf8_does_not_stop_the_partition():
    [record] = reader(batch([Rec(headers=[(b"\xff", b"x")])])).take(1)
    assert record.headers == [("\ufffd", b"x")]


def test_log_append_time_applies_to_every_record():
    records = reader(three(flags=LOG_APPEND_TIME, max_timestamp=777)).take(3)
    assert {(record.timestamp, record.timestamp_type) for record in records} == {(777, 1)}


@pytest.mark.parametrize("codec", [0, GZIP, SNAPPY, LZ4, ZSTD])
def test_every_codec(codec):
    values = [bytes([i % 7]) * (i * 13 % 500) for i in range(300)]
    data = batch([Rec(value, str(i).encode()) for i, value in enumerate(values)], 7, codec=codec)
    records = reader(data, 7).take(1000)
    assert [record.value for record in records] == values
    assert offsets(records) == list(range(7, 307))


@pytest.mark.parametrize("delta", [63, 64, 8191, 8192, 1_048_575, 1_048_576, 2**31 - 1])
@pytest.mark.parametrize("base_offset", [0, 2**62])
def test_offsets_of_every_width(delta, base_offset):
    data = batch([Rec(), Rec(delta=delta)], base_offset)
    source = reader(data, base_offset)
    assert offsets(source.take(5)) == [base_offset, base_offset + delta]
    assert source.next_offset == source.end_offset == base_offset + delta + 1


@pytest.mark.parametrize("delta", [-1, -64, -65, -8192, -8193, 64, 8192, 2**40, -(2**40)])
def test_timestamps_of_every_width(delta):
    [record] = reader(batch([Rec(timestamp_delta=delta)])).take(1)
    assert record.timestamp == 1_000 + delta


@pytest.mark.parametrize(
    ("base", "delta", "expected"),
    [
        (2**63 - 1, 1, -(2**63)),
        (2**63 - 1, 9_000, -(2**63) + 8_999),
        (-(2**63), -1, 2**63 - 1),
        (2**62, 2**62, -(2**63)),
        (1, 2**63 - 1, -(2**63)),
        (5, -(2**63), -(2**63) + 5),
        (2**63 - 1, 0, 2**63 - 1),
    ],
)
def test_a_timestamp_beyond_64_bits_wraps_as_in_java(base, delta, expected):
    records = [Rec(timestamp_delta=0), Rec(timestamp_delta=delta)]
    found = reader(batch(records, base_timestamp=base)).take(2)
    assert [record.timestamp for record in found] == [base, expected]


@pytest.mark.parametrize("size", [63, 64, 127, 128, 8191, 8192, 2_000_000])
def test_lengths_of_every_width(size):
    [record] = reader(batch([Rec(b"v" * size, b"k" * size)])).take(1)
    assert (record.serialized_key_size, record.serialized_value_size) == (size, size)


def test_take_continues_where_it_stopped_and_across_batches():
    source = reader(three() + three(3, epoch=6))
    assert offsets(source.take(2)) == [0, 1]
    assert (source.next_offset, source.leader_epoch, source.exhausted) == (2, 5, False)
    assert offsets(source.take(2)) == [2, 3]
    assert (source.next_offset, source.leader_epoch) == (4, 6)
    assert offsets(source.take(100)) == [4, 5]
    assert (source.next_offset, source.exhausted) == (6, True)
    assert source.take(100) == []


def test_nothing_is_returned_without_room():
    source = reader(three())
    assert source.take(0) == []
    assert (source.next_offset, source.exhausted) == (0, False)


def test_records_below_the_fetch_offset_are_skipped():
    source = reader(three(10), 12)
    assert offsets(source.take(5)) == [12]
    assert (source.next_offset, source.exhausted) == (13, True)


def test_the_position_moves_past_what_compaction_removed():
    source = reader(batch([Rec(delta=2), Rec(delta=5)], 100, last_delta=9), 100)
    assert source.end_offset == 110
    assert offsets(source.take(1)) == [102]
    assert source.next_offset == 103
    assert offsets(source.take(1)) == [105]
    assert (source.next_offset, source.exhausted) == (110, True)


def test_a_batch_that_compaction_emptied_moves_the_position():
    source = reader(batch([], 100, last_delta=9), 103)
    assert source.take(5) == []
    assert (source.next_offset, source.leader_epoch, source.exhausted) == (110, 5, True)


@pytest.mark.parametrize("records", [None, memoryview(b"")])
def test_no_bytes_mean_no_records(records):
    source = open_reader(
        "t", 0, 8, FetchedPartition("t", None, 0, 0, records=records), ReaderOptions()
    )
    assert source.exhausted
    assert (source.next_offset, source.end_offset, source.size_bytes) == (8, 8, 0)
    assert source.take(1) == []


def test_sizes_and_end_are_known_before_decoding():
    data = three() + three(3, codec=ZSTD)
    source = reader(data + data[:70])
    assert (source.end_offset, source.size_bytes) == (6, len(data) + 70)
    assert source.leader_epoch == -1


def test_a_cut_at_any_byte_leaves_the_complete_batches():
    first, second = three(codec=GZIP), three(3)
    data = first + second
    for cut in range(len(first), len(data)):
        source = reader(data[:cut])
        assert source.end_offset == 3
        assert offsets(source.take(10)) == [0, 1, 2]
        assert source.exhausted


def test_bytes_without_a_complete_batch_are_an_error():
    data = three(9)
    for cut in range(1, len(data)):
        source = reader(data[:cut], 9)
        assert (source.end_offset, source.exhausted) == (9, False)
        for _ in range(2):
            with pytest.raises(CorruptRecordError, match=r"topic-3 at offset 9.*max_partition_"):
                source.take(1)
        assert source.next_offset == 9


def test_control_batches_are_never_returned():
    data = three() + marker(3, 9, abort=False) + three(4) + marker(7, 9, abort=True)
    source = reader(data)
    assert offsets(source.take(100)) == [0, 1, 2, 4, 5, 6]
    assert (source.next_offset, source.exhausted) == (8, True)


def test_an_empty_control_batch():
    empty = batch([], 3, flags=CONTROL | TRANSACTIONAL, producer_id=9, last_delta=0)
    for read_committed in (False, True):
        source = reader(three() + empty, aborted=((9, 1),), read_committed=read_committed)
        assert offsets(source.take(100)) == [0, 1, 2]
        assert source.next_offset == 4


def transactional(base_offset, producer_id):
    return three(base_offset, flags=TRANSACTIONAL, producer_id=producer_id)


ABORTED = (
    transactional(0, 1)  # aborted at 6
    + transactional(3, 2)  # committed at 13
    + marker(6, 1, abort=True)
    + transactional(7, 1)  # committed at 17
    + three(10, producer_id=1)  # idempotent, outside of any transaction
    + marker(13, 2, abort=False)
    + transactional(14, 2)  # aborted at 18
    + marker(17, 1, abort=False)
    + marker(18, 2, abort=True)
    + transactional(19, 2)
)


def test_aborted_transactions_are_skipped_when_reading_committed():
    # The broker orders them by producer, not by offset.
    source = reader(ABORTED, aborted=((2, 14), (1, 0)), read_committed=True)
    expected = [3, 4, 5, 7, 8, 9, 10, 11, 12, 19, 20, 21]
    taken = [offset for _ in range(40) for offset in offsets(source.take(1))]
    assert taken == expected
    assert (source.next_offset, source.exhausted) == (22, True)


def test_aborted_transactions_are_returned_when_reading_uncommitted():
    source = reader(ABORTED, aborted=((2, 14), (1, 0)))
    assert len(source.take(100)) == 18


def test_a_transaction_aborted_twice_by_one_producer():
    data = transactional(0, 1) + marker(3, 1, abort=True) + transactional(4, 1)
    data += marker(7, 1, abort=True) + transactional(8, 1) + marker(11, 1, abort=False)
    source = reader(data, aborted=((1, 0), (1, 4)), read_committed=True)
    assert offsets(source.take(100)) == [8, 9, 10]


def test_a_transaction_that_begins_with_the_only_record_of_a_batch():
    data = batch(flags=TRANSACTIONAL, producer_id=1) + marker(1, 1, abort=True)
    assert reader(data, aborted=((1, 0),), read_committed=True).take(5) == []


def test_aborted_transactions_are_tracked_by_offset():
    data = transactional(0, 2) + marker(3, 2, abort=True) + transactional(4, 1)
    source = reader(data, aborted=((1, 4), (2, 0)), read_committed=True)
    assert source.take(100) == []
    assert source.next_offset == 7


def test_records_outside_of_transactions_are_never_hidden():
    data = transactional(0, 1) + three(3, producer_id=1) + marker(6, 1, abort=True)
    source = reader(data, aborted=((1, 0),), read_committed=True)
    assert offsets(source.take(100)) == [3, 4, 5]


def test_aborted_records_after_small_batches_are_skipped_too():
    data = three(0, producer_id=1) + transactional(3, 1) + marker(6, 1, abort=True) + three(7)
    source = reader(data, aborted=((1, 3),), read_committed=True)
    assert offsets(source.take(100)) == [0, 1, 2, 7, 8, 9]


def test_only_aborted_records_still_move_the_position():
    source = reader(transactional(0, 1), aborted=((1, 0),), read_committed=True)
    assert source.take(100) == []
    assert (source.next_offset, source.exhausted) == (3, True)


def test_records_before_a_corrupt_batch_come_first_and_the_error_stays():
    broken = bytearray(three(3))
    broken[-1] ^= 1
    source = reader(three() + bytes(broken) + three(6))
    assert source.end_offset == 9
    assert offsets(source.take(100)) == [0, 1, 2]
    for _ in range(3):
        with pytest.raises(CorruptRecordError, match=r"topic-3 at offset 3: .* fails its CRC"):
            source.take(100)
        assert (source.next_offset, source.exhausted) == (3, False)


def test_an_unreadable_batch_says_where_to_continue():
    crc, codec = bytearray(three(3)), three(10, codec=0, flags=6)
    crc[-1] ^= 1
    for kind, broken, end in [
        (CorruptRecordError, bytes(crc), 6),
        (UnsupportedCodecError, codec, 13),
    ]:
        source = reader(three() + broken + three(20))
        source.take(100)
        with pytest.raises(kind, match=f"; seek to offset {end} to skip the batch$") as caught:
            source.take(100)
        error = caught.value
        assert (error.partition, error.offset, error.next_offset) == (("topic", 3), 3, end)
        assert isinstance(error, getattr(kafka.errors, kind.__name__))
        again = pickle.loads(pickle.dumps(error))
        assert (str(again), again.next_offset) == (str(error), end)


def test_a_damaged_header_hides_where_the_batch_ends():
    source = reader(three() + three(3)[:8] + b"\xff\xff\xff\xfe" + three(3)[12:])
    source.take(100)
    with pytest.raises(CorruptRecordError, match=r"; seek past it to continue$") as caught:
        source.take(100)
    assert (caught.value.offset, caught.value.next_offset) == (3, None)


def test_a_crc_is_not_checked_if_disabled():
    broken = bytearray(three())
    broken[17] ^= 1
    assert len(reader(bytes(broken), check_crcs=False).take(10)) == 3


def test_an_unknown_codec_is_named_and_stays():
    source = reader(three() + three(3, codec=0, flags=6))
    assert len(source.take(100)) == 3
    for _ in range(2):
        with pytest.raises(UnsupportedCodecError, match=r"topic-3 at offset 3: .*codec 6"):
            source.take(1)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"count": 4}, "past the end"),
        ({"count": 2}, "follow the last record"),
        ({"count": -1}, "-1 records"),
        ({"last_delta": -1}, "delta -1"),
        ({"last_delta": 1}, "outside its batch"),
        ({"base_offset": -4}, "offset -4"),
    ],
)
def test_a_header_that_contradicts_the_records(settings, problem):
    with pytest.raises(CorruptRecordError, match=problem):
        reader(three(**settings)).take(10)


@pytest.mark.parametrize(
    ("records", "problem"),
    [
        ([Rec(delta=3), Rec(delta=1)], "do not increase"),
        ([Rec(delta=1), Rec(delta=1), Rec(delta=5)], "do not increase"),
        ([Rec(delta=-1), Rec(delta=1)], "outside its batch"),
    ],
)
def test_offsets_that_go_back(records, problem):
    with pytest.raises(CorruptRecordError, match=problem):
        reader(batch(records, 10, last_delta=5)).take(10)


@pytest.mark.parametrize(
    ("payload", "problem"),
    [
        (b"\x0e\x00\x00\x00\x01\x01\x00", "length is off by"),
        (b"\x0a\x00\x00\x00\x01\x01\x00", "length is off by"),
        (b"\x0c\x00\x00\x00\x01\x10\x00", "past the end"),
        (b"\x0c\x00\x00\x00\x01\x01\x01", "-1 headers"),
        (b"\x10\x00\x00\x00\x01\x01\x02\x01\x01", "no name"),
        (b"\xff" * 12, "ten bytes"),
        (b"\x0c\x00" + b"\xff" * 9 + b"\x7f" + b"\x00\x01\x01\x00", "64 bits"),
    ],
)
def test_a_malformed_record(payload, problem):
    with pytest.raises(CorruptRecordError, match=problem):
        reader(batch(payload=payload)).take(10)


@pytest.mark.parametrize("last_delta", [0, 7])
def test_a_batch_at_the_highest_possible_offset_is_rejected(last_delta):
    base = 2**63 - 1 - last_delta
    data = batch([Rec()], base, last_delta=last_delta)
    with pytest.raises(CorruptRecordError, match=f"offset {base}, last offset delta {last_delta} "):
        reader(data, base).take(1)
    before = reader(batch([Rec()], base - 1, last_delta=last_delta), base - 1)
    assert offsets(before.take(1)) == [base - 1]
    assert before.next_offset == before.end_offset == 2**63 - 1


def test_a_message_at_the_highest_possible_offset_is_rejected():
    with pytest.raises(CorruptRecordError, match="offset is 9223372036854775807"):
        reader(message(2**63 - 1, b"v"), 0).take(1)
    assert offsets(reader(message(2**63 - 2, b"v"), 0).take(1)) == [2**63 - 2]


def test_an_unknown_format_and_a_negative_length():
    data = bytearray(three(3))
    data[16] = 3
    source = reader(three() + bytes(data))
    assert source.end_offset == 3
    assert len(source.take(10)) == 3
    with pytest.raises(CorruptRecordError, match="format v3"):
        source.take(1)
    data[8:12] = b"\xff\xff\xff\xfe"
    with pytest.raises(CorruptRecordError, match="has the length -2"):
        reader(bytes(data)).take(1)
