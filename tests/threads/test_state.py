"""State that both threads touch, under random interleavings of lines."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from types import SimpleNamespace
from uuid import UUID

import pytest

from tandem_kafka.config import Config
from tandem_kafka.consumer import commits as commits_module
from tandem_kafka.consumer.reading import fetch_collector as collector_module
from tandem_kafka.consumer.reading.fetch_collector import collect
from tandem_kafka.consumer.reading.interceptors import Interceptors
from tandem_kafka.request_managers.fetching import fetch_request_manager as fetch_module
from tandem_kafka.runtime.callers import OwnerLock
from tandem_kafka.state import fetch_buffer, partition, subscription
from tandem_kafka.state.partition import AssignedPartition, Consumed, Position
from tandem_kafka.types import PositionStart, TopicPartition
from tandem_kafka_testing import SimClock
from tests.threads.lockstep import Lockstep
from tests.threads.seeds import each_line, each_seed
from tests.unit.consumer.reading import A, B, Reading
from tests.unit.request_managers.world import TP, World


class RacyCounter:
    """Check then act: a race that lockstep must find."""

    def __init__(self) -> None:
        self.value = 0

    def add(self) -> None:
        seen = self.value
        self.value = seen + 1


def both(seed: int, *modules: object, **bodies: Callable[[], None]) -> Lockstep:
    lockstep = Lockstep(seed, *modules)  # type: ignore[arg-type]
    lockstep.run(**bodies)
    return lockstep


# --- the tool ----------------------------------------------------------------------------------


def test_lockstep_finds_a_race_and_finds_it_again() -> None:
    import sys

    here = sys.modules[__name__]

    def race(seed: int) -> tuple[int, list[str]]:
        counter = RacyCounter()

        def add() -> None:
            for _ in range(3):
                counter.add()

        return counter.value, both(seed, here, one=add, two=add).schedule

    def lost(seed: int) -> bool:
        counter = RacyCounter()

        def add() -> None:
            for _ in range(3):
                counter.add()

        both(seed, here, one=add, two=add)
        return counter.value != 6

    failing = [seed for seed in range(100) if lost(seed)]
    assert len(failing) > 20
    assert all(lost(seed) for seed in failing)
    assert race(failing[0])[1] == race(failing[0])[1]


def test_lockstep_raises_the_exception_of_a_thread() -> None:
    def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        both(1, partition, one=fail, two=lambda: None)


# --- the fetch buffer --------------------------------------------------------------------------


@each_seed
def test_the_buffer_loses_nothing_and_counts_right(seed: int) -> None:
    reading = Reading(A)
    buffer, got = reading.buffer, []
    lockstep = Lockstep(seed, fetch_buffer, partition)

    def network() -> None:
        for offset in range(0, 15, 3):
            reading.fetched(A, offset)

    def application() -> None:
        while len(got) < 5:
            chunk = buffer.queue.take()
            if chunk is None:
                lockstep.pause()
                continue
            assert buffer.held_bytes >= chunk.size_bytes
            assert reading.state(A).held_bytes >= chunk.size_bytes
            got.append(chunk.reader.next_offset)
            buffer.count(chunk, buffer.counts(chunk, 0))

    lockstep.run(network=network, application=application)
    assert got == sorted(got)
    assert buffer.held_bytes == reading.state(A).held_bytes == 0
    assert buffer.added == 5


@each_seed
def test_room_freed_during_a_check_of_the_network_thread_is_not_missed(seed: int) -> None:
    """Without records to fetch into, it sleeps until a release wakes it."""
    world = World(leaders=(1,), fetch_buffer_max_bytes=2_000, max_partition_fetch_bytes=1_000)
    (state,) = world.assign(TP, at=0)
    reading = Reading(TP)
    reading.subscription, reading.buffer = world.subscription, world.buffer
    woken: list[int] = []
    collector = collector_module.FetchCollector(
        world.subscription,
        world.buffer,
        reading.collector._deserializers,
        lambda: woken.append(1),
        world.context.config.fetch_buffer_max_bytes,
    )
    reading.fetched(TP, 0, 1, value=lambda _: b"v" * 3_000)
    sent: list[object] = []

    def network() -> None:
        sent.extend(world.managers.fetch.poll(world.now_ms).unsent)

    def application() -> None:
        assert collect(collector, 10).count == 1

    both(
        seed, fetch_module, fetch_buffer, collector_module, network=network, application=application
    )
    assert state.held_bytes == 0
    assert sent or woken, "there is room, but no fetch is sent"


# --- positions ---------------------------------------------------------------------------------


@each_seed
def test_a_valid_position_is_never_an_unvalidated_one(seed: int) -> None:
    state = AssignedPartition(TopicPartition("a", 0))
    state.set_position(Position(10, 3))
    state.await_validation()
    seen: list[int] = []

    def network() -> None:
        state.set_position(Position(6, 2))

    def application() -> None:
        for _ in range(10):
            if state.has_valid_position:
                position = state.position
                assert position is not None
                seen.append(position.offset)

    both(seed, partition, network=network, application=application)
    assert set(seen) <= {6}
    assert state.position.offset == 6


@each_line
def test_truncated_records_are_not_returned(at: int) -> Lockstep:
    reading = Reading(A)
    state = reading.state(A)
    reading.fetched(A, 0, 3)
    state.await_validation()
    handed_out: list[int] = []

    def network() -> None:
        state.set_position(Position(0, 2))

    def application() -> None:
        for _ in range(3):
            handed_out.extend(r.offset for rs in reading.collect().values() for r in rs)

    lockstep = Lockstep(0, partition, collector_module, at=at)
    lockstep.run(application=application, network=network)
    assert handed_out == []
    assert reading.position(A) == 0
    reading.collect()
    assert reading.buffer.held_bytes == 0
    return lockstep


@each_line
def test_a_position_that_moves_while_another_is_told_is_told_next(at: int) -> Lockstep:
    reading, told = Reading(A, B), dict[TopicPartition, PositionStart]()
    reading.collect()
    reading.state(B).set_position(Position(9))

    def application() -> None:
        for _ in range(3):
            told.update(reading.collect().starts)

    lockstep = Lockstep(0, collector_module, at=at)
    lockstep.run(
        application=application, network=lambda: reading.state(A).set_position(Position(7))
    )
    told.update(reading.collect().starts)
    assert told == {A: PositionStart(7), B: PositionStart(9)}
    return lockstep


@pytest.mark.behaviour(158)
@each_seed
def test_progress_from_an_old_base_does_not_move_a_new_one(seed: int) -> None:
    reading = Reading(A)
    reading.fetched(A, 0, 6)

    def network() -> None:
        reading.state(A).set_position(Position(100))

    def application() -> None:
        for _ in range(4):
            reading.collect(2)

    both(seed, partition, collector_module, network=network, application=application)
    assert reading.position(A) == 100
    reading.collect()
    assert reading.buffer.held_bytes == 0


@each_seed
def test_a_commit_never_mixes_two_positions(seed: int) -> None:
    reading = Reading(A)
    state = reading.state(A)
    old, new = state.topic_id, UUID(int=9)
    core = SimpleNamespace(
        config=Config.from_options({}),
        callers=SimpleNamespace(lock=OwnerLock),
        clock=SimClock(),
        engine=SimpleNamespace(subscription=reading.subscription),
    )
    commits = commits_module.Commits(core, Interceptors([]))  # type: ignore[arg-type]
    seen: set[tuple[UUID, int]] = set()

    def network() -> None:
        state.set_position(Position(50))
        state.await_reset(-1)
        state.topic_id = new
        state.set_position(Position(90))

    def application() -> None:
        base = state.base
        if base is not None:
            state.consumed = Consumed(base, Position(base.offset + 1))
        for _ in range(5):
            what = commits._what(None)
            ids = what["topic_ids"]
            seen.update((ids.get(tp, old), each.offset) for tp, each in what["offsets"].items())

    both(seed, partition, subscription, commits_module, network=network, application=application)
    assert seen <= {*product([old], [0, 1, 50, 51, 90, 91]), *product([new], [90, 91])}


@each_seed
def test_an_assignment_is_read_as_a_whole(seed: int) -> None:
    reading = Reading(A)
    two = [TopicPartition("x", n) for n in range(2)]
    three = [TopicPartition("y", n) for n in range(3)]
    seen: list[set[str]] = []

    def network() -> None:
        reading.subscription.set_assigned(two)
        reading.subscription.set_assigned(three)

    def application() -> None:
        for _ in range(5):
            assigned = reading.subscription.assigned
            seen.append({tp.topic for tp in assigned})
            assert len(assigned) in {1, 2, 3}

    both(seed, subscription, network=network, application=application)
    assert all(len(topics) == 1 for topics in seen)


@each_seed
def test_fetching_continues_after_an_error_only_once_it_was_taken(seed: int) -> None:
    reading = Reading(A)
    state = reading.state(A)
    fetchable: list[bool] = []
    taken: list[bool] = []

    def network() -> None:
        reading.failed(A, ValueError())
        for _ in range(4):
            before = bool(taken)
            fetchable.append(before or not state.fetchable or bool(taken))

    def application() -> None:
        chunk = None
        while chunk is None:
            chunk = reading.buffer.queue.take()
            if chunk is None:
                lockstep.pause()
        taken.append(True)
        reading.buffer.count(chunk, reading.buffer.counts(chunk, 0))

    lockstep = Lockstep(seed, fetch_buffer, partition)
    lockstep.run(network=network, application=application)
    assert all(fetchable)
    assert state.fetchable
