"""The topics that are read: written once, uncompressed, evenly over the partitions."""

from __future__ import annotations

import os

from confluent_kafka import Producer

from benchmarks.readers.base import Source
from tests.kafka.broker import KafkaCluster

__all__ = ["PARTITIONS", "empty_topic", "filled_topic"]

PARTITIONS = 4
_FLUSH_S = 120.0


def empty_topic(cluster: KafkaCluster, name: str, *, eager: bool = False) -> Source:
    """A new topic without records; read from its end."""
    cluster.admin.create_topic(name, PARTITIONS)
    return Source(cluster.bootstrap(), name, PARTITIONS, from_end=True, eager=eager)


def filled_topic(cluster: KafkaCluster, size: int, count: int, batch_bytes: int) -> Source:
    """A topic with `count` records, whose values have `size` bytes."""
    name = cluster.admin.create_topic(f"values-of-{size}-bytes", PARTITIONS)
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap(),
            "linger.ms": 50,
            "batch.size": batch_bytes,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    values = [os.urandom(size) for _ in range(997)]
    for number in range(count):
        value = values[number % len(values)]
        while True:
            try:
                producer.produce(name, value=value, partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(_FLUSH_S):
        raise TimeoutError(f"{name} could not be filled")
    return Source(cluster.bootstrap(), name, PARTITIONS)
