"""What a program needs that runs with `confluent_kafka` and with `tandem_kafka.confluent`."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import Any

from tests.kafka.admin import Record
from tests.kafka.broker import KafkaCluster

__all__ = ["PATIENCE_S", "World", "outcome", "shown"]

PATIENCE_S = 60.0


class World:
    """A topic, a group and consumers of one library.

    Attributes:
        api: `confluent_kafka` or `tandem_kafka.confluent`.
        topic: A new topic of two partitions.
        group: The name of a group that nobody has used.
    """

    def __init__(self, api: Any, kafka: KafkaCluster) -> None:
        self.api = api
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

    def tp(self, partition: int = 0, offset: int | None = None, topic: str | None = None) -> Any:
        """Return a partition of the topic."""
        arguments = () if offset is None else (offset,)
        return self.api.TopicPartition(topic or self.topic, partition, *arguments)

    def consumer(self, *topics: str, **properties: Any) -> Any:
        """Return a consumer that is closed in the end; it begins at the first record.

        Properties are written with underscores for dots.
        """
        config = {
            "bootstrap.servers": self.kafka.bootstrap(),
            "group.id": self.group,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": "10000",
            **{self._name(name): value for name, value in properties.items()},
        }
        kind = config.pop("kind", self.api.Consumer)
        consumer = kind({name: value for name, value in config.items() if value is not None})
        self._consumers.append(consumer)
        if topics:
            consumer.subscribe(list(topics))
        return consumer

    @staticmethod
    def _name(name: str) -> str:
        return name if name.endswith("_cb") or name == "on_commit" else name.replace("_", ".")

    def close(self) -> None:
        """Close the consumers."""
        for consumer in self._consumers:
            consumer.close()

    def next(self, consumer: Any) -> Any:
        """Poll until there is a message or event; errors that pass are left out."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            message = consumer.poll(0.2)
            if message is not None and not _passing(message):
                return message
        raise AssertionError("no message came")

    def read(self, consumer: Any, count: int) -> list[Any]:
        """Poll until so many records came, events aside."""
        found: list[Any] = []
        while len(found) < count:
            message = self.next(consumer)
            if message.error() is None:
                found.append(message)
        return found

    def poll_until(self, consumer: Any, ready: Callable[[], object]) -> list[Any]:
        """Poll until `ready()`; return what came."""
        end = time.monotonic() + PATIENCE_S
        found = []
        while not ready():
            assert time.monotonic() < end, "polled in vain"
            message = consumer.poll(0.05)
            if message is not None and not _passing(message):
                found.append(message)
        return found

    def join(self, consumer: Any) -> None:
        """Poll until partitions are assigned."""
        assert not self.poll_until(consumer, consumer.assignment)


def _passing(message: Any) -> bool:
    """Tell whether a message is about a broker that has just started."""
    error = message.error()
    return error is not None and error.code() in (14, 15, 16)


def outcome(call: Callable[[], Any]) -> Any:
    """Return what a call returns, or the name of what it raises, with the error's code."""
    try:
        return call()
    except Exception as error:  # noqa: BLE001 - what is raised is the result
        first = error.args[0] if error.args else None
        code = first.name() if hasattr(first, "name") else None
        return ("raised", type(error).__name__, code)


def shown(value: Any) -> Any:  # noqa: PLR0911
    """Return a value in a form that can be compared."""
    if isinstance(value, list | tuple):
        return type(value)(shown(each) for each in value)
    if isinstance(value, dict):
        return {key: shown(each) for key, each in value.items()}
    kind = type(value).__name__
    if kind == "TopicPartition":
        error = None if value.error is None else value.error.name()
        return (value.topic, value.partition, value.offset, value.metadata, error)
    if kind == "KafkaError":
        return (value.name(), value.fatal())
    if kind == "Message":
        error = value.error()
        if error is not None:
            return ("event", error.name(), value.topic(), value.partition(), value.offset())
        return (value.topic(), value.partition(), value.offset(), value.key(), value.value())
    return value
