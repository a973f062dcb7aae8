"""The environment of programs that run with `confluent_kafka` and `tandem_kafka.confluent`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import TopicPartition

from tandem_kafka_testing.kafka import RealKafka
from tests.parity.world import PATIENCE_S, KafkaWorld
from tests.waiting import until

__all__ = ["PATIENCE_S", "World", "comparable", "outcome"]


class World(KafkaWorld):
    """A topic, a group and consumers of one library.

    Attributes:
        api: `confluent_kafka` or `tandem_kafka.confluent`.
    """

    def __init__(self, api: Any, kafka: RealKafka) -> None:
        super().__init__(kafka)
        self.api = api

    def tp(self, partition: int = 0, offset: int | None = None, topic: str | None = None) -> Any:
        """Return a partition of the topic."""
        arguments = () if offset is None else (offset,)
        return self.api.TopicPartition(topic or self.topic, partition, *arguments)

    def consumer(self, *topics: str, **properties: Any) -> Any:
        """Return a consumer that starts at the first record, and is closed at the end of the test.

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

    def next(self, consumer: Any) -> Any:
        """Poll until there is a message or event; transient errors are skipped."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            message = consumer.poll(0.2)
            if message is not None and not _passing(message):
                return message
        raise AssertionError("no message arrived")

    def read(self, consumer: Any, count: int) -> list[Any]:
        """Poll until this number of records has arrived; events are skipped."""
        found: list[Any] = []
        while len(found) < count:
            message = self.next(consumer)
            if message.error() is None:
                found.append(message)
        return found

    def poll_until(self, consumer: Any, ready: Callable[[], object]) -> list[Any]:
        """Poll until `ready()`; return the messages."""
        found = []
        for _ in until(ready):
            message = consumer.poll(0.05)
            if message is not None and not _passing(message):
                found.append(message)
        return found

    def join(self, consumer: Any) -> None:
        """Poll until partitions are assigned."""
        assert not self.poll_until(consumer, consumer.assignment)


def _passing(message: Any) -> bool:
    """Return whether a message concerns a broker that has just started."""
    error = message.error()
    return error is not None and error.code() in (14, 15, 16)


def outcome(call: Callable[[], Any]) -> Any:
    """Return the result of a call, or the name and code of its exception."""
    try:
        return call()
    except Exception as error:  # noqa: BLE001 - what is raised is the result
        first = error.args[0] if error.args else None
        code = first.name() if hasattr(first, "name") else None
        return ("raised", type(error).__name__, code)


def comparable(value: Any) -> Any:  # noqa: PLR0911
    """Convert a value to a comparable form."""
    if isinstance(value, list | tuple):
        return type(value)(comparable(each) for each in value)
    if isinstance(value, dict):
        return {key: comparable(each) for key, each in value.items()}
    kind = type(value).__name__
    if isinstance(value, TopicPartition):
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
