"""`for record in consumer`, with everything else that is called in its body."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka.errors import (
    ConcurrentModificationError,
    ConsumerClosedError,
    RecordDeserializationError,
)
from tandem_kafka.runtime.native import native_available
from tandem_kafka_testing import Simulation
from tests.scenarios.numbered_records import create_topic, produce


@pytest.fixture
def simulation() -> Iterator[Simulation]:
    with Simulation("loops") as simulation:
        yield simulation


@pytest.fixture
def tps(simulation: Simulation) -> list[TopicPartition]:
    tps = create_topic(simulation, "orders", 2)
    for tp in tps:
        for _ in range(4):
            produce(simulation, tp, 5)
    return tps


@pytest.fixture
def consumer(simulation: Simulation, tps: list[TopicPartition]) -> KafkaConsumer:
    consumer = simulation.consumer(
        auto_offset_reset="earliest", consumer_timeout_ms=2_000, group_id="readers"
    )
    consumer.assign(tps)
    return consumer


def place(record: Any) -> tuple[int, int]:
    return record.partition, record.offset


def test_a_seek_takes_effect_with_the_next_record(
    consumer: KafkaConsumer, tps: list[TopicPartition]
) -> None:
    seen = []
    for record in consumer:
        seen.append(place(record))
        if len(seen) == 3:
            consumer.seek(tps[record.partition], 15)
    partition = seen[0][0]
    other = 1 - partition
    assert [offset for number, offset in seen if number == partition] == [0, 1, 2, *range(15, 20)]
    assert [offset for number, offset in seen if number == other] == list(range(20))


def test_a_pause_takes_effect_with_the_next_record(
    consumer: KafkaConsumer, tps: list[TopicPartition]
) -> None:
    seen = []
    for record in consumer:
        seen.append(place(record))
        if len(seen) == 3:
            paused = tps[record.partition]
            consumer.pause(paused)
    assert [offset for number, offset in seen if number == paused.partition] == [0, 1, 2]
    assert consumer.position(paused) == 3
    consumer.resume(paused)
    assert [record.offset for record in consumer] == list(range(3, 20))


def test_poll_in_the_loop_continues_at_its_record_and_the_loop_after_it(
    consumer: KafkaConsumer,
) -> None:
    seen = []
    for record in consumer:
        seen.append(place(record))
        if len(seen) in {3, 9}:
            for records in consumer.poll(1_000, max_records=4).values():
                seen += [place(each) for each in records]
    assert len(seen) == 40
    assert sorted(seen) == [(number, offset) for number in range(2) for offset in range(20)]


def test_a_commit_in_the_loop_covers_the_yielded_records(
    consumer: KafkaConsumer, tps: list[TopicPartition]
) -> None:
    given = dict.fromkeys(tps, 0)
    for record in consumer:
        given[tps[record.partition]] = record.offset + 1
        if record.offset % 7 == 3:
            consumer.commit()
            committed = {tp: consumer.committed(tp) or 0 for tp in tps}
            assert committed == given


def test_close_ends_the_loop(consumer: KafkaConsumer) -> None:
    seen = []
    for record in consumer:
        seen.append(record.offset)
        if len(seen) == 3:
            consumer.close()
    assert seen == [0, 1, 2]
    assert list(consumer) == []
    with pytest.raises(ConsumerClosedError):
        consumer.poll()


def test_an_assignment_in_the_loop_takes_effect(
    consumer: KafkaConsumer, tps: list[TopicPartition]
) -> None:
    seen = []
    for record in consumer:
        seen.append(place(record))
        if len(seen) == 3:
            left = tps[1 - record.partition]
            consumer.assign([left])
    assert seen[3:] == [(left.partition, offset) for offset in range(20)]


def test_a_consumer_is_its_own_iterator(consumer: KafkaConsumer) -> None:
    assert iter(consumer) is consumer
    assert next(consumer).offset == 0
    assert next(consumer).offset == 1
    assert len(list(consumer)) == 38
    with pytest.raises(StopIteration):
        next(consumer)


def test_next_can_be_wrapped_from_outside(
    consumer: KafkaConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tracers and subclasses do so."""
    seen = []
    original = KafkaConsumer.__next__

    def traced(self: KafkaConsumer) -> Any:
        record = original(self)
        seen.append(record.offset)
        return record

    monkeypatch.setattr(KafkaConsumer, "__next__", traced)
    assert len(list(consumer)) == len(seen) == 40


@pytest.mark.parametrize("seed", range(20))
def test_two_threads_share_the_records(
    consumer: KafkaConsumer, tps: list[TopicPartition], seed: int
) -> None:
    """With a lock of the application, each record is read exactly once."""
    chance, lock, seen = random.Random(seed), threading.Lock(), []  # noqa: S311

    def read() -> None:
        while True:
            with lock:
                record = next(consumer, None)
                if record is None:
                    return
                seen.append(place(record))
                if chance.random() < 0.1:
                    seen.extend(place(r) for rs in consumer.poll(0, 2).values() for r in rs)

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(seen) == [(number, offset) for number in range(2) for offset in range(20)]
    assert {tp: consumer.position(tp) for tp in tps} == dict.fromkeys(tps, 20)


def reading(simulation: Simulation, tp: TopicPartition, deserialize: Any) -> KafkaConsumer:
    """Return a consumer with a value deserializer, assigned one partition."""
    consumer = simulation.consumer(
        auto_offset_reset="earliest", consumer_timeout_ms=2_000, value_deserializer=deserialize
    )
    consumer.assign([tp])
    return consumer


@pytest.mark.skipif(not native_available, reason="the Python loop deserializes a run at once")
def test_a_record_is_deserialized_when_it_is_yielded(
    simulation: Simulation, tps: list[TopicPartition]
) -> None:
    called: list[Any] = []
    consumer = reading(simulation, tps[0], called.append)
    for number, record in enumerate(consumer, 1):
        assert record.value is None
        assert len(called) == number
        if number == 7:
            break
    assert consumer.position(tps[0]) == 7
    [rest] = consumer.poll(1_000).values()
    assert [record.offset for record in rest] == list(range(7, 20))
    assert len(called) == 20


def test_an_error_is_raised_at_its_record_and_again(
    simulation: Simulation, tps: list[TopicPartition]
) -> None:
    seen: list[int] = []
    consumer = reading(simulation, tps[0], lambda data: data)
    values = {record.offset: record.value for record in consumer}

    def refuse(data: bytes) -> bytes:
        if data == values[7]:
            raise KeyError("field")
        return data

    consumer = reading(simulation, tps[0], refuse)
    for _ in range(3):
        with pytest.raises(KeyError) as caught:  # noqa: PT012 - until it comes
            for record in consumer:
                seen.append(record.offset)  # noqa: PERF401 - until it raises
        assert isinstance(caught.value, RecordDeserializationError)
        assert (caught.value.offset, caught.value.value) == (7, values[7])
        assert consumer.position(tps[0]) == 7
    assert seen == list(range(7))
    with pytest.raises(KeyError):
        consumer.poll(1_000)
    consumer.seek(tps[0], 8)
    assert [record.offset for record in consumer] == list(range(8, 20))


@pytest.mark.skipif(not native_available, reason="the Python loop deserializes a run at once")
def test_a_deserializer_cannot_continue_the_loop(
    simulation: Simulation, tps: list[TopicPartition]
) -> None:
    consumer = reading(simulation, tps[0], lambda _: next(consumer))
    with pytest.raises(RecordDeserializationError) as caught:
        next(consumer)
    assert isinstance(caught.value, ConcurrentModificationError)
    assert consumer.position(tps[0]) == 0
