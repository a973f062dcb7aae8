"""Programs for `confluent_kafka`'s consumer and ours: its other classes beside the consumer."""

from __future__ import annotations

from typing import Any

import confluent_kafka
import confluent_kafka.admin

from tests.parity.confluent_world import World, comparable

__all__ = ["PROGRAMS"]


def metadata_of_commits(world: World) -> Any:
    """Empty metadata and none are different."""
    consumer = world.consumer()
    found = []
    for metadata in ("", "mine", None):
        given = {} if metadata is None else {"metadata": metadata}
        offsets = [world.api.TopicPartition(world.topic, 0, 1, **given)]
        found += consumer.commit(offsets=offsets, asynchronous=False)
        found += consumer.committed([world.tp()], timeout=10)
    return comparable(found)


def classes_of_confluent_kafka(world: World) -> Any:
    """What other parts of confluent_kafka take and give works with the consumer."""
    world.produce(*[b"%d" % n for n in range(5)])
    consumer = world.consumer(enable_auto_commit=False)
    consumer.assign([confluent_kafka.TopicPartition(world.topic, 0, 2)])
    (message,) = world.read(consumer, 1)
    try:
        consumer.seek(confluent_kafka.TopicPartition(world.topic, 9, 1))
    except confluent_kafka.KafkaException as error:
        raised = error.args[0] == confluent_kafka.KafkaError._STATE
    consumer.commit(message=message, asynchronous=False)
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": world.kafka.bootstrap()})
    group = confluent_kafka.ConsumerGroupTopicPartitions(world.group)
    (future,) = admin.list_consumer_group_offsets([group]).values()
    consumer.assign(future.result(30).topic_partitions)
    again = comparable(world.read(consumer, 1))
    producer = confluent_kafka.Producer({"bootstrap.servers": world.kafka.bootstrap()})
    producer.produce(world.topic, message.value(), headers=message.headers(), partition=1)
    topics = consumer.list_topics(timeout=10)
    return (
        raised,
        again,
        producer.flush(30),
        isinstance(message, confluent_kafka.Message),
        isinstance(topics, confluent_kafka.admin.ClusterMetadata),
    )


def offsets_in_a_transaction(world: World) -> Any:
    """A transactional producer accepts consumer_group_metadata()."""
    world.produce(b"a", b"b", b"c")
    consumer = world.consumer(world.topic, enable_auto_commit=False)
    world.read(consumer, 2)
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": world.kafka.bootstrap(), "transactional.id": world.group}
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.send_offsets_to_transaction(
        consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), 30
    )
    producer.commit_transaction(30)
    return comparable(consumer.committed([world.tp()], timeout=10))


PROGRAMS = (
    metadata_of_commits,
    classes_of_confluent_kafka,
    offsets_in_a_transaction,
)
