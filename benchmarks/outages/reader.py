"""A process that reads all partitions of a topic, and prints the time of each read."""

from __future__ import annotations

import sys
import time
from typing import Any

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ConfluentPartition

from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka.errors import KafkaError

__all__ = ["CLIENTS"]


def say(partition: int, produced_ms: int) -> None:
    """Print a line for a read: the partition, the time of its last record, and the time now."""
    sys.stdout.write(f"{partition} {produced_ms} {time.time_ns()}\n")
    sys.stdout.flush()


def read_with_tandem(bootstrap: str, topic: str, partitions: int, password: str) -> None:
    """Poll forever."""
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_plain_username="admin",
        sasl_plain_password=password,
        auto_offset_reset="latest",
    )
    consumer.assign([TopicPartition(topic, number) for number in range(partitions)])
    while True:
        try:
            batch = consumer.poll(200)
        except KafkaError as error:
            sys.stderr.write(f"tandem: {error!r}\n")
            continue
        for tp, records in batch.items():
            say(tp.partition, records[-1].timestamp)


def read_with_confluent(bootstrap: str, topic: str, partitions: int, password: str) -> None:
    """Poll forever."""
    options: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "admin",
        "sasl.password": password,
        "group.id": "unused",
        "enable.auto.commit": False,
        "auto.offset.reset": "latest",
        "log_level": 0,
    }
    consumer = Consumer(options)
    consumer.assign([ConfluentPartition(topic, number) for number in range(partitions)])
    while True:
        messages = consumer.consume(500, 0.2)
        read = [m for m in messages if m.error() is None]
        for number, produced_ms in {m.partition(): m.timestamp()[1] for m in read}.items():
            if number is not None:
                say(number, produced_ms)


CLIENTS = {"tandem": read_with_tandem, "confluent": read_with_confluent}


if __name__ == "__main__":
    client, bootstrap, topic, partitions, password = sys.argv[1:]
    CLIENTS[client](bootstrap, topic, int(partitions), password)
