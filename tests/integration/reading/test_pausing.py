"""Paused partitions: fetched records are kept, other partitions continue."""

from __future__ import annotations

from typing import Any

import pytest

from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.admin import Record
from tests.integration.polling import Clock, Consume, cpu_share, partitions_of, poll_until, read_all
from tests.integration.watching import Sent
from tests.waiting import wait_until

pytestmark = pytest.mark.both_clusters


def half_read(consumer: KafkaConsumer, tp: TopicPartition) -> Sent:
    """Take some of a partition's 100 records, with all of them fetched; then pause it."""
    sent = Sent(consumer)
    consumer.assign([tp])
    assert [record.offset for record in read_all(consumer, 10)] == list(range(10))
    consumer.pause(tp)
    assert consumer.paused() == {tp}
    return sent


@pytest.mark.full("it measures CPU time")
@pytest.mark.behaviour(26)
def test_a_poll_with_all_partitions_paused_uses_no_cpu(
    kafka: RealKafka, topic: str, consume: Consume
) -> None:
    kafka.admin.produce(topic, [b"x"] * 100)
    tp = TopicPartition(topic, 0)
    consumer = consume(max_poll_records=10)
    half_read(consumer, tp)
    clock = Clock()
    assert cpu_share(lambda: consumer.poll(timeout_ms=1_000)) < 0.2
    assert clock.seconds >= 0.99
    assert clock.within(10)
    assert consumer.position(tp) == 10


@pytest.mark.behaviour(156)
def test_a_seek_while_paused_drops_buffered_records(
    kafka: RealKafka, topic: str, consume: Consume
) -> None:
    kafka.admin.produce(topic, [b"x"] * 100)
    tp = TopicPartition(topic, 0)
    consumer = consume(max_poll_records=10)
    half_read(consumer, tp)
    consumer.seek(tp, 50)
    assert consumer.poll(timeout_ms=200) == {}
    consumer.resume(tp)
    assert [record.offset for record in read_all(consumer, 50)] == list(range(50, 100))


@pytest.mark.parametrize("times", [1, 20])
def test_pausing_between_polls_neither_loses_nor_doubles(
    kafka: RealKafka, topic: str, consume: Consume, times: int
) -> None:
    kafka.admin.produce(topic, [b"x" * 100] * 1_000)
    tp = TopicPartition(topic, 0)
    consumer = consume(max_poll_records=30, max_partition_fetch_bytes=5_000)
    consumer.assign([tp])
    offsets: list[int] = []
    while len(offsets) < 1_000:
        for _ in range(times):
            consumer.pause(tp)
            assert consumer.poll(timeout_ms=0) == {}
            consumer.resume(tp)
        offsets += [record.offset for record in consumer.poll(timeout_ms=500).get(tp, ())]
    assert offsets == list(range(1_000))


@pytest.mark.behaviour(155)
@pytest.mark.partitions(2)
@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="room"),
        pytest.param(
            {"fetch_buffer_max_bytes": 50_000, "max_partition_fetch_bytes": 50_000}, id="no-room"
        ),
    ],
)
def test_a_paused_partition_with_data_does_not_block_others(
    kafka: RealKafka, topic: str, consume: Consume, options: dict[str, Any]
) -> None:
    paused, other = partitions_of(topic, 2)
    records = [Record(b"x" * 1_000, partition=part) for part in (0, 1) for _ in range(300)]
    kafka.admin.produce(topic, records, {"batch.size": 10_000})
    consumer = consume(max_poll_records=10, **options)
    consumer.assign([paused, other])
    consumer.pause(other)
    read_all(consumer, 10)
    state = consumer._core.engine.subscription.assigned[paused]
    wait_until(lambda: state.held_bytes >= 45_000, "a full buffer")
    consumer.pause(paused)
    consumer.resume(other)
    got = poll_until(consumer, lambda: consumer.position(other) == 300)
    assert [record.offset for record in got] == list(range(300))
    consumer.resume(paused)
    got = poll_until(consumer, lambda: consumer.position(paused) == 300)
    assert [record.offset for record in got] == list(range(10, 300))


@pytest.mark.behaviour(155)
@pytest.mark.partitions(2)
def test_data_of_an_unassigned_partition_does_not_block_others(
    kafka: RealKafka, topic: str, consume: Consume
) -> None:
    gone, other = partitions_of(topic, 2)
    records = [Record(b"x" * 1_000, partition=part) for part in (0, 1) for _ in range(300)]
    kafka.admin.produce(topic, records, {"batch.size": 10_000})
    consumer = consume(
        max_poll_records=10, fetch_buffer_max_bytes=50_000, max_partition_fetch_bytes=50_000
    )
    consumer.assign([gone])
    read_all(consumer, 10)
    consumer.assign([other])
    assert {record.partition for record in read_all(consumer, 300)} == {1}
    assert consumer._core.engine.buffer.held_bytes == 0


@pytest.mark.behaviour(155)
@pytest.mark.partitions(2)
def test_a_partition_without_a_position_does_not_block_others(
    kafka: RealKafka, topic: str, consume: Consume
) -> None:
    """A partition that does not exist never gets one."""
    kafka.admin.produce(topic, [b"x"] * 20)
    consumer = consume()
    consumer.assign([TopicPartition(topic, 0), TopicPartition(topic, 7)])
    assert [record.offset for record in read_all(consumer, 20)] == list(range(20))
