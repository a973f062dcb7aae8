"""Signal handlers that close a consumer or read it, wherever CPython runs them."""

from __future__ import annotations

import opcode
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from itertools import count, islice, product, takewhile
from types import FrameType
from typing import Any

import pyarrow as pa
import pytest

from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka.errors import IllegalStateError
from tandem_kafka.state.partition import AssignedPartition
from tandem_kafka.types import DecodeErrors
from tandem_kafka_testing import Simulation
from tests.simulation.readers import Readers, filled
from tests.tier import bytecodes

#: CPython runs signal handlers at the beginning of functions, at backward jumps and behind calls.
_JUMP = opcode.opmap["JUMP_BACKWARD"]
_CALLS = {opcode.opmap[name] for name in ("CALL", "CALL_FUNCTION_EX")}

TPS = [TopicPartition("orders", number) for number in range(3)]
BATCHES, SIZE = 4, 5


def runs_handlers(frame: FrameType, event: str, before: dict[FrameType, int]) -> bool:
    """Tell whether CPython runs signal handlers where a trace function is called.

    Args:
        frame: The frame.
        event: The event.
        before: The instruction before the next one of each frame, which this updates.
    """
    if event != "opcode":
        return event == "call"
    instruction = frame.f_code.co_code[frame.f_lasti]
    there = instruction == _JUMP or before.get(frame) in _CALLS
    before[frame] = instruction
    return there


class Signal:
    """Runs a handler at one of the places where CPython does, while a function is called.

    Attributes:
        arrived: Whether the handler was run.
    """

    def __init__(self, simulation: Simulation, at: int, handler: Callable[[], object]) -> None:
        self._handler = handler
        self._waiting = False
        #: The instruction before the next one of each frame.
        self._before: dict[FrameType, int] = {}
        self.set(at)
        driver: Any = simulation.drivers[0]
        wait = driver.wait

        def waits(*arguments: Any) -> bool:
            self._waiting = True  # what runs now belongs to other threads
            try:
                return bool(wait(*arguments))
            finally:
                self._waiting = False

        driver.wait = waits

    def set(self, at: int) -> None:
        """Choose the next place."""
        self._left, self.arrived = at, False

    def during(self, call: Callable[[], Any]) -> Any:
        sys.settrace(self._trace)
        try:
            return call()
        finally:
            sys.settrace(None)
            self._before.clear()

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        del argument
        if self._waiting or self.arrived:
            return None
        if event == "call":
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
        there = runs_handlers(frame, event, self._before)
        if there and frame.f_globals["__name__"].startswith("tandem_kafka"):
            if not self._left:
                self.arrived = True
                sys.settrace(None)
                self._handler()
                return None
            self._left -= 1
        return self._trace


def reader(simulation: Simulation, **options: Any) -> KafkaConsumer:
    simulation.cluster.create_topic("orders", len(TPS))
    for tp in TPS:
        for _ in range(BATCHES):
            simulation.cluster.produce(tp, *[b"x"] * SIZE)
    consumer: KafkaConsumer = simulation.consumer(
        group_id="g", auto_offset_reset="earliest", max_poll_records=7, **options
    )
    consumer.assign(TPS)
    return consumer


def places() -> Any:
    return takewhile(lambda at: at < 3_000, bytecodes())


def test_a_close_ends_a_loop_wherever_it_comes() -> None:
    """`IndexError: pop from an empty deque` at 52 of 634 places."""
    ended = 0
    for at in places():
        with Simulation("closing") as simulation:
            consumer = reader(simulation, consumer_timeout_ms=300)
            signal = Signal(simulation, at, consumer.close)
            records = signal.during(lambda consumer=consumer: list(consumer))
            assert len(records) == len({(each.partition, each.offset) for each in records})
            if not signal.arrived:
                break
            assert consumer._core.closed
            ended += 1
    assert ended > 25


