"""`UsualReading` returns what `Reading` does, and leaves the same behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka.errors import KafkaError
from tandem_kafka.runtime.native import native
from tandem_kafka.types import OffsetAndMetadata
from tandem_kafka_testing import Simulation
from tests.implementations import in_python
from tests.scenarios.numbered_records import create_topic
from tests.tier import seeds

pytestmark = pytest.mark.skipif(native is None, reason="there is one implementation only")

PARTITIONS = [TopicPartition("orders", number) for number in range(3)]

Step = Callable[["Twin"], object]


class Twin:
    """A consumer in a simulation of its own, which reads in one of the two ways."""

    def __init__(self, simulation: Simulation, options: dict[str, Any]) -> None:
        self.simulation = simulation
        create_topic(simulation, "orders", len(PARTITIONS))
        self.consumer: KafkaConsumer[Any, Any] = simulation.consumer(
            group_id="readers", auto_offset_reset="earliest", consumer_timeout_ms=50, **options
        )

    def produce(self, tp: TopicPartition, values: list[bytes], wait_ms: int) -> None:
        """Let records arrive, perhaps before the next call."""
        self.simulation.cluster.produce(tp, *values)
        self.simulation.sleep(wait_ms)

    def poll(self, *arguments: Any, update_offsets: bool = True) -> object:
        made = self.consumer.poll(*arguments, update_offsets=update_offsets)
        records = {tp: [(r.offset, r.value) for r in batch] for tp, batch in made.items()}
        return records, made.next_offsets, made.starts

    def iterate(self, count: int) -> object:
        found = [next(self.consumer, None) for _ in range(count)]
        return [None if each is None else (each.partition, each.offset) for each in found]

    def try_(self, step: Step) -> object:
        try:
            return step(self)
        except KafkaError as error:
            return type(error), str(error)

    def facts(self) -> object:
        """What the next call begins with."""
        core, reading = self.consumer._core, self.consumer._reading
        polls, measured = core.engine.polls, reading._poller.measured
        positions = {tp: state.position for tp, state in core.engine.subscription.assigned.items()}
        return (
            {tp: found and found.offset for tp, found in positions.items()},
            core.engine.buffer.held_bytes,
            (core.reader, core._owner._lock.acquire(False) and core._owner._lock.release()),
            (polls.polled_ms, polls.handler_ms, polls.event_needed),
            (measured.polled_ms, measured.idle_ms, list(measured._polls), list(measured._records)),
            self.simulation.clock.now_ms(),
        )


def steps(random: Random) -> Iterator[Step]:
    """What happens to both, drawn with a seed."""

    def produced() -> Step:
        tp, values = random.choice(PARTITIONS), [b"x"] * random.choice([1, 1, 1, 4])
        wait_ms = random.choice([0, 600, 600])
        return lambda twin: twin.produce(tp, values, wait_ms)

    def polled() -> Step:
        limits = random.choice([0, 1, 5.5, 100, 700]), random.choice([None, None, 1, 2])
        kept = random.random() < 0.05
        return lambda twin: twin.poll(*limits, update_offsets=not kept)

    def iterated() -> Step:
        count = random.choice([1, 2, 6])
        return lambda twin: twin.iterate(count)

    def other() -> Step:
        tp, offset = random.choice(PARTITIONS), random.choice([0, 1, 3])
        return random.choice(
            [
                lambda twin: twin.consumer.seek(tp, offset),
                lambda twin: twin.consumer.pause(tp),
                lambda twin: twin.consumer.resume(tp),
                lambda twin: twin.consumer.commit(),
                lambda twin: twin.consumer.commit({tp: OffsetAndMetadata(offset, "", -1)}),
                lambda twin: twin.consumer.wakeup(),
                lambda twin: twin.consumer.poll(-1),
                lambda twin: twin.consumer.poll(0, 0),
                lambda twin: twin.consumer.unsubscribe(),
                lambda twin: twin.consumer.subscribe(["orders"]),
                lambda twin: twin.consumer.assign(PARTITIONS[:2]),
                lambda twin: twin.simulation.sleep(300),
            ]
        )

    yield lambda twin: twin.consumer.subscribe(["orders"])
    yield lambda twin: twin.poll(5_000)
    for _ in range(random.randint(5, 60)):
        yield random.choice([produced] * 12 + [polled] * 8 + [iterated] * 5 + [other])()
    if random.random() < 0.3:
        yield lambda twin: twin.consumer.close()
        yield lambda twin: twin.poll(0)


@pytest.mark.parametrize("seed", seeds(60, 600))
def test_both_read_the_same(seed: int) -> None:
    random = Random(seed)  # noqa: S311
    options = {
        "enable_auto_commit": random.random() < 0.5,
        "auto_commit_interval_ms": 2_000,
        "max_poll_records": random.choice([500, 3]),
    }
    with Simulation(seed) as here, Simulation(seed) as there:
        one, other = Twin(here, options), Twin(there, options)
        in_python(other.consumer)
        for step in steps(random):
            assert one.try_(step) == other.try_(step)
            assert one.facts() == other.facts()
        assert here.trace.lines == there.trace.lines
