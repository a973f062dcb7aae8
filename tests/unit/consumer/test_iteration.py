"""One record at a time, the position moving with each."""

from __future__ import annotations

from tandem_kafka.consumer.iteration import Iteration
from tandem_kafka.consumer.records import ConsumerRecords
from tandem_kafka.shared.partition import Position
from tandem_kafka.types import ConsumerRecord
from tests.unit.consumer.reading import A, B, Reading


class Loop:
    """`for record in consumer`, without the consumer."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.iteration = Iteration(reading.subscription)

    def fill(self) -> None:
        """Collect what the loop is given next."""
        batch = self.reading.collector.collect(500)
        self.iteration.add(batch, self.reading.collector.publication)

    def next(self) -> ConsumerRecord | None:
        run = self.iteration.ready()
        if run is None:
            return None
        record = run.records[run.given]
        run.given += 1
        return record

    def offsets(self) -> list[int]:
        found = []
        while (record := self.next()) is not None:
            found.append(record.offset)
        return found

    def poll(self, limit: int = 500) -> ConsumerRecords:
        self.iteration.end()
        return self.reading.collect(limit)


def begun(*counts: int) -> tuple[Reading, Loop]:
    partitions = (A, B)[: len(counts)]
    reading = Reading(*partitions)
    for tp, count in zip(partitions, counts, strict=True):
        reading.fetched(tp, 0, count)
    loop = Loop(reading)
    loop.fill()
    return reading, loop


def test_a_commit_never_covers_a_record_that_the_loop_was_not_given() -> None:
    reading, loop = begun(3)
    assert reading.position(A) == 0
    for offset in range(3):
        record = loop.next()
        assert record is not None
        assert record.offset == offset
        assert reading.position(A) == offset + 1
    assert loop.next() is None


def test_partition_after_partition() -> None:
    _, loop = begun(2, 3)
    assert loop.offsets() == [0, 1, 0, 1, 2]


def test_139_a_seek_in_the_loop_drops_what_is_left() -> None:
    reading, loop = begun(3, 2)
    loop.next()
    reading.state(A).set_position(Position(9))
    assert loop.offsets() == [0, 1]
    assert reading.position(A) == 9


def test_a_partition_that_is_not_ours_any_more_is_left() -> None:
    reading, loop = begun(3)
    loop.next()
    reading.subscription.assign_by_user([B])
    assert loop.offsets() == []


def test_a_paused_partition_waits_while_others_go_on() -> None:
    reading, loop = begun(3, 2)
    loop.next()
    reading.state(A).paused = True
    assert loop.offsets() == [0, 1]
    assert reading.position(A) == 1
    reading.state(A).paused = False
    assert loop.offsets() == [1, 2]


def test_poll_takes_what_the_loop_left() -> None:
    reading, loop = begun(3)
    loop.next()
    rest = loop.poll()
    assert [record.offset for record in rest[A]] == [1, 2]
    assert rest.next_offsets[A].offset == 3
    assert reading.position(A) == 3
    assert loop.offsets() == []


def test_28_poll_takes_no_more_of_it_than_it_may() -> None:
    reading, loop = begun(3, 2)
    loop.next()
    first = loop.poll(1)
    assert [record.offset for record in first[A]] == [1]
    assert reading.position(A) == 2
    assert [record.offset for record in loop.poll(1)[B]] == [0]
    rest = loop.poll(2)
    assert [record.offset for record in rest[A]] == [2]
    assert [record.offset for record in rest[B]] == [1]
    assert loop.offsets() == []
