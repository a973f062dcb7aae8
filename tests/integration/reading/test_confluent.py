"""The consumer of `tandem_kafka.confluent` beside other members of its group."""

from __future__ import annotations

import importlib
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

import tandem_kafka
from tandem_kafka.confluent import Consumer
from tandem_kafka_testing.kafka import RealKafka
from tests.alarms import alarms
from tests.unit.interrupts import UNAWAITED, coroutines_end_here
from tests.waiting import wait_until

__all__ = ["coroutines_end_here"]

COOPERATIVE = {
    "partition.assignment.strategy": "cooperative-sticky",
    "session.timeout.ms": 6_000,
    "heartbeat.interval.ms": 500,
}


@pytest.fixture
def make(kafka: RealKafka, topic: str, request: pytest.FixtureRequest) -> Callable[..., Any]:
    def made(**callbacks: Any) -> Consumer:
        consumer = Consumer(
            {
                "bootstrap.servers": kafka.bootstrap(),
                "group.id": topic,
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": 200,
                **COOPERATIVE,
            }
        )
        consumer.subscribe([topic], **callbacks)
        request.addfinalizer(consumer.close)
        return consumer

    return made


def joined(consumer: Consumer, partitions: int) -> Consumer:
    def assigned() -> bool:
        consumer.poll(0.1)
        return len(consumer.assignment()) == partitions

    wait_until(assigned)
    return consumer


@pytest.mark.partitions(2)
def test_a_list_that_is_collected_is_neither_committed_nor_kept(
    make: Callable[..., Consumer], topic: str, producer: Any
) -> None:
    """While one call collects, records arrive, the interval passes, and a partition is revoked."""
    revoked: list[TopicPartition] = []
    collecting = joined(make(on_revoke=lambda _, partitions: revoked.extend(partitions)), 2)
    found: list[Any] = []
    # It ends with the last record that this test writes.
    thread = threading.Thread(target=lambda: found.extend(collecting.consume(150, 120)))
    thread.start()
    for partition in (0, 1):
        for number in range(50):
            producer.produce(topic, b"%d" % number, partition=partition)
    producer.flush()
    other = make()
    seen: list[int] = []

    def taken_over() -> bool:
        message = other.poll(0.1)
        if message is not None and message.error() is None:
            seen.append(message.offset() or 0)
        return len(seen) == 50

    wait_until(taken_over)
    both = [TopicPartition(topic, number) for number in (0, 1)]
    kept = 1 - revoked[0].partition
    assert thread.is_alive()
    assert other.committed(both, timeout=60)[kept].offset < 0
    for number in range(50, 150):
        producer.produce(topic, b"%d" % number, partition=kept)
    producer.flush()
    thread.join()
    assert seen == list(range(50))
    assert [(each.partition(), each.offset()) for each in found] == [(kept, n) for n in range(150)]


@UNAWAITED
def test_signals_lose_nothing(make: Callable[..., Consumer], topic: str, producer: Any) -> None:
    """Hundreds of signals a second, whose handler raises wherever the consumer's code runs."""
    for number in range(6_000):
        producer.produce(topic, b"%d" % number)
    producer.flush()
    consumer, inside = joined(make(), 1), str(Path(tandem_kafka.__file__).parent)
    raised, seen, random = 0, [], Random(1)  # noqa: S311 - no secret

    def handle(_: int, frame: FrameType | None) -> None:
        # Sometimes late enough that the records of a fetch are taken from it.
        signal.setitimer(signal.ITIMER_REAL, random.expovariate(1 / 0.002))
        if frame is not None and frame.f_code.co_filename.startswith(inside):
            raise InterruptedError

    with alarms(handle):
        signal.setitimer(signal.ITIMER_REAL, 0.001)
        began = time.monotonic()
        while len(seen) < 5_000 or raised < 20:
            assert time.monotonic() - began < 120, f"{len(seen)} records, {raised} signals"
            try:
                message = consumer.poll(0.1) if len(seen) % 1_000 < 500 else None
                messages = [message] if message is not None else consumer.consume(50, 0.1)
            except InterruptedError:
                raised += 1
                continue
            seen += [each.offset() for each in messages]
    assert seen == list(range(seen[0], seen[0] + len(seen)))


@pytest.mark.parametrize("library", ["confluent_kafka", "tandem_kafka.confluent"])
def test_a_partition_without_a_position_is_reported(
    kafka: RealKafka, topic: str, producer: Any, library: str
) -> None:
    producer.produce(topic, b"v")
    producer.flush()
    consumer = importlib.import_module(library).Consumer(
        {
            "bootstrap.servers": kafka.bootstrap(),
            "group.id": f"{topic}-{library}",
            "auto.offset.reset": "error",
        }
    )
    try:
        consumer.subscribe([topic])
        found: list[Any] = []
        wait_until(lambda: found.append(consumer.poll(0.5)) or found[-1] is not None)
        assert found[-1].error().code() == KafkaError._AUTO_OFFSET_RESET
        assert found[-1].topic() == topic
    finally:
        consumer.close()


@pytest.mark.parametrize("library", ["confluent_kafka", "tandem_kafka.confluent"])
def test_a_commit_of_a_deleted_topic_fails_at_once_but_for_the_others(
    kafka: RealKafka, topic: str, library: str
) -> None:
    gone = kafka.admin.new_topic(topic)
    properties = {"bootstrap.servers": kafka.bootstrap(), "group.id": f"{topic}-{library}"}
    consumer = importlib.import_module(library).Consumer(properties)
    try:
        consumer.subscribe([topic, gone])
        joined(consumer, 2)
        kafka.admin.delete_topic(gone)
        offsets = [TopicPartition(topic, 0, 2), TopicPartition(gone, 0, 3)]
        wait_until(lambda: _outcome(consumer, offsets) == KafkaError.UNKNOWN_TOPIC_OR_PART)
        began = time.monotonic()
        assert _outcome(consumer, offsets) == KafkaError.UNKNOWN_TOPIC_OR_PART
        assert time.monotonic() - began < 30, "not the minute of commit() of KafkaConsumer"
        assert [each.offset for each in consumer.committed([TopicPartition(topic, 0)])] == [2]
    finally:
        consumer.close()


def _outcome(consumer: Any, offsets: list[TopicPartition]) -> int | None:
    """Commit; return the code of the error."""
    try:
        consumer.commit(offsets=offsets, asynchronous=False)
    except KafkaException as error:
        return int(error.args[0].code())
    return None
