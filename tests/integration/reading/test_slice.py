"""The main use in one test: assign, poll, commit, and continue in another consumer."""

from __future__ import annotations

import confluent_kafka
import pytest

from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka_testing.kafka import RealKafka


def read(consumer: KafkaConsumer, count: int) -> list[bytes]:
    """Poll until `count` values were read (the timeout of the test limits it)."""
    values: list[bytes] = []
    while len(values) < count:
        for records in consumer.poll(timeout_ms=1_000).values():
            values += [record.value for record in records]
    return values


@pytest.mark.partitions(4)
@pytest.mark.smoke
def test_assign_poll_commit_and_continue(
    kafka: RealKafka, topic: str, producer: confluent_kafka.Producer
) -> None:
    sent = [f"{number}".encode() for number in range(1_000)]
    for number, value in enumerate(sent):
        producer.produce(topic, value, partition=number % 4)
    assert producer.flush(30) == 0
    partitions = [TopicPartition(topic, number) for number in range(4)]
    options = {"group_id": f"group-of-{topic}", "auto_offset_reset": "earliest"}

    with KafkaConsumer(
        bootstrap_servers=kafka.bootstrap(), enable_auto_commit=False, **options
    ) as first:
        first.assign(partitions)
        values = read(first, 600)
        first.commit()
        assert sum(first.committed(tp) for tp in partitions) == len(values)

    with KafkaConsumer(bootstrap_servers=kafka.bootstrap(), **options) as second:
        second.assign(partitions)
        values += read(second, 1_000 - len(values))

    assert sorted(values) == sorted(sent)
