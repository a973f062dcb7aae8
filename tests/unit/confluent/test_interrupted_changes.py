"""Ctrl-C inside pause(), seek(), assign() and their like, before every single bytecode.

Messages that wait for the application come once and in order afterwards: the next call of the
consumer completes what was interrupted.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from confluent_kafka import TopicPartition as Their

from tandem_kafka.confluent import Consumer
from tandem_kafka_testing import Simulation
from tests.unit.confluent.simulated import offsets, polled, simulated
from tests.unit.confluent.test_interrupts import TPS, Interrupted, elsewhere, interrupters
from tests.unit.confluent.test_reading import A, B, fill, reading, simulation
from tests.unit.interrupts import UNAWAITED, Interrupter, coroutines_end_here

__all__ = ["coroutines_end_here", "simulation"]

pytestmark = UNAWAITED

BOTH = [Their(*tp) for tp in TPS]
Call = Callable[[Consumer], Any]


def interrupted(call: Call, undo: Call) -> int:
    """Interrupt a call before each bytecode while messages wait; undo it, and read everything."""
    with Simulation() as simulation:
        reader = Interrupted(simulation, enable__auto__commit=False, fetch__wait__max__ms=10)
        for interrupter in interrupters():
            begins = list(reader.ends)
            reader.produce()
            reader.consumer._reader.collect(3, 50)
            assert reader.consumer._taken.waiting() == 3
            with suppress(KeyboardInterrupt):
                interrupter.call(call, reader.consumer)
            undo(reader.consumer)
            reader.check(begins)
            reader.finish(begins)
            reader.check(begins)
        return interrupter.at


@pytest.mark.parametrize(
    ("call", "undo"),
    [
        (lambda c: c.pause(BOTH), lambda c: c.resume(BOTH)),
        (lambda c: c.unassign(), lambda c: c.assign(BOTH)),
        (lambda c: c.incremental_unassign(BOTH), lambda c: c.incremental_assign(BOTH)),
        (lambda c: c.assign(BOTH[:1]), lambda c: c.assign(BOTH)),
    ],
    ids=["pause", "unassign", "incremental_unassign", "assign"],
)
def test_an_interrupted_change_that_is_undone_loses_and_doubles_nothing(
    call: Call, undo: Call
) -> None:
    assert interrupted(call, undo) > 150


def test_messages_come_once_after_an_interrupted_late_poll() -> None:
    def late(consumer: Consumer) -> Any:
        consumer._events._polled_ms -= 1_000_000
        return consumer._events.polled()

    def skip_event(consumer: Consumer) -> None:
        consumer._events.returned()
        consumer.assignment()
        items = consumer._taken.items
        items[1:] = [item for item in items[1:] if isinstance(item, tuple)]

    assert interrupted(late, skip_event) > 100


@pytest.mark.parametrize("ahead", [0, 1])
def test_messages_come_from_where_an_interrupted_seek_went(
    simulation: Simulation, ahead: int
) -> None:
    consumer, begin = reading(simulation, A, enable__auto__commit=False), 0
    for interrupter in interrupters():
        fill(simulation, 3)
        simulation.sleep(30)
        consumer._reader.collect(3, 50)
        target = Their("t", 0, begin + ahead)
        with suppress(KeyboardInterrupt):
            interrupter.call(consumer.seek, target)
        found = [offset for _, offset in offsets(polled(consumer, 4, 0.1))]
        assert found in ([begin, begin + 1, begin + 2], [begin + 1, begin + 2]), found
        assert found[0] == target.offset or ahead
        begin += 3
    assert found[0] == target.offset
    assert interrupter.at > 100


@pytest.mark.parametrize("gone", ["by hand", "lost"])
def test_an_interrupted_removal_leaves_a_partition_whole_or_removes_it(
    simulation: Simulation, gone: str
) -> None:
    def remove() -> None:
        if gone == "by hand":
            consumer.incremental_unassign(BOTH[:1])
        else:
            consumer._assignment.on_partitions_lost([A])

    consumer = reading(simulation, A, B, enable__auto__commit=False)
    for interrupter in interrupters():
        for key in (A, B):
            fill(simulation, 2, key)
        simulation.sleep(30)
        consumer._reader.collect(4, 100)
        with suppress(KeyboardInterrupt):
            interrupter.call(remove)
        left = {each.partition for each in consumer.assignment()}
        if gone == "lost" and 0 not in left:  # as the group does, which our consumer knows
            consumer._kafka.assign([B])
        found = [partition for partition, _ in offsets(polled(consumer, 5, 0.1))]
        assert sorted(each for each in found if each is not None) == sorted([*left, *left])
        if 0 not in left:
            end = simulation.cluster.at(A).log.end_offset
            consumer.incremental_assign([Their("t", 0, end)])
    assert interrupter.at > 80
    assert left == {1}


def test_an_interrupted_assign_starts_at_the_given_offsets(simulation: Simulation) -> None:
    fill(simulation, 5)
    consumer = simulated(simulation, enable__auto__commit=False)
    for interrupter in interrupters():
        with suppress(KeyboardInterrupt):
            interrupter.call(consumer.assign, [Their("t", 0, 3)])
        found = offsets(polled(consumer, 3, 0.1))
        assert found == ([(0, 3), (0, 4)] if consumer.assignment() else [])
        consumer.unassign()
    assert interrupter.at > 100


def test_a_repeated_change_may_be_interrupted_too(simulation: Simulation) -> None:
    consumer, begin = reading(simulation, A, enable__auto__commit=False), 0
    for at in range(0, 500, 23):
        for second in range(0, 500, 17):
            fill(simulation, 2)
            simulation.sleep(30)
            consumer._reader.collect(2, 50)
            for call, number in ((consumer.pause, at), (consumer.resume, second)):
                with suppress(KeyboardInterrupt):
                    Interrupter(number, skip=elsewhere).call(call, BOTH[:1])
            consumer.resume(BOTH[:1])
            assert offsets(polled(consumer, 3, 0.05)) == [(0, begin), (0, begin + 1)]
            begin += 2
