"""Each client library on the simulated cluster and on a real one, with the same results."""

from __future__ import annotations

from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)
from kafka import KafkaAdminClient, OffsetAndMetadata
from kafka.admin import NewTopic as KafkaPythonNewTopic
from kafka.errors import KafkaError as KafkaPythonError
from kafka.errors import OffsetMetadataTooLargeError

from tandem_kafka import KafkaConsumer, KafkaProducer, TopicPartition
from tandem_kafka_testing.served import ServedKafka
from tests.served.clients import CONSUMERS, PRODUCERS, TIMEOUT_S, TRANSACTIONAL

#: The records of each producer.
COUNT = 20


def numbers(begin: int, count: int = COUNT) -> list[bytes]:
    return [b"%d" % number for number in range(begin, begin + count)]


def committed(cluster: ServedKafka, topic: str, group: str) -> int:
    """The sum of the committed offsets."""
    with KafkaConsumer(bootstrap_servers=cluster.bootstrap, group_id=group) as consumer:
        return sum(consumer.committed(TopicPartition(topic, number)) or 0 for number in range(2))


@pytest.mark.parametrize("producer", PRODUCERS)
def test_each_producer(cluster: ServedKafka, topic: str, producer: str) -> None:
    PRODUCERS[producer](cluster.bootstrap, topic, numbers(0))
    read = CONSUMERS["tandem-kafka, classic"](cluster.bootstrap, topic, topic, COUNT)
    assert sorted(read, key=int) == numbers(0)


@pytest.mark.parametrize("consumer", CONSUMERS)
def test_each_consumer(cluster: ServedKafka, topic: str, consumer: str) -> None:
    """In a group, of several producers, without what was aborted."""
    PRODUCERS["kafka-python"](cluster.bootstrap, topic, numbers(0))
    PRODUCERS["confluent-kafka"](cluster.bootstrap, topic, numbers(COUNT))
    TRANSACTIONAL["confluent-kafka"](cluster.bootstrap, topic, numbers(2 * COUNT), numbers(1_000))
    read = CONSUMERS[consumer](cluster.bootstrap, topic, topic, 3 * COUNT)
    assert sorted(read, key=int) == numbers(0, 3 * COUNT)
    assert committed(cluster, topic, topic) >= 3 * COUNT


@pytest.mark.parametrize("producer", TRANSACTIONAL)
def test_each_transactional_producer(cluster: ServedKafka, topic: str, producer: str) -> None:
    TRANSACTIONAL[producer](cluster.bootstrap, topic, numbers(0), numbers(1_000))
    TRANSACTIONAL[producer](cluster.bootstrap, topic, numbers(COUNT), numbers(2_000))
    read = CONSUMERS["tandem-kafka, kip-848"](cluster.bootstrap, topic, topic, 2 * COUNT)
    assert sorted(read, key=int) == numbers(0, 2 * COUNT)


def test_all_offsets_of_a_group(cluster: ServedKafka, topic: str) -> None:
    """A request without partitions is answered with those that have a commit."""
    cluster.produce(topic, *numbers(0), partition=1)
    with KafkaConsumer(bootstrap_servers=cluster.bootstrap, group_id=topic) as consumer:
        consumer.commit({TopicPartition(topic, 1): OffsetAndMetadata(7, "seven", -1)})
    kafka_python = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    try:
        (offsets,) = kafka_python.list_group_offsets([topic]).values()
        assert {tp: (at.offset, at.metadata) for tp, at in offsets.items()} == {
            TopicPartition(topic, 1): (7, "seven")
        }
    finally:
        kafka_python.close()
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    future = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(topic)])[topic]
    (found,) = future.result(TIMEOUT_S).topic_partitions
    assert (found.topic, found.partition, found.offset) == (topic, 1, 7)


def test_metadata_that_is_too_long_is_not_committed(cluster: ServedKafka, topic: str) -> None:
    tps = [TopicPartition(topic, number) for number in range(2)]
    with KafkaConsumer(bootstrap_servers=cluster.bootstrap, group_id=topic) as consumer:
        commits = {tps[0]: OffsetAndMetadata(1, "m" * 4_097, -1), tps[1]: OffsetAndMetadata(1)}
        with pytest.raises(OffsetMetadataTooLargeError):
            consumer.commit(commits)
        assert [consumer.committed(tp) for tp in tps] == [None, 1]
        consumer.commit({tps[0]: OffsetAndMetadata(1, "m" * 4_096, -1)})
        assert consumer.committed(tps[0]) == 1


@pytest.mark.parametrize("name", ["a b", "..", "n" * 250])
def test_a_topic_that_cannot_exist(cluster: ServedKafka, name: str) -> None:
    client = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    described = client.list_topics(name, TIMEOUT_S).topics[name]
    assert described.error is not None
    assert described.error.code() == confluent_kafka.KafkaError.TOPIC_EXCEPTION


