"""Read, process, write: a transactional producer of kafka-python commits our offsets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from kafka import KafkaProducer

from tandem_kafka import OffsetAndMetadata, TopicPartition
from tandem_kafka.errors import KafkaError
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.admin import Record
from tests.integration.brokers import RealBrokers
from tests.integration.group_members import options_of
from tests.integration.groups.group_scenes import World
from tests.integration.polling import Consume, read_all
from tests.waiting import wait_until

pytestmark = pytest.mark.parametrize("protocol", ["eager", "consumer"])

Begin = Callable[[], Any]


@pytest.fixture
def begin(kafka: RealKafka, topic: str) -> Iterator[Begin]:
    """Makes a transactional producer that has begun a transaction."""
    made: list[Any] = []

    def make() -> Any:
        producer = KafkaProducer(
            bootstrap_servers=kafka.bootstrap(),
            transactional_id=f"writer-{topic}-{len(made)}",
            max_block_ms=30_000,
        )
        made.append(producer)
        producer.init_transactions()
        producer.begin_transaction()
        return producer

    yield make
    for producer in made:
        producer.close(timeout=10)


def test_records_and_offsets_are_committed_in_one_transaction(
    kafka: RealKafka, topic: str, consume: Consume, begin: Begin, protocol: str
) -> None:
    results = kafka.admin.create_topic(f"results-{topic}", 1)
    kafka.admin.produce(topic, [Record(b"%d" % n) for n in range(10)])
    options = {"group_id": topic, "isolation_level": "read_committed", **options_of(protocol)}
    tp, reader = TopicPartition(topic, 0), consume(isolation_level="read_committed")
    reader.assign([TopicPartition(results, 0)])
    for commit in (
        False,
        True,
    ):  # after an aborted transaction, the next member reads the records again
        consumer, producer = consume(topic, **options), begin()
        records = read_all(consumer, 10)
        for record in records:
            producer.send(results, b"twice " + record.value)
        read_to = {tp: OffsetAndMetadata(consumer.position(tp), "", -1)}
        producer.send_offsets_to_transaction(read_to, consumer.group_metadata())
        if commit:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
        consumer.close()
    assert [record.value for record in read_all(reader, 10)] == [
        b"twice %d" % number for number in range(10)
    ]
    assert reader.poll(500).count == 0
    assert consume(group_id=topic, isolation_level="read_committed").committed(tp) == 10


@pytest.mark.behaviour(99)
def test_a_transactional_commit_of_an_expelled_member_is_rejected(
    kafka: RealKafka, topic: str, consume: Consume, begin: Begin, protocol: str
) -> None:
    """Even if the member knows of its expulsion, its listener does not, and the group is empty."""
    kafka.admin.produce(topic, [Record(b"x")] * 3)
    tp = TopicPartition(topic, 0)
    consumer = consume(topic, group_id=topic, **options_of(protocol))
    read_all(consumer, 3)
    was = consumer.group_metadata()
    with closing(RealBrokers(kafka, consume)) as brokers:
        World(brokers).expel(consumer, protocol)
    wait_until(lambda: consumer.group_metadata().state == "<unjoined>", "the end of membership")
    assert consumer.group_metadata()[:4] == was[:4]
    offsets = {tp: OffsetAndMetadata(3, "", -1)}
    producer = begin()
    with pytest.raises(KafkaError):
        producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
    producer.abort_transaction()
    assert consume(group_id=topic).committed(tp) is None
    read_all(consumer, 3)  # it is a member again, and nothing was committed
    producer = begin()
    producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
    producer.commit_transaction()
    assert consume(group_id=topic, isolation_level="read_committed").committed(tp) == 3
