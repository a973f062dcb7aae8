"""`for record in consumer`: one record at a time; the position follows."""

from __future__ import annotations

import confluent_kafka
import pytest

from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.admin import Record
from tests.integration.polling import Clock, Consume, partitions_of, read_all, when_blocked
from tests.waiting import wait_until

pytestmark = pytest.mark.both_clusters


@pytest.fixture
def tp(topic: str) -> TopicPartition:
    return TopicPartition(topic, 0)


@pytest.fixture
def ten(kafka: RealKafka, consume: Consume, tp: TopicPartition) -> KafkaConsumer:
    """A consumer with ten records that stops after a second without one."""
    kafka.admin.produce(tp.topic, [b"%d" % number for number in range(10)])
    consumer = consume(consumer_timeout_ms=1_000)
    consumer.assign([tp])
    wait_for_data(consumer)
    return consumer


def wait_for_data(consumer: KafkaConsumer, chunks: int = 1) -> None:
    """Wait until data of so many fetches has arrived: a loop waits for a second only."""
    for tp in consumer.assignment():
        consumer.position(tp)
    wait_until(lambda: consumer._core.engine.buffer.added >= chunks, "the data")


def test_the_position_moves_with_each_record(tp: TopicPartition, ten: KafkaConsumer) -> None:
    for expected, record in enumerate(ten):
        assert record.offset == expected
        assert record.value == b"%d" % expected
        assert ten.position(tp) == expected + 1
        if expected == 9:
            break


def test_a_loop_ends_after_the_timeout_and_can_continue(
    kafka: RealKafka, tp: TopicPartition, ten: KafkaConsumer
) -> None:
    assert len(list(ten)) == 10
    clock = Clock()
    assert list(ten) == []
    assert clock.seconds > 0.9  # and nothing else would end it
    before = ten._core.engine.buffer.added
    kafka.admin.produce(tp.topic, [b"more"])
    wait_for_data(ten, before + 1)
    assert [record.value for record in ten] == [b"more"]


def test_a_loop_without_a_timeout_waits(
    consume: Consume, tp: TopicPartition, producer: confluent_kafka.Producer
) -> None:
    def produce() -> None:
        producer.produce(tp.topic, b"late")
        producer.flush(20)

    for timeout in (None, -1, float("inf")):
        consumer = consume(consumer_timeout_ms=timeout)
        consumer.assign([tp])
        consumer.seek_to_end(tp)
        consumer.position(tp)
        with when_blocked(consumer, produce):
            assert next(consumer).value == b"late"


def test_a_commit_covers_only_records_that_the_loop_received(
    kafka: RealKafka, consume: Consume, tp: TopicPartition
) -> None:
    kafka.admin.produce(tp.topic, [b"x"] * 10)
    group = f"group-of-{tp.topic}"
    look = consume(group_id=group)
    consumer = consume(tp.topic, group_id=group, enable_auto_commit=True)
    for record in consumer:
        if record.offset == 3:
            break
    consumer.commit()
    assert look.committed(tp) == 4
    assert next(consumer).offset == 4
    consumer.close()
    assert look.committed(tp) == 5


def test_auto_commit_covers_only_records_that_the_loop_received(
    kafka: RealKafka, consume: Consume, tp: TopicPartition
) -> None:
    """The poll() inside a loop commits; it must not count records that wait for the loop."""
    kafka.admin.produce(tp.topic, [b"x"] * 10)
    group = f"group-of-{tp.topic}"
    options = {"enable_auto_commit": True, "auto_commit_interval_ms": 1, "max_poll_records": 4}
    consumer = consume(tp.topic, group_id=group, **options)
    look = consume(group_id=group)
    for expected in range(10):
        assert next(consumer).offset == expected
        assert (look.committed(tp) or 0) <= expected


def test_a_seek_drops_records_that_wait_for_the_loop(
    tp: TopicPartition, ten: KafkaConsumer
) -> None:
    assert [next(ten).offset for _ in range(3)] == [0, 1, 2]
    ten.seek(tp, 8)
    assert [record.offset for record in ten] == [8, 9]
    ten.seek_to_beginning(tp)
    assert next(ten).offset == 0
    ten.seek(tp, 1)  # to its position: no record is lost or repeated
    assert next(ten).offset == 1


@pytest.mark.partitions(2)
def test_a_loop_continues_with_the_partitions_that_are_not_paused(
    kafka: RealKafka, topic: str, consume: Consume
) -> None:
    kafka.admin.produce(topic, [Record(b"x", partition=n % 2) for n in range(20)])
    first, second = partitions_of(topic, 2)
    consumer = consume(consumer_timeout_ms=1_000)
    consumer.assign([first, second])
    wait_for_data(consumer, 2)
    begun = next(consumer).partition
    other = 1 - begun
    consumer.pause(TopicPartition(topic, begun))
    assert [(r.partition, r.offset) for r in consumer] == [(other, n) for n in range(10)]
    assert consumer.position(TopicPartition(topic, begun)) == 1
    consumer.resume(TopicPartition(topic, begun))
    assert [(r.partition, r.offset) for r in consumer] == [(begun, n) for n in range(1, 10)]


def test_poll_continues_after_the_last_record_of_the_loop(
    tp: TopicPartition, ten: KafkaConsumer
) -> None:
    assert [next(ten).offset for _ in range(4)] == [0, 1, 2, 3]
    assert [record.offset for record in read_all(ten, 6)] == [4, 5, 6, 7, 8, 9]
    assert ten.position(tp) == 10


def test_poll_behind_a_loop_honours_max_records(ten: KafkaConsumer) -> None:
    assert next(ten).offset == 0
    batch = ten.poll(5_000, max_records=2)
    assert [record.offset for records in batch.values() for record in records] == [1, 2]
    assert [each.offset for each in batch.next_offsets.values()] == [3]
    assert next(ten).offset == 3
    assert [record.offset for record in read_all(ten, 6)] == [4, 5, 6, 7, 8, 9]


def test_unsubscribe_drops_records_that_wait_for_the_loop(
    tp: TopicPartition, ten: KafkaConsumer
) -> None:
    assert next(ten).offset == 0
    ten.unsubscribe()
    ten.assign([tp])
    assert [next(ten).offset for _ in range(2)] == [0, 1]


def test_a_closed_consumer_has_no_more_records(ten: KafkaConsumer) -> None:
    assert next(ten).offset == 0
    ten.close()
    assert list(ten) == []
    assert next(ten, None) is None