def test_a_poll_inside_of_a_poll_returns_no_record_twice() -> None:
    """At 174 of 1,090 places, both returned the same records."""
    outcomes: Counter[str] = Counter()
    for at in places():
        with Simulation("nested") as simulation:
            consumer = reader(simulation)
            read: Counter[tuple[TopicPartition, int]] = Counter()

            def note(batch: Any, read: Counter[Any] = read) -> None:
                read.update((tp, each.offset) for tp, some in batch.items() for each in some)

            def nested(consumer: Any = consumer, note: Any = note) -> None:
                try:
                    note(consumer.poll(0, max_records=3))
                    outcomes["returned"] += 1
                except IllegalStateError:
                    outcomes["rejected"] += 1

            note(consumer.poll(3_000))
            simulation.sleep(500)
            signal = Signal(simulation, at, nested)
            for _ in range(20):
                note(signal.during(lambda consumer=consumer: consumer.poll(200)))
            assert set(read.values()) == {1}, at
            assert len(read) == len(TPS) * BATCHES * SIZE, at
            consumer.close()
            if not signal.arrived:
                break
    assert outcomes["rejected"] > 5
    assert outcomes["returned"] > 5


#: Reads a consumer.
Reads = Callable[[KafkaConsumer], list[Any]]


def polled(consumer: KafkaConsumer) -> list[Any]:
    return [each for records in consumer.poll().values() for each in records]


def iterated(consumer: KafkaConsumer) -> list[Any]:
    return list(islice(consumer, 1))


def assigned(consumer: KafkaConsumer) -> list[Any]:
    consumer.assign(TPS)
    return []


class Reading:
    """Reads a consumer in calls inside of others, and checks each record.

    Attributes:
        expected: The next offsets.
        left: How many records are not read.
        outcomes: How many inner calls have returned, and how many were rejected.
    """

    def __init__(self, simulation: Simulation, inner: Reads) -> None:
        self._simulation = simulation
        self._inner = inner
        self._consumer = reader(
            simulation, consumer_timeout_ms=0, value_deserializer=lambda value: (value,)
        )
        self.expected = dict.fromkeys(TPS, 0)
        self.left = len(TPS) * BATCHES * SIZE
        self.outcomes: Counter[str] = Counter()

    def read(self, call: Reads) -> None:
        for record in call(self._consumer):
            tp = TopicPartition(record.topic, record.partition)
            assert (record.offset, record.value) == (self.expected[tp], (b"x",))
            self.expected[tp] += 1
            self.left -= 1

    def handler(self) -> None:
        try:
            self.read(self._inner)
            self.outcomes["returned"] += 1
        except IllegalStateError:
            self.outcomes["rejected"] += 1

    def prepare(self, call: Reads, *, changes: bool) -> None:
        """Leave records of two partitions to read."""
        while self.left < 2 * SIZE:
            for tp in TPS[:2]:
                self._simulation.cluster.produce(tp, *[b"x"] * SIZE)
                self.left += SIZE
            self._simulation.sleep(100)
        self.read(call)
        if changes:  # which the next call looks at
            self._consumer.pause(TPS[2])
            self._consumer.resume(TPS[2])

    def check_positions(self) -> None:
        assert {tp: self._consumer.position(tp) for tp in TPS} == self.expected


@pytest.mark.parametrize("inner", [polled, iterated])
@pytest.mark.parametrize("outer", [polled, iterated, assigned])
def test_calls_inside_of_others_return_each_record_once_and_in_order(
    outer: Reads, inner: Reads
) -> None:
    """What an iteration had left came twice, or without its deserializer; others were lost."""
    with Simulation("inside") as simulation:
        reading = Reading(simulation, inner)
        while reading.left:
            simulation.sleep(100)
            reading.read(polled)
        signal, arrived = Signal(simulation, 0, reading.handler), {True}
        for at in takewhile(lambda _: any(arrived), count()):
            arrived.clear()
            for prepares, changes in product((polled, iterated), (False, True)):
                reading.prepare(prepares, changes=changes)
                signal.set(at)
                signal.during(lambda: reading.read(outer))
                arrived.add(signal.arrived)
                reading.read(iterated)
                reading.check_positions()
        assert reading.outcomes["rejected"] > 5
        assert reading.outcomes["returned"] > 5


