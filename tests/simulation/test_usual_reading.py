"""`UsualReading` returns what `Reading` does, and leaves the same behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from gc import collect, get_objects
from operator import sub
from random import Random
from threading import Event, Thread
from typing import Any

import pytest

from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka.consumer.core import Core, guarded
from tandem_kafka.consumer.reading.fetch_collector import FetchCollector
from tandem_kafka.consumer.reading.publication import Handed, Publication
from tandem_kafka.errors import (
    ConcurrentModificationError,
    ForkedConsumerError,
    KafkaError,
    RecordDeserializationError,
)
from tandem_kafka.runtime.native import native
from tandem_kafka.runtime.process import PROCESS
from tandem_kafka.state.partition import AssignedPartition, Position
from tandem_kafka.types import OffsetAndMetadata
from tandem_kafka_testing import Simulation
from tests.implementations import collecting_in_python, in_python
from tests.scenarios.numbered_records import create_topic
from tests.simulation.repeating import RepeatingSimulation
from tests.tier import seeds

pytestmark = pytest.mark.skipif(native is None, reason="there is one implementation only")

PARTITIONS = [TopicPartition("orders", number) for number in range(3)]

#: Cannot be deserialized.
BAD = b"bad"

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
            if isinstance(error, RecordDeserializationError):
                self.consumer.seek(error.partition, error.offset + 1)
            return type(error), str(error)

    def facts(self) -> object:
        """What the next call begins with."""
        core, reading = self.consumer._core, self.consumer._reading
        polls, measured = core.engine.polls, reading._poller.measured
        positions = {tp: state.position for tp, state in core.engine.subscription.assigned.items()}
        return (
            {tp: found and found.offset for tp, found in positions.items()},
            core.engine.buffer.held_bytes,
            (core.reader, core._owner._lock._is_owned()),
            (polls.polled_ms, polls.handler_ms, polls.event_needed),
            (measured.polled_ms, measured.idle_ms, list(measured._polls), list(measured._records)),
            self.simulation.clock.now_ms(),
        )


def upper(value: bytes) -> bytes:
    """Deserialize all values but one."""
    if value == BAD:
        raise ValueError(value)
    return value.upper()


class Marking:
    """Marks the last value of each batch with the number of batches."""

    def __init__(self) -> None:
        self.count = 0

    def on_consume(self, records: Any) -> Any:
        self.count += 1
        for batch in records.values():
            batch[-1] = batch[-1]._replace(value=batch[-1].value + b"%d" % self.count)
        return records


def steps(random: Random) -> Iterator[Step]:
    """What happens to both, drawn with a seed."""

    def produced() -> Step:
        tp, count = random.choice(PARTITIONS), random.choice([1, 1, 1, 4])
        values = random.choices([b"x", BAD], [9, 1], k=count)
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


def drawn_options(random: Random) -> dict[str, Any]:
    """Large or small buffers and batches, with or without automatic commits."""
    size = random.choice([1 << 24, 4_000])
    return {
        "max_partition_fetch_bytes": size,
        "fetch_buffer_max_bytes": size,
        "enable_auto_commit": random.random() < 0.5,
        "auto_commit_interval_ms": 2_000,
        "max_poll_records": random.choice([500, 3]),
    }


@pytest.mark.parametrize("seed", seeds(60, 600))
def test_both_read_the_same(seed: int) -> None:
    random = Random(seed)  # noqa: S311
    options = {
        **drawn_options(random),
        **random.choice(
            [{}, {}, {"value_deserializer": upper}, {"interceptor_classes": [Marking]}]
        ),
    }
    kind = random.choice([Simulation, RepeatingSimulation])
    with kind(seed) as here, kind(seed) as there:
        one, other = Twin(here, options), Twin(there, options)
        in_python(other.consumer)
        for step in steps(random):
            assert one.try_(step) == other.try_(step)
            assert one.facts() == other.facts()
        assert here.trace.lines == there.trace.lines


def usual_steps(random: Random) -> Iterator[Step]:
    """What needs nothing but records of one partition, most of the time."""
    tp = PARTITIONS[0]
    for _ in range(random.randint(20, 60)):
        count, limit, kind = random.choice([1, 2, 5]), random.choice([None, 1, 2]), random.random()
        yield partial(Twin.produce, tp=tp, values=[b"x"] * count, wait_ms=600)
        if kind < 0.7:
            yield partial(Twin.iterate, count=count - count // 2)
        if kind > 0.4:
            yield lambda twin, limit=limit: twin.poll(0, limit)  # type: ignore[misc]
        if kind > 0.95:
            yield lambda twin: twin.consumer.pause(tp)
            yield partial(Twin.iterate, count=1)
            yield lambda twin: twin.consumer.resume(tp)
    yield lambda twin: [twin.poll(0) for _ in range(20)]


@pytest.mark.parametrize("seed", seeds(30, 300))
def test_both_read_the_same_of_one_partition(seed: int) -> None:
    random = Random(seed)  # noqa: S311
    kind, most = random.choice([Simulation, RepeatingSimulation]), random.choice([500, 3])
    deserializing = random.choice([{}, {"value_deserializer": upper}])
    with kind(seed) as here, kind(seed) as there:
        one, other = (ready(each, max_poll_records=most, **deserializing) for each in (here, there))
        collecting_in_python(other.consumer)
        for twin in (one, other):
            twin.consumer.assign(PARTITIONS[:1])
        for step in usual_steps(random):
            assert one.try_(step) == other.try_(step)
            assert one.facts() == other.facts()


def ready(simulation: Simulation, count: int = 1, **options: Any) -> Twin:
    """Return a consumer of which the next call is a usual one, with records of each partition."""
    twin = Twin(simulation, {"enable_auto_commit": False, **options})
    twin.consumer.assign(PARTITIONS)
    while twin.poll(1_000) != ({}, {}, {}):
        pass
    for tp in PARTITIONS:
        twin.produce(tp, [b"x"] * count, 600)
    return twin


@pytest.fixture
def reader() -> Iterator[Twin]:
    with Simulation() as simulation:
        yield ready(simulation)


@pytest.mark.parametrize("good", [0, 1, 4])
def test_a_deserializer_that_fails_is_not_called_again_by_the_same_call(good: int) -> None:
    """The call raises its error, or returns the records before it."""
    calls = list[bytes]()

    def deserialize(value: bytes) -> bytes:
        calls.append(value)
        if len(calls) == good + 1:
            raise ValueError(value)
        return value

    with Simulation() as simulation:
        reader = ready(simulation, count=3, value_deserializer=deserialize)
        if good == 0:
            with pytest.raises(RecordDeserializationError):
                reader.poll(0)
            assert len(calls) == 1
        records: Any = reader.poll(0)
        assert sum(map(len, records[0].values())) == (good or 9)


def test_the_usual_calls_leave_nothing_in_memory(reader: Twin) -> None:
    kinds = Handed, Position, Publication

    def counts() -> list[int]:
        collect()
        return [sum(type(each) is kind for each in get_objects()) for kind in kinds]

    before = counts()
    for _ in range(50):
        reader.produce(PARTITIONS[0], [b"x"], 600)
        assert reader.poll(0) != ({}, {}, {})
        reader.produce(PARTITIONS[0], [b"x"], 600)
        assert reader.iterate(1) != [None]
    assert max(map(sub, counts(), before)) < 20


def test_a_fork_cannot_read(reader: Twin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PROCESS, "pid", PROCESS.pid + 1)
    for call in (lambda: reader.poll(0), lambda: reader.iterate(1)):
        with pytest.raises(ForkedConsumerError):
            call()
    monkeypatch.undo()


def test_a_second_thread_cannot_read(reader: Twin) -> None:
    entered, left = Event(), Event()

    @guarded
    def holds(core: Core) -> None:
        held = core.enter()
        assert held is not None
        entered.set()
        left.wait(60)
        held.release()

    other = Thread(target=holds, args=(reader.consumer._core,))
    other.start()
    entered.wait(60)
    try:
        for call in (lambda: reader.poll(0), lambda: reader.iterate(1)):
            with pytest.raises(ConcurrentModificationError):
                call()
    finally:
        left.set()
        other.join()
    assert len(reader.iterate(3)) == 3


@pytest.mark.parametrize("paused", [True, False])
def test_a_loop_obeys_what_a_signal_handler_does_while_it_looks(
    monkeypatch: pytest.MonkeyPatch, paused: bool
) -> None:
    handlers = 0

    def handled(collector: FetchCollector, state: AssignedPartition) -> None:
        nonlocal handlers
        if handlers == 0:
            handlers = 1
            if paused:
                reader.consumer.pause(*PARTITIONS)
            for tp in () if paused else PARTITIONS:
                reader.consumer.seek(tp, 1)
        called(collector, state)

    called = FetchCollector._serve_last
    monkeypatch.setattr(FetchCollector, "_serve_last", handled)
    with Simulation() as simulation:
        reader = ready(simulation, count=3, max_poll_records=1)
        found = reader.iterate(7)
    assert handlers
    wanted = [] if paused else [(tp.partition, offset) for tp in PARTITIONS for offset in (1, 2)]
    assert sorted(filter(None, found)) == wanted
