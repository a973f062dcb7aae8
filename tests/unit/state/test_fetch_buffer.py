"""The fetch buffer and the group membership."""

from __future__ import annotations

import pytest

from tandem_kafka.state.fetch_buffer import CHUNK_BYTES, CompletedFetch, FetchBuffer
from tandem_kafka.state.group import GroupIdentity
from tandem_kafka.state.partition import AssignedPartition, Position
from tandem_kafka.types import TopicPartition
from tests.unit.records.making import ZSTD, Rec, batch, reader


def partition() -> AssignedPartition:
    return AssignedPartition(TopicPartition("topic", 3))


def chunk(state: AssignedPartition, error: Exception | None = None) -> CompletedFetch:
    records = None if error is not None else reader(batch())
    return CompletedFetch(state, Position(0), records, error=error)


def test_bytes_count_until_the_chunk_is_released() -> None:
    buffer, state = FetchBuffer(), partition()
    first, second = chunk(state), chunk(state)
    buffer.add(first)
    buffer.add(second)
    size = first.size_bytes
    assert size > 0
    assert buffer.held_bytes == state.held_bytes == 2 * size
    assert buffer.queue.take() is first
    assert buffer.held_bytes == 2 * size
    buffer.count(first, buffer.counts(first, 0))
    assert buffer.held_bytes == state.held_bytes == size
    assert buffer.queue.take() is second
    assert buffer.queue.take() is None
    assert buffer.added == 2


def test_the_size_of_a_chunk_is_updated_when_records_are_taken() -> None:
    buffer, state = FetchBuffer(), partition()
    data = batch([Rec(b"v" * 1_000)] * 100, codec=ZSTD)
    compressed = CompletedFetch(state, Position(0), reader(data))
    buffer.add(compressed)
    before = buffer.held_bytes
    assert before == state.held_bytes == CHUNK_BYTES + len(data)
    assert compressed.reader is not None
    compressed.reader.take(1)
    assert buffer.held_bytes == before, "the buffer has not counted again"
    buffer.count(compressed, buffer.counts(compressed, compressed.size_bytes))
    assert buffer.held_bytes == state.held_bytes > before + 100_000
    compressed.reader.take(100)
    buffer.count(compressed, buffer.counts(compressed, compressed.size_bytes))
    assert buffer.held_bytes == state.held_bytes == before
    compressed = CompletedFetch(state, Position(0), reader(data))
    buffer.add(compressed)
    assert compressed.reader is not None
    compressed.reader.take(1)
    buffer.count(compressed, buffer.counts(compressed, 0))
    assert buffer.held_bytes == state.held_bytes == before, (
        "subtract the counted size, not the current one"
    )


def test_an_interrupted_count_is_repeated() -> None:
    buffer, state = FetchBuffer(10), partition()
    failed, read = chunk(state, ValueError()), chunk(state)
    buffer.add(failed)
    buffer.add(read)
    assert buffer.is_full
    for each in (failed, read):
        counts = buffer.counts(each, 0)
        buffer.count(each, counts)
        buffer.count(each, counts)
    assert buffer.held_bytes == state.held_bytes == 0
    assert (state.errors_put, state.errors_taken) == (1, 1)
    assert not buffer.is_full


def test_an_error_needs_no_room_but_is_counted() -> None:
    buffer, state = FetchBuffer(), partition()
    failed = chunk(state, ValueError())
    buffer.add(failed)
    assert buffer.held_bytes == 0
    assert (state.errors_put, state.errors_taken) == (1, 0)
    buffer.count(failed, buffer.counts(failed, 0))
    assert state.errors_taken == 1


@pytest.mark.behaviour(99)
def test_the_identity_in_the_group() -> None:
    group = GroupIdentity("readers", "static")
    assert group.metadata.generation_id == -1
    group.joined(4, "member")
    group.set_state("<stable>")
    assert (group.metadata.generation_id, group.metadata.member_id) == (4, "member")
    group.left()
    assert (group.metadata.generation_id, group.metadata.member_id) == (-1, "")
    assert (group.metadata.group_id, group.metadata.group_instance_id) == ("readers", "static")