@pytest.mark.parametrize("outer", [polled, iterated])
def test_no_handler_moves_a_position_that_is_being_dropped(
    outer: Reads, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The network thread had read the position, and records from there on came again."""
    looked = 0

    def drop(state: AssignedPartition) -> None:
        nonlocal looked
        looked += 1
        consumer.resume(*TPS)
        place = state.position.offset if state.position else None
        for reads in (polled, iterated) * 4:
            with suppress(IllegalStateError):
                reads(consumer)
        assert state.position is not None
        assert state.position.offset == place
        drop_read_ahead(state)

    drop_read_ahead = AssignedPartition.drop_read_ahead
    monkeypatch.setattr(AssignedPartition, "drop_read_ahead", drop)
    sizes = {
        "fetch_buffer_max_bytes": 2_000,
        "fetch_max_bytes": 1_000,
        "max_partition_fetch_bytes": 900,
    }
    with Simulation("dropping") as simulation:
        consumer = reader(simulation, consumer_timeout_ms=0, **sizes)
        for tp in TPS * 10:
            simulation.cluster.produce(tp, *[b"x" * 90] * SIZE)
        for _ in range(5):
            simulation.sleep(200)
            consumer.poll(0, max_records=2)
        consumer.pause(*TPS[:2])
        for _ in range(40):
            simulation.sleep(100)
            outer(consumer)
    assert looked


def test_a_commit_callback_may_iterate() -> None:
    """The records behind the one that it read came twice."""
    with Simulation("callback") as simulation:
        consumer = reader(simulation, consumer_timeout_ms=0)
        consumer.assign(TPS[:1])
        read: list[int] = []

        def iterates(*_: Any) -> None:
            read.extend(record.offset for record in iterated(consumer))

        while len(read) < BATCHES * SIZE:
            simulation.sleep(100)
            read.extend(record.offset for record in polled(consumer))
            consumer.commit_async(callback=iterates)
            simulation.sleep(100)
            read.extend(record.offset for record in polled(consumer))
            iterates()
        assert read == list(range(BATCHES * SIZE))


def test_a_deserializer_cannot_poll_its_consumer() -> None:
    """Its records came twice."""
    with Simulation("deserializer") as simulation:
        caught: list[BaseException] = []

        def polls(value: bytes) -> bytes:
            try:
                consumer.poll(0)
            except IllegalStateError as error:
                caught.append(error)
            return value

        consumer = reader(simulation, value_deserializer=polls)
        batch: Any = {}
        while not batch:
            batch = consumer.poll(500)
        assert all(each.value for records in batch.values() for each in records)
        assert caught
        consumer.close()


def test_an_arrow_decoder_cannot_poll_its_consumer() -> None:
    with Simulation("decoder") as simulation:
        caught: list[BaseException] = []
        consumer = reader(simulation)

        class Polls:
            errors: DecodeErrors = "raise"
            flatten = False

            def decode(self, column: pa.Array) -> tuple[pa.Array, tuple[()]]:
                try:
                    consumer.poll(0)
                except IllegalStateError as error:
                    caught.append(error)
                return column, ()

        rows = 0
        while not rows:
            rows = consumer.poll_arrow(500, value=Polls()).num_rows
        assert caught
        consumer.close()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("what", ["on_partitions_assigned", "on_partitions_revoked"])
def test_a_listener_may_poll(protocol: str, what: str) -> None:
    with Simulation(what) as simulation:
        readers = Readers(simulation, filled(simulation))
        polls = 0

        class Polling:
            def on_partitions_assigned(self, _: Any) -> None:
                self.called("on_partitions_assigned")

            def on_partitions_revoked(self, _: Any) -> None:
                self.called("on_partitions_revoked")

            def called(self, method: str) -> None:
                nonlocal polls
                if method == what:
                    for _ in range(2):
                        for tp, records in first.poll(100).items():
                            readers.read.update((tp, each.offset) for each in records)
                    polls += 1

        first = readers.join(Polling(), group_protocol=protocol)  # type: ignore[arg-type]
        readers.poll(10)
        readers.join(group_protocol=protocol)
        readers.settle()
        first.close()
        assert polls
