"""The common environment of all programs: a topic, a group, and consumers to close."""

from __future__ import annotations

import uuid
from typing import Any

from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.admin import Record

__all__ = ["PATIENCE_S", "KafkaWorld"]

PATIENCE_S = 60.0


class KafkaWorld:
    """A topic, a group, and the consumers of a program.

    Attributes:
        topic: A new topic with two partitions.
        group: The name of a new group.
    """

    def __init__(self, kafka: RealKafka) -> None:
        self.kafka = kafka
        self.group = f"group-{uuid.uuid4().hex[:8]}"
        self.topic = self.new_topic(2)
        self._consumers: list[Any] = []

    def new_topic(self, partitions: int = 1, name: str | None = None) -> str:
        """Create a topic."""
        return self.kafka.admin.create_topic(name or f"parity-{uuid.uuid4().hex[:8]}", partitions)

    def produce(self, *values: bytes | None, partition: int = 0, topic: str | None = None) -> None:
        """Write records."""
        records = [Record(value, partition=partition) for value in values]
        self.kafka.admin.produce(topic or self.topic, records)

    def close(self) -> None:
        """Close the consumers."""
        for consumer in self._consumers:
            consumer.close()
