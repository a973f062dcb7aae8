"""The byte limit of a poll() batch."""

from __future__ import annotations

from typing import Any

import pytest

from tandem_kafka.consumer.reading.fetch_collector import collect
from tandem_kafka.consumer.reading.records import ConsumerRecords
from tandem_kafka.types import TopicPartition
from tests.unit.consumer.reading import A, B, C, Reading
from tests.unit.records.making import GZIP, Rec, batch


def bounded(*partitions: TopicPartition, max_bytes: int, **options: Any) -> Reading:
    limits = {"max_partition_fetch_bytes": 1, "fetch_buffer_max_bytes": max_bytes}
    return Reading(*partitions, **limits, **options)


def bytes_of(batch_: ConsumerRecords) -> int:
    records = [record for records in batch_.values() for record in records]
    return sum(record.serialized_value_size for record in records)


@pytest.mark.parametrize("codec", [0, GZIP])
def test_a_batch_is_limited_by_decompressed_bytes(codec: int) -> None:
    reading = bounded(A, max_bytes=250)
    records = [Rec(value=b"v" * 100) for _ in range(5)]
    reading.fetched(A, 0, data=batch(records, 0, codec=codec))
    assert reading.offsets() == {"a": [0, 1]}
    assert reading.position(A) == 2
    assert reading.offsets() == {"a": [2, 3]}
    assert reading.offsets() == {"a": [4]}
    assert reading.buffer.held_bytes == 0


def test_the_byte_limit_applies_to_all_partitions_and_fetches() -> None:
    reading = bounded(A, B, C, max_bytes=350)
    for tp in (A, B, C):
        for offset in (0, 2):
            reading.fetched(tp, offset, 2, value=lambda _: b"v" * 100)
    seen = []
    while batch_ := reading.collect():
        seen.append(bytes_of(batch_))
    assert seen == [300, 300, 300, 300]


def test_each_batch_has_at_least_one_record() -> None:
    reading = bounded(A, B, max_bytes=10)
    for tp in (A, B):
        reading.fetched(tp, 0, 2, value=lambda _: b"v" * 100)
    assert [reading.offsets() for _ in range(4)] == [{"a": [0]}, {"b": [0]}, {"a": [1]}, {"b": [1]}]


def test_the_byte_limit_counts_serialized_bytes() -> None:
    reading = bounded(A, max_bytes=250, value_deserializer=lambda _: b"")
    reading.fetched(A, 0, 5, value=lambda _: b"v" * 100)
    assert reading.offsets() == {"a": [0, 1]}


def test_the_byte_limit_applies_to_records_of_an_interrupted_call() -> None:
    reading = bounded(A, max_bytes=250)
    reading.fetched(A, 0, 5, value=lambda _: b"v" * 100)
    collect(reading.collector, 500)  # without publication
    assert reading.offsets() == {"a": [0, 1]}
    assert reading.offsets() == {"a": [2, 3]}
    assert reading.offsets() == {"a": [4]}


def test_a_smaller_limit_applies_to_records_of_an_interrupted_call() -> None:
    reading = Reading(A, value_deserializer=int)
    reading.fetched(A, 0, 5)
    collect(reading.collector, 4)
    assert reading.offsets(3) == {"a": [0, 1, 2]}
    assert reading.position(A) == 3
    assert reading.offsets(3) == {"a": [3, 4]}
