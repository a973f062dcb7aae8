"""`take` with a limit on bytes: where it stops, what it counts, what stays encoded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem_kafka.errors import CorruptRecordError
from tests.unit.records.making import GZIP, Rec, batch, message, reader


def offsets(records):
    return [record.offset for record in records]


def size_of(record):
    """Return the size that the reader counts for a record."""
    sizes = (
        record.serialized_key_size,
        record.serialized_value_size,
        record.serialized_header_size,
    )
    return max(1, sum(max(0, size) for size in sizes))


def sized(*sizes, base_offset=0, **settings):
    return batch([Rec(b"v" * size) for size in sizes], base_offset, **settings)


def test_the_record_that_would_exceed_the_limit_comes_next_time():
    source = reader(sized(40, 40, 40))
    assert offsets(source.take(10, 100)) == [0, 1]
    assert (source.next_offset, source.exhausted, source.taken_bytes) == (2, False, 80)
    assert offsets(source.take(10, 100)) == [2]
    assert (source.next_offset, source.exhausted, source.taken_bytes) == (3, True, 120)


def test_records_that_reach_the_limit_exactly_are_returned():
    assert offsets(reader(sized(50, 50, 1)).take(10, 100)) == [0, 1]


@pytest.mark.parametrize("max_bytes", [0, 1, 99])
def test_one_record_is_returned_whatever_its_size(max_bytes):
    source = reader(sized(100, 100))
    assert offsets(source.take(10, max_bytes)) == [0]
    assert offsets(source.take(10, max_bytes)) == [1]
    assert source.exhausted


def test_the_limit_applies_across_batches():
    source = reader(sized(30, 30) + sized(30, 30, base_offset=2, codec=GZIP))
    assert offsets(source.take(10, 90)) == [0, 1, 2]
    assert offsets(source.take(10, 90)) == [3]


def test_keys_values_and_headers_count_by_their_serialized_sizes():
    records = [Rec(b"v" * 5, b"key", [(b"\xff", b"1234"), (b"name", None)]), Rec(None, None)]
    source = reader(batch(records))
    assert sum(map(size_of, source.take(10, 1_000))) == source.taken_bytes
    assert source.taken_bytes == 5 + 3 + len("\ufffd".encode()) + 4 + 4 + 1


def test_records_without_bytes_count_as_one_byte():
    source = reader(batch([Rec(None)] * 9))
    assert len(source.take(100, 4)) == 4


def test_the_limit_on_records_still_applies():
    source = reader(sized(1, 1, 1))
    assert offsets(source.take(2, 1_000)) == [0, 1]
    assert source.take(0, 1_000) == []


def test_a_batch_after_the_limit_is_not_decoded():
    broken = bytearray(sized(10, base_offset=2))
    broken[-1] ^= 1
    source = reader(sized(10, 10) + bytes(broken))
    assert offsets(source.take(10, 20)) == [0, 1]
    with pytest.raises(CorruptRecordError):
        source.take(10, 20)


def test_messages_of_old_formats_count_too():
    source = reader(message(0, b"v" * 10, b"key") + message(1, b"v" * 10))
    assert offsets(source.take(10, 22)) == [0]
    assert source.taken_bytes == 13


def test_without_a_limit_nothing_is_counted():
    source = reader(sized(10, 10))
    assert len(source.take(10)) == 2
    assert source.taken_bytes == 0


@given(
    batches=st.lists(st.lists(st.integers(0, 60), max_size=6), min_size=1, max_size=5),
    max_records=st.integers(1, 8),
    max_bytes=st.integers(0, 150),
)
def test_every_call_is_as_full_as_possible(batches, max_records, max_bytes):
    data, base = b"", 0
    for sizes in batches:
        last = max(0, len(sizes) - 1)
        data += sized(*sizes, base_offset=base, last_delta=last)
        base += last + 1
    everything = list(reader(data).take(1_000))
    source, found = reader(data), []
    while not source.exhausted:
        before = source.taken_bytes
        records = source.take(max_records, max_bytes)
        size = sum(map(size_of, records))
        assert source.taken_bytes - before == size
        assert len(records) <= max_records
        assert size <= max_bytes or len(records) == 1
        found += records
        if found and len(found) < len(everything) and len(records) < max_records:
            assert size + size_of(everything[len(found)]) > max_bytes
    assert found == everything
