"""The topics, groups and consumers of programs that run with two libraries.

`World` is for programs of kafka-python. `confluent_world.py` has the one for those of confluent.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.admin import Record
from tests.waiting import until

__all__ = ["PATIENCE_S", "KafkaWorld", "Raised", "World", "agree", "outcome"]

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


@dataclass(frozen=True)
class Raised:
    """The exception of a call."""

    error: BaseException


class World(KafkaWorld):
    """A topic, a group and consumers of one class.

    Attributes:
        consumer_class: kafka-python's `KafkaConsumer`, or ours.
    """

    def __init__(self, consumer_class: Any, kafka: RealKafka) -> None:
        super().__init__(kafka)
        self.consumer_class = consumer_class

    def consumer(self, *topics: str, **options: Any) -> Any:
        """Return a consumer that starts at the first record, and is closed after the test."""
        options = {
            "bootstrap_servers": self.kafka.bootstrap(),
            "auto_offset_reset": "earliest",
            **options,
        }
        consumer = self.consumer_class(*topics, **options)
        self._consumers.append(consumer)
        return consumer

    def read(self, consumer: Any, count: int) -> list[Any]:
        """Poll until this number of records has arrived."""
        records: list[Any] = []
        for _ in until(lambda: len(records) >= count, lambda: f"only {len(records)} of {count}"):
            for some in consumer.poll(200).values():
                records.extend(some)
        return records

    def poll_until(self, consumer: Any, ready: Callable[[], object]) -> None:
        """Poll until `ready()`."""
        for _ in until(ready):
            consumer.poll(500)


def outcome(call: Callable[[], Any]) -> Any:
    """Return the result of a call, or `Raised`."""
    try:
        return call()
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return Raised(error)


def agree(ours: Any, theirs: Any) -> bool:
    """Return whether a program that expects the result `theirs` works with `ours`."""
    if isinstance(theirs, Raised):
        return isinstance(ours, Raised) and isinstance(ours.error, type(theirs.error))
    if isinstance(theirs, Mapping):
        return (
            isinstance(ours, Mapping)
            and ours.keys() == theirs.keys()
            and all(agree(ours[key], theirs[key]) for key in theirs)
        )
    if isinstance(theirs, list | tuple):
        return (
            isinstance(ours, Iterable)
            and len(ours) == len(theirs)  # type: ignore[arg-type]
            and all(agree(a, b) for a, b in zip(ours, theirs, strict=True))
        )
    return bool(ours == theirs)
