"""One record at a time, the position moving with each."""

from __future__ import annotations

from tandem_kafka.consumer.iteration import Iteration
from tandem_kafka.shared.partition import Position
from tests.unit.consumer.reading import A, B, Reading


def begun(*counts: int) -> tuple[Reading, Iteration]:
    partitions = (A, B)[: len(counts)]
    reading = Reading(*partitions)
    for tp, count in zip(partitions, counts, strict=True):
        reading.fetched(tp, 0, count)
    iteration = Iteration(reading.subscription)
    iteration.add(reading.collect())
    return reading, iteration


def offsets(iteration: Iteration) -> list[int]:
    found = []
    while (record := iteration.next()) is not None:
        found.append(record.offset)
    return found


def test_a_commit_never_covers_a_record_that_the_loop_was_not_given() -> None:
    reading, iteration = begun(3)
    assert reading.position(A) == 0
    for offset in range(3):
        record = iteration.next()
        assert record is not None
        assert record.offset == offset
        assert reading.position(A) == offset + 1
    assert iteration.next() is None


def test_partition_after_partition() -> None:
    _, iteration = begun(2, 3)
    assert offsets(iteration) == [0, 1, 0, 1, 2]


def test_139_a_seek_in_the_loop_drops_what_is_left() -> None:
    reading, iteration = begun(3, 2)
    iteration.next()
    reading.state(A).set_position(Position(9))
    assert offsets(iteration) == [0, 1]
    assert reading.position(A) == 9


def test_a_partition_that_is_not_ours_any_more_is_left() -> None:
    reading, iteration = begun(3)
    iteration.next()
    reading.subscription.assign_by_user([B])
    assert offsets(iteration) == []


def test_a_paused_partition_waits_while_others_go_on() -> None:
    reading, iteration = begun(3, 2)
    iteration.next()
    reading.state(A).paused = True
    assert offsets(iteration) == [0, 1]
    assert reading.position(A) == 1
    reading.state(A).paused = False
    assert offsets(iteration) == [1, 2]


def test_poll_takes_what_the_loop_left() -> None:
    reading, iteration = begun(3)
    iteration.next()
    rest = iteration.drain(500)
    assert [record.offset for record in rest[A]] == [1, 2]
    assert rest.next_offsets[A].offset == 3
    assert reading.position(A) == 3
    assert offsets(iteration) == []


def test_28_poll_takes_no_more_of_it_than_it_may() -> None:
    reading, iteration = begun(3, 2)
    iteration.next()
    first = iteration.drain(1)
    assert [record.offset for record in first[A]] == [1]
    assert reading.position(A) == 2
    rest = iteration.drain(2)
    assert [record.offset for record in rest[A]] == [2]
    assert [record.offset for record in rest[B]] == [0]
    assert offsets(iteration) == [1]