def test_offsets_in_a_transaction(cluster: ServedKafka, topic: str) -> None:
    PRODUCERS["kafka-python"](cluster.bootstrap, topic, numbers(0))
    options: dict[str, Any] = {"group_id": topic, "auto_offset_reset": "earliest"}
    with (
        KafkaConsumer(topic, bootstrap_servers=cluster.bootstrap, **options) as consumer,
        KafkaProducer(bootstrap_servers=cluster.bootstrap, transactional_id=topic) as producer,
    ):
        producer.init_transactions()
        read = 0
        while read < COUNT:
            read += consumer.poll(TIMEOUT_S * 1_000).count
        offsets = {
            tp: OffsetAndMetadata(consumer.position(tp), "", -1) for tp in consumer.assignment()
        }
        for end in (producer.abort_transaction, producer.commit_transaction):
            assert committed(cluster, topic, topic) == 0
            producer.begin_transaction()
            producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
            end()
    assert committed(cluster, topic, topic) == COUNT


def test_a_second_producer_fences_the_first(cluster: ServedKafka, topic: str) -> None:
    options = {"bootstrap_servers": cluster.bootstrap, "transactional_id": topic}
    with KafkaProducer(**options) as first, KafkaProducer(**options) as second:
        first.init_transactions()
        first.begin_transaction()
        first.send(topic, b"lost").get(TIMEOUT_S)
        second.init_transactions()
        second.begin_transaction()
        second.send(topic, b"1").get(TIMEOUT_S)
        second.commit_transaction()
        # At the end: a producer that is fenced asks for a new epoch, which can fence the other one.
        with pytest.raises(KafkaPythonError):
            first.send(topic, b"late").get(TIMEOUT_S)
    assert CONSUMERS["tandem-kafka, classic"](cluster.bootstrap, topic, topic, 1) == [b"1"]


def test_the_administrator_of_confluent_kafka(cluster: ServedKafka, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    name = f"{topic}-more"

    def done(futures: dict[Any, Any]) -> list[Any]:
        return [future.result(TIMEOUT_S) for future in futures.values()]

    done(admin.create_topics([NewTopic(name, 2, 1, config={"retention.ms": "1000"})]))
    with pytest.raises(confluent_kafka.KafkaException, match="already exists"):
        done(admin.create_topics([NewTopic(name, 2, 1)]))
    with pytest.raises(confluent_kafka.KafkaException, match="Unknown topic config name"):
        done(admin.create_topics([NewTopic(f"{name}-2", 1, 1, config={"retention": "1"})]))
    done(admin.create_partitions([NewPartitions(name, 3)]))
    assert len(admin.list_topics(name, timeout=TIMEOUT_S).topics[name].partitions) == 3

    def retention() -> str:
        (found,) = done(admin.describe_configs([ConfigResource(ResourceType.TOPIC, name)]))
        return str(found["retention.ms"].value)

    assert retention() == "1000"
    change = ConfigEntry("retention.ms", "2000", incremental_operation=AlterConfigOpType.SET)
    done(
        admin.incremental_alter_configs(
            [ConfigResource(ResourceType.TOPIC, name, incremental_configs=[change])]
        )
    )
    assert retention() == "2000"

    PRODUCERS["kafka-python"](cluster.bootstrap, name, numbers(0))
    CONSUMERS["confluent-kafka, classic"](cluster.bootstrap, name, name, COUNT)
    listed = admin.list_consumer_groups(request_timeout=TIMEOUT_S).result(TIMEOUT_S)
    assert name in {group.group_id for group in listed.valid}
    (described,) = done(admin.describe_consumer_groups([name], request_timeout=TIMEOUT_S))
    assert (described.state.name, described.members) == ("EMPTY", [])
    done(admin.delete_consumer_groups([name], request_timeout=TIMEOUT_S))
    listed = admin.list_consumer_groups(request_timeout=TIMEOUT_S).result(TIMEOUT_S)
    assert name not in {group.group_id for group in listed.valid}
    (deleted,) = done(
        admin.delete_records([confluent_kafka.TopicPartition(name, 0, confluent_kafka.OFFSET_END)])
    )
    consumer = confluent_kafka.Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "-"})
    assert consumer.get_watermark_offsets(confluent_kafka.TopicPartition(name, 0), TIMEOUT_S) == (
        deleted.low_watermark,
        deleted.low_watermark,
    )
    consumer.close()
    done(admin.delete_topics([name], operation_timeout=TIMEOUT_S))
    assert name not in admin.list_topics(timeout=TIMEOUT_S).topics
    assert admin.describe_cluster().result(TIMEOUT_S).nodes


def test_the_administrator_of_kafka_python(cluster: ServedKafka, topic: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    name = f"{topic}-more"
    try:
        admin.create_topics([KafkaPythonNewTopic(name, 2, 1)])
        assert name in admin.list_topics()
        PRODUCERS["kafka-python"](cluster.bootstrap, name, numbers(0))
        CONSUMERS["kafka-python"](cluster.bootstrap, name, name, COUNT)
        listed = admin.list_groups()
        assert name in {group["group_id"] for group in listed}
        admin.delete_topics([name])
        assert name not in admin.list_topics()
    finally:
        admin.close()
