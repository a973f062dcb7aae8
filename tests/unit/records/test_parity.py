"""The same records as kafka-python's decoder, in batches of its builder."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.memory_records import MemoryRecords

from tests.unit.records.making import reader

data = st.none() | st.binary(max_size=300)
headers = st.lists(st.tuples(st.text(max_size=20), data), max_size=3)
timestamps = st.integers(0, 2**41) | st.integers(1_700_000_000_000, 1_700_000_001_000)
rows = st.tuples(timestamps, data, data, headers)
batches = st.lists(
    st.tuples(st.lists(rows, min_size=1, max_size=20), st.sampled_from([0, 1])),
    min_size=1,
    max_size=4,
)


def build(content):
    out, base = b"", 0
    for records, codec in content:
        builder = DefaultRecordBatchBuilder(2, codec, False, -1, -1, -1, 1 << 30)
        for index, (timestamp, key, value, found) in enumerate(records):
            builder.append(index, timestamp, key, value, found)
        built = bytearray(builder.build())
        built[0:8] = base.to_bytes(8, "big")
        out += bytes(built)
        base += len(records)
    return out


def theirs(encoded):
    source = MemoryRecords(encoded)
    while source.has_next():
        batch = source.next_batch()
        assert batch.validate_crc()
        for r in batch:
            yield (r.offset, r.timestamp, r.timestamp_type, r.key, r.value, r.headers)


def sizes(record):
    key, value, found = record.key, record.value, record.headers
    return (
        -1 if key is None else len(key),
        -1 if value is None else len(value),
        sum(len(n.encode()) + (0 if v is None else len(v)) for n, v in found) if found else -1,
    )


@pytest.mark.parametrize("check_crcs", [True, False])
@given(content=batches, step=st.integers(1, 50))
def test_the_same_records(check_crcs, content, step):
    encoded = build(content)
    source = reader(encoded, check_crcs=check_crcs)
    found = []
    while not source.exhausted:
        found += source.take(step)
    assert [
        (r.offset, r.timestamp, r.timestamp_type, r.key, r.value, r.headers) for r in found
    ] == list(theirs(encoded))
    for r in found:
        assert sizes(r) == (
            r.serialized_key_size,
            r.serialized_value_size,
            r.serialized_header_size,
        )
    assert source.next_offset == source.end_offset == len(found)
