"""Ctrl-C inside poll() and iteration, before every single bytecode: no record is lost.

What was not returned is not committed, and the next call returns it. An interrupt behind the store
that publishes the positions counts as one that came after the call: CPython runs no signal handler
between that store and the return.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

import pytest

from tandem_kafka import KafkaConsumer
from tandem_kafka.consumer.listener import ListenerCalls
from tandem_kafka.consumer.reading.iteration import PythonLoop
from tandem_kafka.errors import WakeupError
from tandem_kafka.events.application import ApplicationEvent, CallbackCompleted
from tandem_kafka.events.background import PartitionsLost
from tandem_kafka.records import FetchedPartition, ReaderOptions
from tandem_kafka.state.fetch_buffer import CompletedFetch
from tandem_kafka.state.partition import Position
from tandem_kafka.types import TopicPartition
from tandem_kafka_testing import Simulation
from tests.implementations import require_implementation
from tests.tier import bytecodes
from tests.unit.interrupts import UNAWAITED, Interrupter, coroutines_end_here
from tests.unit.records.making import CONTROL, TRANSACTIONAL, Rec, batch, open_reader, using

__all__ = ["coroutines_end_here"]

pytestmark = UNAWAITED

A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)

MARKER = batch([Rec(key=b"\0\0\0\1", value=b"\0" * 6)], 2, flags=CONTROL | TRANSACTIONAL)
#: The data of each partition: two responses for the first, with a marker at offset 2.
FETCHED = {
    A: [(0, batch([Rec(), Rec()], 0) + MARKER), (3, batch([Rec()], 3))],
    B: [(0, batch([Rec()], 0))],
}
ALL = {A: [0, 1, 3], B: [0]}
Fetched = Mapping[TopicPartition, list[tuple[int, bytes]]]


class Noticing:
    """An interceptor that changes nothing."""

    def on_consume(self, records: Any) -> Any:
        return dict(records)


DESERIALIZING: dict[str, Any] = {"value_deserializer": lambda data: data}
INTERCEPTING: dict[str, Any] = {"interceptor_classes": [Noticing]}


class Interrupted:
    """A consumer with fetched records, and the records that it has returned."""

    def __init__(self, simulation: Simulation, **options: Any) -> None:
        self.simulation = simulation
        simulation.cluster.create_topic("orders", 2)
        self.consumer = simulation.consumer(metrics_enabled=False, **options)
        self.consumer.assign([A, B])
        self.engine = self.consumer._core.engine
        while self.engine.subscription.without_position():
            self.consumer.poll(1_000)
        self.returned: dict[TopicPartition, list[int]] = {}

    @classmethod
    @contextmanager
    def reading(cls, implementation: str, **options: Any) -> Iterator[Interrupted]:
        """Return one with the readers of an implementation."""
        require_implementation(implementation)
        with using(implementation), Simulation() as simulation:
            yield cls(simulation, **options)

    def fetch(self, fetched: Fetched = FETCHED) -> None:
        """Seek to the beginning, and fetch records."""
        self.returned = {A: [], B: []}
        for tp in fetched:
            self.engine.subscription.get(tp).set_position(Position(0))
        self.fetch_more(fetched)

    def fetch_more(self, fetched: Fetched) -> None:
        """Fetch records from where the partitions are."""
        for tp, responses in fetched.items():
            state = self.engine.subscription.get(tp)
            base = state.base
            assert base is not None
            for offset, data in responses:
                response = FetchedPartition(tp.topic, None, tp.partition, 0, records=data)
                reader = open_reader(tp.topic, tp.partition, offset, response, ReaderOptions())
                self.engine.buffer.add(CompletedFetch(state, base, reader))

    def take(self, batch: Any) -> None:
        """Store the result of poll()."""
        for records in batch.values():
            for record in records:
                self.take_one(record)

    def take_arrow(self, batch: Any) -> None:
        """Store the result of poll_arrow(), if any."""
        for row in batch.to_pylist() if batch is not None else ():
            self.returned[TopicPartition(row["topic"], row["partition"])].append(row["offset"])

    def take_one(self, record: Any) -> None:
        """Store the result of iteration, if any."""
        if record is not None:
            self.returned[TopicPartition(record.topic, record.partition)].append(record.offset)

    def committable(self) -> dict[TopicPartition, int]:
        return {tp: each.offset for tp, each in self.engine.subscription.consumed_offsets().items()}

    def check(self) -> None:
        """Check that only returned records would be committed, and that other threads may enter."""
        for tp, offset in self.committable().items():
            missing = [each for each in ALL[tp] if each < offset and each not in self.returned[tp]]
            assert not missing, f"{tp}: {offset} would be committed without {missing}"
        found: list[object] = []
        other = threading.Thread(target=lambda: found.append(self.consumer.paused()))
        other.start()
        other.join()
        assert found == [set()], "the lock was not released"

    def finish(self, read: Callable[[], object]) -> None:
        """Read the rest; check that all records came once and in order, and memory is released."""
        while self.returned != ALL:
            before = sum(map(len, self.returned.values()))
            read()
            after = sum(map(len, self.returned.values()))
            assert after > before, (
                f"the next call returned nothing; returned so far: {self.returned}"
            )
            assert after <= 4, f"returned twice: {self.returned}"
        self.consumer.poll()
        assert self.committable() == {A: 4, B: 1}
        assert self.engine.buffer.held_bytes == 0
        assert all(s.held_bytes == 0 for s in self.engine.subscription.assigned.values())


def interrupters(step: int = 1, **options: Any) -> Iterator[Interrupter]:
    """One interrupter for each bytecode; the last one comes after the call."""
    for at in bytecodes(step):
        interrupter = Interrupter(at, **options)
        yield interrupter
        if interrupter.frame is None:
            return
        # A coroutine that never ran ends here, and not anywhere: the frame and the object refer to
        # each other, and the collector also runs where no warning is possible; see `behind_store`.
        interrupter.frame = None


def given_close_to(interrupter: Interrupter) -> Any:
    """Return the record that the Python loop is about to return; the native one has no bytecode."""
    return close_to(interrupter, PythonLoop.__next__, "given", "record")


def close_to(interrupter: Interrupter, method: Any, attribute: str, name: str) -> Any:
    """Return the result that a method was about to return when interrupted, or None."""
    code = method.__code__
    if interrupter.frame is None or not interrupter.came_behind(code, attribute):
        return None
    return interrupter.frame.f_locals[name]


@pytest.mark.parametrize(
    ("implementation", "options"),
    [("python", {}), ("native", {}), ("native", DESERIALIZING), ("native", INTERCEPTING)],
    ids=["python", "native", "native, deserializing", "native, intercepting"],
)
def test_an_interrupted_poll_loses_nothing(implementation: str, options: dict[str, Any]) -> None:
    with Interrupted.reading(implementation, **options) as reader:
        consumer = reader.consumer
        for interrupter in interrupters():
            reader.fetch()
            try:
                reader.take(interrupter.call(consumer.poll, 0, 3))
            except KeyboardInterrupt:
                reader.take(close_to(interrupter, KafkaConsumer.poll, "done", "batch") or {})
            reader.check()
            reader.finish(lambda: reader.take(consumer.poll()))
        assert interrupter.at > 400


@pytest.mark.parametrize(("implementation", "step"), [("python", 13), ("native", 1)])
def test_an_interrupted_poll_arrow_loses_nothing(implementation: str, step: int) -> None:
    with Interrupted.reading(implementation) as reader:
        consumer = reader.consumer
        for interrupter in interrupters(step):
            reader.fetch()
            try:
                reader.take_arrow(interrupter.call(consumer.poll_arrow, 0, 3))
            except KeyboardInterrupt:
                batch = close_to(interrupter, KafkaConsumer.poll_arrow, "done", "records")
                reader.take_arrow(batch)
            reader.check()
            reader.finish(lambda: reader.take_arrow(consumer.poll_arrow()))
        assert interrupter.at > 400


@pytest.mark.parametrize(
    ("implementation", "options"),
    [
        ("python", DESERIALIZING),
        ("native", {}),
        ("native", DESERIALIZING),
        ("native", INTERCEPTING),
    ],
    ids=["python, deserializing", "native", "native, deserializing", "native, intercepting"],
)
def test_an_interrupted_iteration_loses_nothing(
    implementation: str, options: dict[str, Any]
) -> None:
    with Interrupted.reading(implementation, **options) as reader:
        consumer = reader.consumer
        for interrupter in interrupters():
            reader.fetch()
            try:
                while reader.returned != ALL:
                    reader.take_one(interrupter.call(consumer.__next__))
            except KeyboardInterrupt:
                reader.take_one(given_close_to(interrupter))
            reader.check()
            reader.finish(lambda: reader.take_one(next(consumer)))
        assert interrupter.at > 800


def test_poll_returns_the_rest_of_an_interrupted_iteration() -> None:
    with Interrupted.reading("native") as reader:
        consumer = reader.consumer
        for interrupter in interrupters():
            reader.fetch()
            try:
                for _ in range(3):
                    reader.take_one(interrupter.call(consumer.__next__))
            except KeyboardInterrupt:
                reader.take_one(given_close_to(interrupter))
            reader.finish(lambda: reader.take(consumer.poll(0, 2)))


def cut(reader: Interrupted) -> None:
    """Read a part of a chunk, so that the next call goes on with it, and fetch another chunk."""
    reader.fetch({A: FETCHED[A][:1], B: FETCHED[B]})
    for _ in range(2):  # the positions are told
        reader.take(reader.consumer.poll(0, 1))
    reader.fetch_more({A: FETCHED[A][1:]})


def test_an_interrupted_poll_that_goes_on_with_a_chunk_loses_nothing() -> None:
    with Interrupted.reading("native") as reader:
        consumer = reader.consumer
        for interrupter in interrupters():
            cut(reader)
            reader.engine.buffer.starved = True
            try:
                reader.take(interrupter.call(consumer.poll, 0, 2))
            except KeyboardInterrupt:
                reader.take(close_to(interrupter, KafkaConsumer.poll, "done", "batch") or {})
            reader.check()
            reader.finish(lambda: reader.take(consumer.poll(0, 1)))
        assert interrupter.at > 40


def test_a_poll_behind_an_interrupted_purge_returns_each_chunk_once() -> None:
    with Interrupted.reading("native") as reader:
        for interrupter in interrupters():
            cut(reader)
            with suppress(KeyboardInterrupt):
                interrupter.call(reader.consumer._reading._collector.purge)
            reader.finish(lambda: reader.take(reader.consumer.poll(0, 1)))
        assert interrupter.at > 100


@pytest.mark.parametrize(
    ("implementation", "options"),
    [("python", {}), ("native", {}), ("native", DESERIALIZING)],
    ids=["python", "native", "native, deserializing"],
)
def test_iteration_goes_on_behind_a_poll_that_was_interrupted_as_it_ended_it(
    implementation: str, options: dict[str, Any]
) -> None:
    with Interrupted.reading(implementation, **options) as reader:
        reader.fetch()
        reader.take_one(next(reader.consumer))
        reader.consumer._reading.iteration.runs[0].feed.stop()  # and no more of `end`
        reader.finish(lambda: reader.take_one(next(reader.consumer)))


# The usual poll() has few bytecodes.
@pytest.mark.parametrize(("fetched", "least"), [(True, 200), (False, 20)])
def test_a_wakeup_from_a_signal_handler_ends_one_poll_and_loses_nothing(
    fetched: bool, least: int
) -> None:
    with Interrupted.reading("native") as reader:
        consumer = reader.consumer
        raised: list[int] = []
        tried: list[int] = []

        def poll(call: Callable[..., Any]) -> None:
            try:
                reader.take(call(consumer.poll, 0))
            except WakeupError:
                raised.append(interrupter.at)

        for at in bytecodes():
            interrupter = Interrupter(at, consumer.wakeup)
            tried.append(at)
            reader.fetch(FETCHED if fetched else {})
            poll(interrupter.call)
            if interrupter.frame is None:
                break
            poll(lambda method, *arguments: method(*arguments))
            assert raised == tried, "each wakeup() ends exactly one poll()"
            if fetched:
                reader.finish(lambda: reader.take(consumer.poll()))
        assert at > least


def test_a_signal_handler_that_assigns_loses_nothing_that_arrives_meanwhile() -> None:
    with Interrupted.reading("native") as reader:

        def assign() -> None:
            reader.fetch_more({A: FETCHED[A][1:]})
            reader.consumer.assign([A, B])

        for interrupter in interrupters(3, handler=assign):
            reader.fetch({A: FETCHED[A][:1], B: FETCHED[B]})
            reader.take(interrupter.call(reader.consumer.poll, 0))
            if interrupter.frame is None:
                break
            reader.finish(lambda: reader.take(reader.consumer.poll()))
        assert interrupter.at > 200


def test_an_interrupted_poll_still_notifies_the_network_thread() -> None:
    """Work that waits for a poll must not wait forever."""
    with Interrupted.reading("native") as reader:
        for interrupter in interrupters():
            reader.engine.polls.event_needed = True
            with suppress(KeyboardInterrupt):
                interrupter.call(reader.consumer.poll, 0)
            reader.consumer.poll()
            reader.simulation.sleep(10)
            assert not reader.engine.polls.event_needed, f"after bytecode {interrupter.at}"
        assert interrupter.at > 200


class Losing:
    """A listener that counts."""

    def __init__(self) -> None:
        self.lost = 0

    def on_partitions_lost(self, partitions: set[TopicPartition]) -> None:
        assert partitions == {A}
        self.lost += 1


def is_listener(frame: FrameType) -> bool:
    return isinstance(frame.f_locals.get("self"), Losing) or frame.f_code.co_name == "noticing"


def test_an_interrupted_poll_calls_the_listener_once() -> None:
    """The network thread is notified after the call, not before."""
    with Interrupted.reading("native", group_id="readers") as reader:
        calls, queue = reader.consumer._parts.listener, reader.engine.queue
        listener = calls.listener = Losing()
        completions: list[tuple[int, int]] = []
        add = queue.add

        def noticing(event: ApplicationEvent) -> None:
            if isinstance(event, CallbackCompleted):
                # Between the store and the call, it counts as called.
                begun = interrupter.came_behind(ListenerCalls._call.__code__, "_progress")
                listener.lost += begun and listener.lost < event.number
                completions.append((event.number, listener.lost))
            add(event)

        queue.add = noticing  # type: ignore[method-assign]
        for number, interrupter in enumerate(interrupters(skip=is_listener), start=1):
            reader.engine.group.callback = number
            calls.released_partitions = frozenset()
            reader.engine.background.add(PartitionsLost(frozenset({A}), number))
            with suppress(KeyboardInterrupt):
                interrupter.call(reader.consumer.poll, 0)
            reader.consumer.poll()
            assert listener.lost == number
            assert {lost for each, lost in completions if each == number} == {number}
            assert len(reader.consumer._parts.background) == 0
        assert interrupter.at > 400


class Polling(Losing):
    """A listener that polls."""

    consumer: KafkaConsumer

    def on_partitions_lost(self, partitions: set[TopicPartition]) -> None:
        self.consumer.poll(0)
        super().on_partitions_lost(partitions)


def test_an_interrupt_behind_a_listener_that_polls_is_made_up_for_by_the_next_poll() -> None:
    """The nested poll has looked at everything but the end of the call that it is in."""
    with Interrupted.reading("native", group_id="readers") as reader:
        calls, queue = reader.consumer._parts.listener, reader.engine.queue
        listener = calls.listener = Polling()
        listener.consumer = reader.consumer
        completed: list[int] = []
        add = queue.add

        def noticing(event: ApplicationEvent) -> None:
            if isinstance(event, CallbackCompleted):
                completed.append(event.number)
            add(event)

        queue.add = noticing  # type: ignore[method-assign]
        for interrupter in interrupters(7, skip=lambda f: f.f_code.co_name == "noticing"):
            number = reader.engine.group.callback = interrupter.at + 1
            calls.released_partitions = frozenset()
            reader.engine.background.add(PartitionsLost(frozenset({A}), number))
            with suppress(KeyboardInterrupt):
                interrupter.call(reader.consumer.poll, 0)
            reader.consumer.poll()
            assert number in completed, f"after bytecode {interrupter.at}"
        assert interrupter.at > 400


def test_an_interrupt_in_a_deserializer_keeps_unreturned_records() -> None:
    """The batch of the first partition is complete when that of the second is interrupted."""
    pressed = [True]

    def deserialize(data: bytes | None) -> bytes | None:
        if pressed and data == b"stop":
            pressed.clear()
            raise KeyboardInterrupt
        return data

    with Interrupted.reading("python", value_deserializer=deserialize) as reader:
        reader.fetch({A: FETCHED[A], B: [(0, batch([Rec(b"stop")], 0))]})
        with pytest.raises(KeyboardInterrupt):
            reader.consumer.poll()
        assert reader.committable() == {A: 0, B: 0}
        reader.take(reader.consumer.poll())
        assert reader.returned == ALL
        assert reader.committable() == {A: 4, B: 1}
