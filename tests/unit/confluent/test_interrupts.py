"""Ctrl-C inside poll() and consume(), before every single bytecode: no message is lost.

What was not returned is not committed, and the next call returns it. As in
`tests/unit/consumer/test_interrupts.py`, an interrupt behind a store that publishes counts as one
after the call: CPython runs no signal handler between that store and the return.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from confluent_kafka import TopicPartition as Their

from tandem_kafka import KafkaConsumer, TopicPartition, confluent
from tandem_kafka.confluent import Consumer
from tandem_kafka.consumer import consumer
from tandem_kafka.consumer.reading import iteration
from tandem_kafka.consumer.reading.iteration import PythonLoop
from tandem_kafka_testing import Simulation
from tests.implementations import require_implementation
from tests.tier import bytecodes, sample
from tests.unit.confluent.simulated import simulated
from tests.unit.interrupts import UNAWAITED, Interrupter, coroutines_end_here
from tests.unit.records.making import using

__all__ = ["coroutines_end_here"]

pytestmark = UNAWAITED

TPS = (TopicPartition("t", 0), TopicPartition("t", 1))
Given = dict[int, list[int]]
TRACED = (
    str(Path(confluent.__file__).parent),
    str(Path(consumer.__file__)),
    str(Path(iteration.__file__)),
)


class Interrupted:
    """A consumer that gets new records before each interrupted call."""

    def __init__(self, simulation: Simulation, **properties: Any) -> None:
        self.simulation = simulation
        simulation.cluster.create_topic("t", 2)
        self.consumer = simulated(simulation, **properties)
        self.consumer.subscribe(["t"])
        while not self.consumer.assignment():
            self.consumer.poll(0.1)
        self.ends = [0, 0]
        self.given: Given = {}

    def produce(self) -> None:
        """Add two records to the first partition and one to the second, and let them arrive."""
        self.given = {0: [], 1: []}
        for tp, number in zip(TPS, (2, 1), strict=True):
            self.simulation.cluster.produce(tp, *[b"v"] * number)
            self.ends[tp.partition] += number
        self.simulation.sleep(30)

    def take(self, messages: Any) -> None:
        """Note what the application got."""
        for message in messages or ():
            assert message.error() is None
            self.given[message.partition()].append(message.offset())

    def check(self, begins: list[int]) -> None:
        """Check that only what the application got would be committed."""
        for tp, offset in self.consumer._offsets.uncommitted(self.consumer._assigned).items():
            got = begins[tp.partition] + len(self.given[tp.partition])
            assert offset.offset <= got, f"{tp}: {offset.offset} would be committed, got {got}"

    def finish(self, begins: list[int]) -> None:
        """Read the rest; everything came once and in order."""
        for _ in range(5):
            message = self.consumer.poll(0.05)
            self.take([message] if message is not None else [])
        wanted = {n: list(range(begins[n], self.ends[n])) for n in (0, 1)}
        assert self.given == wanted, f"{self.given} {wanted}"


def elsewhere(frame: FrameType) -> bool:
    """Choose what has proofs of its own: all but the facade, and where records leave ours."""
    return not frame.f_code.co_filename.startswith(TRACED)


def interrupters() -> Iterator[Interrupter]:
    """One interrupter for each bytecode; the last one comes after the call."""
    for at in bytecodes():
        interrupter = Interrupter(at, skip=elsewhere)
        yield interrupter
        if interrupter.frame is None:
            return


def returned_by(interrupter: Interrupter) -> list[Any]:
    """Return what the facade was about to return when it was interrupted."""
    frame = interrupter.frame
    assert frame is not None
    for method, name in ((Consumer.poll, "message"), (Consumer.consume, "messages")):
        if interrupter.came_behind(method.__code__, "given"):
            found = frame.f_locals[name]
            return found if isinstance(found, list) else [found]
    return []


def between_return_and_list(interrupter: Interrupter) -> bool:
    """Tell whether it came between the store of our consumer and its return, which is impossible.

    CPython runs no handler there, and only C code until the record is in the list.
    """
    return interrupter.came_behind(KafkaConsumer.poll.__code__, "done") or interrupter.came_behind(
        PythonLoop.__next__.__code__, "given"
    )


def polls(reader: Consumer) -> Any:
    message = reader.poll(0.05)
    return [] if message is None else [message]


def slowly(reader: Consumer) -> Any:
    """As if the time for other work had come."""
    reader._reader.serve_ms = 0
    return polls(reader)


@pytest.mark.parametrize("implementation", sample(["native", "python"], 1))
@pytest.mark.parametrize(
    "call",
    [polls, slowly, lambda c: c.consume(2, 0.05), lambda c: c.consume(10, 0.05)],
    ids=["poll", "poll that serves", "consume", "consume that waits"],
)
def test_an_interrupted_call_loses_nothing(
    implementation: str, call: Callable[[Consumer], Any]
) -> None:
    require_implementation(implementation)
    with using(implementation), Simulation() as simulation:
        reader = Interrupted(simulation, enable__auto__commit=False, fetch__wait__max__ms=10)
        for interrupter in interrupters():
            begins = list(reader.ends)
            reader.produce()
            try:
                reader.take(interrupter.call(call, reader.consumer))
            except KeyboardInterrupt:
                if between_return_and_list(interrupter):
                    read_again(reader, begins)
                    continue
                reader.take(returned_by(interrupter))
            reader.check(begins)
            reader.finish(begins)
        assert interrupter.at > 150


def read_again(reader: Interrupted, begins: list[int]) -> None:
    """Go back to records that the impossible interrupt has lost."""
    reader.given = {0: [], 1: []}
    for tp, begin in zip(TPS, begins, strict=True):
        reader.consumer.seek(Their(*tp, begin))
    reader.finish(begins)
