"""From the buffer to records: limits, fairness, stale data and errors."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from tandem_kafka.consumer.reading.fetch_collector import collect
from tandem_kafka.consumer.reading.opened_chunk import OpenedChunk
from tandem_kafka.errors import (
    CorruptRecordError,
    OffsetOutOfRangeError,
    RecordDeserializationError,
    TopicAuthorizationFailedError,
)
from tandem_kafka.runtime.native import native
from tandem_kafka.state.fetch_buffer import FetchBuffer
from tandem_kafka.state.partition import CommittedPosition, Position
from tandem_kafka.types import OffsetAndMetadata, PositionStart, TopicPartition
from tests.unit.consumer.reading import A, B, C, Reading
from tests.unit.records.making import CONTROL, TRANSACTIONAL, ZSTD, Rec, batch


def test_without_fetched_records_nothing_is_returned() -> None:
    reading = Reading(A)
    reading.collect()
    batch_ = reading.collect()
    assert not batch_
    assert batch_.next_offsets == {}
    assert batch_.starts == {}


def test_where_a_partition_continues_is_told_once_the_call_has_returned() -> None:
    reading = Reading(A, B)
    told = {A: PositionStart(0), B: PositionStart(0)}
    assert collect(reading.collector, 500).starts == told
    assert reading.collect().starts == told, "the first call was interrupted"
    assert reading.collect().starts == {}
    reading.fetched(A, 0)
    assert reading.collect().starts == {}, "it came by reading"
    reading.state(A).set_position(Position(9, 4))
    found = reading.collect()
    assert found.starts == {A: PositionStart(9, 4)}
    assert found.next_offsets == {A: OffsetAndMetadata(9, "", 4)}
    assert reading.collect().starts == {}


def test_the_records_of_the_same_call_come_after_the_start() -> None:
    reading = Reading(A)
    reading.fetched(A, 0)
    reading.collect()
    reading.state(A).set_position(Position(7))
    reading.fetched(A, 7)
    found = reading.collect()
    assert [record.offset for record in found[A]] == [7, 8, 9]
    assert found.starts == {A: PositionStart(7)}
    assert found.next_offsets == {A: OffsetAndMetadata(10, "", 3)}


def test_what_was_known_before_is_forgotten() -> None:
    reading = Reading(A)
    for offset in range(4):
        reading.state(A).set_position(Position(offset))
        reading.collect()
    known = reading.state(A).known
    assert known is not None
    assert known.before is not None
    assert known.before.before is None, "a program that seeks for ever would keep all of them"


def test_a_position_is_told_although_an_interrupted_call_has_read_elsewhere() -> None:
    """The application knows of 0 to 2, and continues at 0: not where the first base was."""
    reading = Reading(A)
    reading.fetched(A, 0)
    reading.collect()
    reading.state(A).set_position(Position(7))
    reading.fetched(A, 7)
    collect(reading.collector, 500)  # interrupted
    reading.state(A).set_position(Position(0))
    assert reading.collect().starts == {A: PositionStart(0)}


def test_a_committed_position_is_not_to_be_committed() -> None:
    reading = Reading(A)
    reading.state(A).set_position(CommittedPosition(5, 2))
    found = reading.collect()
    assert found.starts == {A: PositionStart(5, 2)}
    assert found.next_offsets == {}


def test_a_dropped_read_ahead_moves_nothing() -> None:
    reading = Reading(A)
    reading.fetched(A, 0)
    reading.collect()
    reading.state(A).drop_read_ahead()
    assert reading.collect().starts == {}


def test_a_topic_id_that_comes_later_and_another_topic_are_told() -> None:
    reading = Reading(A)
    state, one, other = reading.state(A), UUID(int=1), UUID(int=2)
    reading.collect()
    state.topic_id = one
    reading.subscription.changes.note(state)
    assert reading.collect().starts == {A: PositionStart(0, topic_id=one, kept=True)}
    state.await_reset(-2)
    assert reading.collect().starts == {}, "there is no position"
    state.topic_id = other
    state.set_position(Position(0))
    assert reading.collect().starts == {A: PositionStart(0, topic_id=other)}, "the same offset"


def test_what_is_told_again_is_the_position_not_the_base() -> None:
    reading = Reading(A)
    reading.fetched(A, 0)
    reading.collect()
    reading.subscription.tell_again([A])
    assert reading.collect().starts == {A: PositionStart(3, 3)}


@pytest.mark.behaviour(169)
def test_records_move_the_position_past_them() -> None:
    reading = Reading(A)
    reading.fetched(A, 0)
    found = reading.collect()
    assert [record.value for record in found[A]] == [b"0", b"1", b"2"]
    assert found.next_offsets == {A: OffsetAndMetadata(3, "", 3)}
    assert reading.position(A) == 3
    assert reading.buffer.held_bytes == 0


@pytest.mark.behaviour(28)
def test_a_poll_returns_at_most_the_limit_and_the_next_continues() -> None:
    reading = Reading(A)
    reading.fetched(A, 0, 5)
    assert reading.offsets(2) == {"a": [0, 1]}
    assert reading.position(A) == 2
    assert reading.buffer.held_bytes > 0, "the other records are still buffered"
    assert reading.offsets(2) == {"a": [2, 3]}
    assert reading.offsets(2) == {"a": [4]}
    assert reading.buffer.held_bytes == 0


def test_what_arrives_before_the_positions_move_is_not_taken_for_read() -> None:
    """A signal handler or an interceptor calls `assign()`, or another thread as poll() returns."""
    reading = Reading(A)
    reading.fetched(A, 0)
    assert len(collect(reading.collector, 500)[A]) == 3
    reading.fetched(A, 3)
    reading.collector.purge()
    reading.collector.publication.done = True
    assert reading.offsets() == {"a": [3, 4, 5]}
    reading.collect()
    assert reading.buffer.held_bytes == 0


def test_several_fetches_of_one_partition_are_one_sequence() -> None:
    reading = Reading(A)
    reading.fetched(A, 0)
    reading.fetched(A, 3)
    assert reading.offsets(5) == {"a": [0, 1, 2, 3, 4]}
    assert reading.offsets(5) == {"a": [5]}


@pytest.mark.behaviour(28)
def test_the_limit_applies_to_all_partitions_together() -> None:
    reading = Reading(A, B)
    reading.fetched(A, 0)
    reading.fetched(B, 0)
    assert reading.offsets(4) == {"a": [0, 1, 2], "b": [0]}
    assert reading.offsets(4) == {"b": [1, 2]}


# --- the limit on bytes ------------------------------------------------------------------------


# --- fairness and stale data -------------------------------------------------------------------


@pytest.mark.behaviour(170)
def test_a_busy_partition_does_not_starve_the_others() -> None:
    reading = Reading(A, B, C)
    for offset in range(0, 30, 3):
        reading.fetched(A, offset)
    reading.fetched(B, 0)
    reading.fetched(C, 0)
    seen: list[str] = []
    for _ in range(6):
        seen.extend(reading.offsets(2))
    assert seen[:3] == ["a", "b", "c"]
    assert seen.count("b") == seen.count("c") == 2


@pytest.mark.behaviour(158)
@pytest.mark.parametrize("how", ["seek", "reset"])
def test_records_fetched_for_another_position_are_dropped(how: str) -> None:
    reading = Reading(A)
    reading.fetched(A, 0)
    assert reading.offsets(1) == {"a": [0]}
    if how == "seek":
        reading.state(A).set_position(Position(7))
    else:
        reading.state(A).await_reset(-1)
    assert reading.offsets() == {}
    assert reading.buffer.held_bytes == 0
    assert reading.position(A) == (7 if how == "seek" else None)
    if how == "seek":
        reading.fetched(A, 7)
        assert reading.offsets() == {"a": [7, 8, 9]}


@pytest.mark.behaviour(158)
def test_records_of_an_unassigned_partition_are_dropped() -> None:
    reading = Reading(A, B)
    chunk = reading.fetched(A, 0)
    reading.fetched(B, 0)
    reading.subscription.assign_by_user([B])
    assert reading.offsets() == {"b": [0, 1, 2]}
    reading.subscription.assign_by_user([A, B])
    reading.state(A).set_position(Position(0))
    assert reading.offsets() == {}
    assert chunk.partition is not reading.state(A)
    assert reading.buffer.held_bytes == 0


@pytest.mark.behaviour(158)
def test_a_seek_to_the_fetch_offset_drops_fetched_records() -> None:
    """Two seeks to the same offset are two positions, because the log may have changed."""
    reading = Reading(A)
    reading.fetched(A, 0)
    assert reading.offsets(1) == {"a": [0]}
    reading.state(A).set_position(Position(0))
    assert reading.offsets() == {}
    assert reading.buffer.held_bytes == 0
    reading.fetched(A, 0)
    assert reading.offsets() == {"a": [0, 1, 2]}


@pytest.mark.behaviour(158)
def test_a_seek_back_before_any_record_was_returned_drops_fetched_records() -> None:
    reading = Reading(A)
    reading.fetched(A, 0)
    reading.state(A).set_position(Position(0))
    assert reading.offsets() == {}
    assert reading.position(A) == 0


@pytest.mark.behaviour(158)
def test_records_of_a_former_assignment_of_a_partition_are_dropped() -> None:
    """It was revoked and assigned again before anything was collected."""
    reading = Reading(A, B)
    reading.fetched(A, 0)
    assert reading.offsets(1) == {"a": [0]}
    reading.subscription.assign_by_user([B])
    reading.subscription.assign_by_user([A, B])
    reading.state(A).set_position(Position(5))
    assert reading.offsets() == {}
    assert reading.position(A) == 5
    assert reading.buffer.held_bytes == 0


def test_purging_frees_records_of_unassigned_partitions() -> None:
    reading = Reading(A, B)
    reading.fetched(A, 0)
    reading.fetched(B, 0)
    reading.subscription.assign_by_user([B])
    reading.collector.purge()
    assert reading.buffer.held_bytes == reading.state(B).held_bytes
    assert reading.offsets() == {"b": [0, 1, 2]}


def test_with_a_full_buffer_a_decoded_batch_is_finished_before_the_next() -> None:
    reading = Reading(A, B)
    large = [Rec(b"v" * 1_500_000)] * 4
    for tp in (A, B):
        reading.fetched(tp, 0, data=batch(large, codec=ZSTD) + batch(large, 4, codec=ZSTD))
    assert [reading.offsets(1) for _ in range(4)] == [
        {"a": [0]},
        {"b": [0]},
        {"a": [1]},
        {"b": [1]},
    ]
    reading.buffer.limit_bytes = 1_000_000
    assert reading.buffer.held_bytes > 12_000_000, "each partition holds a decoded batch"
    assert [reading.offsets(1) for _ in range(4)] == [
        {"a": [2]},
        {"a": [3]},
        {"b": [2]},
        {"b": [3]},
    ]
    for tp in ("a", "b"):
        for offset in range(4, 8):
            assert reading.offsets(1) == {tp: [offset]}
            assert reading.buffer.held_bytes < 9_000_000, "only one partition holds a decoded batch"
    assert reading.buffer.held_bytes == 0


def test_paused_partitions_may_hold_half_of_a_full_buffer() -> None:
    reading = Reading(A, B, C)
    sizes = {tp: reading.fetched(tp, 0, count).size_bytes for tp, count in ((A, 9), (B, 300))}
    reading.buffer.limit_bytes = sum(sizes.values())
    assert reading.collector.paused_over_budget() == frozenset(), "no partition is paused"
    reading.state(A).paused = True
    assert reading.collector.paused_over_budget() == frozenset(), (
        "the paused partition holds less than half"
    )
    reading.state(B).paused = True
    assert reading.collector.paused_over_budget() == {B}, "dropping the largest partition is enough"
    reading.buffer.limit_bytes += 1
    assert reading.collector.paused_over_budget() == frozenset(), "the buffer is below its limit"
    reading.buffer.limit_bytes = sizes[A]
    assert reading.collector.paused_over_budget() == {A, B}
    reading.state(C).paused = True
    assert reading.collector.paused_over_budget() == frozenset(), (
        "no unpaused partition needs the space"
    )


@pytest.mark.behaviour(156, 71, 77)
@pytest.mark.parametrize("flag", ["paused", "pending_revocation", "awaiting_callback", "dropped"])
def test_records_wait_while_they_may_not_be_returned(flag: str) -> None:
    reading = Reading(A, B)
    reading.fetched(A, 0)
    reading.fetched(B, 0)
    setattr(reading.state(A), flag, True)
    assert reading.offsets() == {"b": [0, 1, 2]}
    assert reading.offsets() == {}
    assert reading.position(A) == 0
    setattr(reading.state(A), flag, False)
    assert reading.offsets() == {"a": [0, 1, 2]}


@pytest.mark.behaviour(150)
def test_records_wait_while_the_position_is_validated() -> None:
    reading = Reading(A)
    reading.fetched(A, 0)
    reading.state(A).await_validation()
    assert reading.offsets() == {}
    reading.state(A).validated()
    assert reading.offsets() == {"a": [0, 1, 2]}


@pytest.mark.behaviour(161, 162)
def test_the_position_moves_past_hidden_records() -> None:
    reading = Reading(A)
    marker = batch([Rec(key=b"\0\0\0\1", value=b"\0" * 6)], 0, flags=CONTROL | TRANSACTIONAL)
    reading.fetched(A, 0, data=marker)
    found = reading.collect()
    assert not found
    assert reading.position(A) == 1
    assert found.next_offsets == {A: OffsetAndMetadata(1, "", 5)}
    assert reading.buffer.held_bytes == 0


def test_a_starved_network_thread_is_woken_when_there_is_room() -> None:
    reading = Reading(A)
    reading.fetched(A, 0)
    reading.buffer.starved = True
    reading.offsets(1)
    assert reading.woken == 0
    reading.offsets()
    assert reading.woken == 1


def test_a_reset_that_waits_for_the_position_is_woken_when_it_moves() -> None:
    """The chunk is released before the position moves, so the network thread woke too early."""
    reading = Reading(A)
    reading.fetched(A, 0)
    reading.buffer.starved = reading.state(A).wait_for_drain = True
    collect(reading.collector, 500)
    assert (reading.woken, reading.position(A)) == (1, 0)
    reading.collector.publication.done = True
    assert reading.position(A) == 3
    reading.collect()
    assert reading.woken == 2
    reading.collect()
    assert reading.woken == 2, "no second wakeup"


@pytest.mark.parametrize("read_before", [0, 1])
def test_a_signal_handler_that_raises_does_not_lose_the_wakeup(read_before: int) -> None:
    def wake() -> None:
        calls.append(not calls)
        if len(calls) == 1:
            raise KeyboardInterrupt

    calls: list[bool] = []
    reading = Reading(A)
    for _ in range(2):
        reading.collect()  # the positions are known: the next one is the usual case
    reading.fetched(A, 0)
    if read_before:
        reading.collect(read_before)
    reading.buffer.starved = True
    reading.collector._wake_network = wake
    with pytest.raises(KeyboardInterrupt):
        reading.collect()
    assert reading.offsets() == {"a": [0, 1, 2][read_before:]}
    assert calls == [True, False]


# --- errors ------------------------------------------------------------------------------------


@pytest.mark.behaviour(167)
def test_an_error_of_a_fetch_is_raised_once() -> None:
    reading = Reading(A, B)
    reading.failed(A, TopicAuthorizationFailedError({"a"}))
    with pytest.raises(TopicAuthorizationFailedError):
        reading.collect()
    reading.fetched(B, 0)
    assert reading.offsets() == {"b": [0, 1, 2]}
    assert reading.state(A).errors_taken == 1


@pytest.mark.behaviour(142, 164)
def test_a_sticky_error_is_raised_until_a_seek() -> None:
    reading = Reading(A)
    reading.failed(A, OffsetOutOfRangeError({A: 0}), sticky=True)
    for _ in range(3):
        with pytest.raises(OffsetOutOfRangeError):
            reading.collect()
    reading.state(A).set_position(Position(5))
    assert reading.offsets() == {}
    assert reading.state(A).errors_taken == 1


@pytest.mark.behaviour(166)
@pytest.mark.parametrize("first", ["records", "error"])
def test_an_error_comes_after_the_records_of_others(first: str) -> None:
    reading = Reading(A, B)
    if first == "records":
        reading.fetched(A, 0)
        reading.failed(B, TopicAuthorizationFailedError({"b"}))
        assert reading.offsets() == {"a": [0, 1, 2]}
        with pytest.raises(TopicAuthorizationFailedError):
            reading.collect()
    else:
        reading.failed(B, TopicAuthorizationFailedError({"b"}))
        reading.fetched(A, 0)
        with pytest.raises(TopicAuthorizationFailedError):
            reading.collect()
        assert reading.offsets() == {"a": [0, 1, 2]}


@pytest.mark.behaviour(166)
def test_records_before_an_error_of_the_same_partition_come_first() -> None:
    reading = Reading(A)
    reading.fetched(A, 0)
    reading.failed(A, TopicAuthorizationFailedError({"a"}))
    assert reading.offsets() == {"a": [0, 1, 2]}
    with pytest.raises(TopicAuthorizationFailedError):
        reading.collect()


@pytest.mark.behaviour(164)
def test_a_corrupt_batch_raises_until_a_seek_past_it() -> None:
    reading = Reading(A)
    broken = bytearray(batch([Rec()], 2))
    broken[-1] ^= 0xFF
    reading.fetched(A, 0, data=batch([Rec(), Rec()], 0) + bytes(broken))
    assert reading.offsets() == {"a": [0, 1]}
    for _ in range(2):
        with pytest.raises(CorruptRecordError):
            reading.collect()
        assert reading.position(A) == 2
    reading.state(A).set_position(Position(3))
    assert reading.offsets() == {}


@pytest.mark.behaviour(166)
def test_a_corrupt_batch_does_not_block_other_partitions() -> None:
    reading = Reading(A, B)
    broken = bytearray(batch([Rec()], 2))
    broken[-1] ^= 0xFF
    reading.fetched(A, 0, data=batch([Rec(), Rec()], 0) + bytes(broken))
    reading.fetched(B, 0)
    assert reading.offsets() == {"a": [0, 1], "b": [0, 1, 2]}
    with pytest.raises(CorruptRecordError):
        reading.collect()


# --- deserializers -----------------------------------------------------------------------------


def picky(data: bytes | None) -> int:
    if data == b"2":
        raise ValueError("two is too many")
    return int(data or b"0")


@pytest.mark.behaviour(165)
def test_a_deserialization_error_is_raised_again() -> None:
    reading = Reading(A, value_deserializer=picky)
    reading.fetched(A, 0, 5)
    assert [record.value for record in reading.collect()[A]] == [0, 1]
    assert reading.position(A) == 2
    for _ in range(3):
        with pytest.raises(RecordDeserializationError) as raised:
            reading.collect()
        error = raised.value
        assert (error.origin, error.partition, error.offset, error.value) == ("value", A, 2, b"2")
        assert isinstance(error.__cause__, ValueError)
        assert reading.position(A) == 2
    reading.state(A).set_position(Position(3))
    reading.fetched(A, 3, 2)
    assert [record.value for record in reading.collect()[A]] == [3, 4]


@pytest.mark.behaviour(165)
def test_an_error_of_a_key_names_the_key() -> None:
    def refuse(data: bytes | None) -> object:
        raise ValueError(data)

    reading = Reading(A, key_deserializer=refuse)
    reading.fetched(A, 0)
    with pytest.raises(RecordDeserializationError) as raised:
        reading.collect()
    assert raised.value.origin == "key"


@pytest.mark.behaviour(165)
def test_limits_apply_during_a_deserialization_error() -> None:
    reading = Reading(A, value_deserializer=picky)
    reading.fetched(A, 0, 8)
    assert [r.value for r in reading.collect(1)[A]] == [0]
    assert [r.value for r in reading.collect(5)[A]] == [1]
    with pytest.raises(RecordDeserializationError):
        reading.collect(1)


@pytest.mark.behaviour(166)
def test_others_are_returned_before_a_deserialization_error() -> None:
    reading = Reading(A, B, value_deserializer=picky)
    reading.fetched(A, 0, 1)
    reading.fetched(B, 2, 1)
    assert reading.offsets() == {"a": [0]}
    with pytest.raises(RecordDeserializationError):
        reading.collect()


@pytest.mark.behaviour(165)
def test_reading_continues_when_the_deserializer_recovers() -> None:
    broken = [True]

    def moody(data: bytes | None) -> bytes | None:
        if broken[0]:
            raise ValueError
        return data

    reading = Reading(A, value_deserializer=moody)
    reading.fetched(A, 0)
    with pytest.raises(RecordDeserializationError):
        reading.collect()
    broken[0] = False
    assert reading.offsets() == {"a": [0, 1, 2]}
    assert reading.buffer.held_bytes == 0


@pytest.mark.parametrize("opened", [False, True])
@pytest.mark.parametrize("left", [[A], []])
def test_a_deserializer_may_take_partitions_away(left: list[TopicPartition], opened: bool) -> None:
    def deserialize(data: bytes | None) -> bytes | None:
        if data == b"4":
            reading.subscription.assign_by_user(left)
        return data

    reading = Reading(A, B, value_deserializer=deserialize)
    for _ in range(2):
        reading.collect()  # the positions are known: the next one is the usual case
    reading.fetched(A, 0, 5)
    reading.fetched(B, 0, 5, value=lambda _: b"x")
    if opened:
        assert [reading.offsets(1), reading.offsets(1)] == [{"a": [0]}, {"b": [0]}]
    assert reading.offsets() == {"a": list(range(opened, 5))}
    assert reading.offsets() == {}
    assert reading.buffer.held_bytes == 0


def test_a_busy_partition_whose_fetches_end_with_the_limit_does_not_starve_the_others() -> None:
    reading = Reading(A, B)
    for _ in range(2):
        reading.collect()  # the positions are known: the next one is the usual case
    for n in range(10):
        reading.fetched(A, n, 1)
    reading.fetched(B, 0, 1)
    assert reading.offsets(1) == {"a": [0]}
    assert reading.offsets(1) == {"b": [0]}
    assert [reading.offsets(1) for _ in range(9)] == [{"a": [n]} for n in range(1, 10)]
    assert reading.buffer.held_bytes == 0


@pytest.mark.parametrize("limit", [1, 4])
def test_a_network_thread_that_finds_no_room_during_a_collection_is_woken(limit: int) -> None:
    class Filling(FetchBuffer):
        looked = -100

        @property
        def starved(self) -> bool:
            self.looked += 1
            return self.looked > (native is not None)  # the native function has looked before

        @starved.setter
        def starved(self, value: bool) -> None:
            pass

    reading = Reading(A)
    reading.buffer = reading.collector._buffer = buffer = Filling()
    for _ in range(2):
        reading.collect()
    if limit == 1:
        marker = batch([Rec(key=b"\0\0\0\1", value=b"\0" * 6)], 0, flags=CONTROL | TRANSACTIONAL)
        reading.fetched(A, 0, data=marker)
    else:
        reading.fetched(A, 0)
        reading.fetched(A, 3)
    buffer.looked = 0
    reading.collect(limit)
    assert reading.woken


@pytest.mark.parametrize("read_before", [[3], [1, 2]])
def test_a_signal_handler_may_raise_while_an_error_is_made(
    monkeypatch: pytest.MonkeyPatch, read_before: list[int]
) -> None:
    def interrupted(*_: Any) -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    corrupt = bytearray(batch([Rec(value=b"x")], 3))
    corrupt[-1] ^= 1
    reading = Reading(A)
    for _ in range(2):
        reading.collect()  # the positions are known: the next one is the usual case
    reading.fetched(A, 0)
    reading.fetched(A, 3, data=bytes(corrupt))
    for limit in read_before:
        assert reading.collect(limit)
    monkeypatch.setattr(CorruptRecordError, "at", interrupted)
    with pytest.raises(KeyboardInterrupt):
        reading.collect()
    with pytest.raises(CorruptRecordError):
        reading.collect()


def cut(reading: Reading) -> None:
    """Read a part of a chunk, so that the next call goes on with it."""
    for _ in range(2):
        reading.collect()  # the positions are known: the next one is the usual case
    reading.fetched(A, 0)
    assert reading.offsets(1) == {"a": [0]}


def test_a_chunk_whose_records_were_returned_is_dropped_by_the_next_call() -> None:
    reading = Reading(A)
    cut(reading)
    assert reading.offsets() == {"a": [1, 2]}
    assert reading.offsets() == {}
    assert not reading.collector._open


def test_an_error_that_an_interrupted_call_has_left_in_the_queue_is_raised_once() -> None:
    reading = Reading(A)
    cut(reading)
    chunk = reading.failed(A, TopicAuthorizationFailedError({"a"}))
    reading.collector._open[reading.state(A)].append(OpenedChunk(chunk))
    assert reading.offsets() == {"a": [1, 2]}
    with pytest.raises(TopicAuthorizationFailedError):
        reading.collect()
    assert reading.offsets() == {}
    assert reading.state(A).errors_taken == 1
