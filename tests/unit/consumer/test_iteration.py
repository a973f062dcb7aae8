"""Iteration: each record moves the position."""

from __future__ import annotations

from functools import partial

import pytest

from tandem_kafka.consumer.reading import iteration as module
from tandem_kafka.consumer.reading.fetch_collector import collect
from tandem_kafka.consumer.reading.iteration import Iteration, PythonLoop
from tandem_kafka.consumer.reading.records import ConsumerRecords
from tandem_kafka.state.partition import Position
from tandem_kafka.types import ConsumerRecord
from tests.implementations import IMPLEMENTATIONS, require_implementation
from tests.threads.lockstep import Lockstep
from tests.threads.seeds import each_seed
from tests.unit.consumer.reading import A, B, Reading


@pytest.fixture(params=IMPLEMENTATIONS, autouse=True)
def implementation(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The loop that returns the records."""
    require_implementation(request.param)
    if request.param == "python":
        monkeypatch.setattr(module, "native", None)
        monkeypatch.setattr(module, "Loop", PythonLoop)
    return str(request.param)


class Loop:
    """`for record in consumer`, without the consumer."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.iteration = Iteration(reading.subscription)
        #: The number of calls of `_find_feed`.
        self.looks = 0
        self.loop = type("Consumer", (module.Loop,), {"_find_feed": lambda _: self.find()})()

    def find(self) -> None:
        self.looks += 1
        changes = self.reading.subscription.changes
        seen, run = changes.count, self.iteration.ready()
        if run is None:
            raise StopIteration
        self.loop._follow(run.feed, changes, seen)

    def fill(self) -> None:
        """Collect the next records for the loop."""
        batch = collect(self.reading.collector, 500)
        self.iteration.add(batch, self.reading.collector.publication)

    def next(self) -> ConsumerRecord | None:
        record: ConsumerRecord | None = next(self.loop, None)
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


def test_a_commit_never_covers_a_record_that_iteration_has_not_returned() -> None:
    reading, loop = begun(3)
    assert reading.position(A) == 0
    for offset in range(3):
        record = loop.next()
        assert record is not None
        assert record.offset == offset
        assert reading.position(A) == offset + 1
    assert loop.next() is None


def test_partitions_are_returned_one_after_the_other() -> None:
    _, loop = begun(2, 3)
    assert loop.offsets() == [0, 1, 0, 1, 2]


@pytest.mark.behaviour(139)
def test_a_seek_during_iteration_drops_the_remaining_records() -> None:
    reading, loop = begun(3, 2)
    loop.next()
    reading.state(A).set_position(Position(9))
    assert loop.offsets() == [0, 1]
    assert reading.position(A) == 9


def test_records_of_an_unassigned_partition_are_dropped_by_iteration() -> None:
    reading, loop = begun(3)
    loop.next()
    reading.subscription.assign_by_user([B])
    assert loop.offsets() == []


@pytest.mark.parametrize("collected", [False, True])
def test_a_paused_partition_waits_while_others_go_on(collected: bool) -> None:
    reading, loop = begun(3, 2)
    loop.next()
    reading.state(A).paused = True
    assert loop.offsets() == [0, 1]
    assert reading.position(A) == 1
    reading.state(A).paused = False
    if collected:  # another thread resumes it while the loop waits for records
        loop.fill()
    assert loop.offsets() == [1, 2]


def test_poll_returns_the_rest_of_an_iteration() -> None:
    reading, loop = begun(3)
    loop.next()
    rest = loop.poll()
    assert [record.offset for record in rest[A]] == [1, 2]
    assert rest.next_offsets[A].offset == 3
    assert reading.position(A) == 3
    assert loop.offsets() == []


@pytest.mark.behaviour(28)
def test_poll_returns_at_most_the_limit_of_it() -> None:
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


def test_no_check_per_record_while_nothing_changes(implementation: str) -> None:
    """No Python code runs for a record."""
    if implementation == "python":
        pytest.skip("the Python loop looks for each record")
    reading, loop = begun(500)
    assert len(loop.offsets()) == 500
    assert loop.looks == 2
    assert reading.position(A) == 500


def test_records_of_an_iteration_do_not_change() -> None:
    _, loop = begun(5)
    kept = [record for record in loop.loop]  # noqa: C416 - the loop's variable matters
    assert [record.offset for record in kept] == [0, 1, 2, 3, 4]
    assert [record.value for record in kept] == [b"0", b"1", b"2", b"3", b"4"]


def test_a_header_that_was_added_is_in_no_other_record() -> None:
    _, loop = begun(4)
    seen = []
    for record in loop.loop:
        seen.append(len(record.headers))
        record.headers.append(("trace", b"1"))
    assert seen == [0, 0, 0, 0]
    _, loop = begun(4)
    lists = [record.headers for record in loop.loop]
    lists[0].append(("trace", b"1"))
    assert lists == [[("trace", b"1")], [], [], []]


def test_a_dropped_position_ends_the_run_immediately() -> None:
    reading, loop = begun(3)
    loop.next()
    reading.state(A).await_reset(-2)
    assert loop.offsets() == []


def test_the_epoch_of_the_position_is_the_last_records() -> None:
    reading, loop = begun(3)
    for offset in range(3):
        loop.next()
        position = reading.state(A).position
        assert position is not None
        assert (position.offset, position.leader_epoch) == (offset + 1, 3)
        assert reading.state(A).position is position, "a position is the same until it moves"


def test_a_deserialized_run_has_positions_too() -> None:
    reading = Reading(A, value_deserializer=int)
    reading.fetched(A, 0, 3)
    loop = Loop(reading)
    loop.fill()
    for offset in range(3):
        record = loop.next()
        assert record is not None
        assert record.value == offset
        assert reading.position(A) == offset + 1


@each_seed
def test_both_threads_see_the_position_of_a_record_that_was_returned(seed: int) -> None:
    reading, loop = begun(4)
    seen: dict[str, list[int]] = {"application": [], "network": []}

    def look(thread: str) -> None:
        for _ in range(4):
            if thread == "application":
                loop.next()
            seen[thread].append(reading.position(A) or 0)

    looks = {thread: partial(look, thread) for thread in seen}
    Lockstep(seed, module).run(**looks)
    assert seen["application"] == [1, 2, 3, 4]
    assert seen["network"] == sorted(seen["network"])
