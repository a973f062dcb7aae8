"""What a program needs that runs with kafka-python's consumer and with ours."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.kafka.admin import Record
from tests.kafka.broker import KafkaCluster

__all__ = ["PATIENCE_S", "Raised", "World", "agree", "outcome"]

PATIENCE_S = 60.0


@dataclass(frozen=True)
class Raised:
    """What a call raised instead of returning."""

    error: BaseException


class World:
    """A topic, a group and consumers of one class.

    Attributes:
        consumer_class: kafka-python's `KafkaConsumer`, or ours.
        topic: A new topic of two partitions.
        group: The name of a group that nobody has used.
    """

    def __init__(self, consumer_class: Any, kafka: KafkaCluster) -> None:
        self.consumer_class = consumer_class
        self.kafka = kafka
        self.group = f"group-{uuid.uuid4().hex[:8]}"
        self.topic = self.new_topic(2)
        self._consumers: list[Any] = []

    def new_topic(self, partitions: int = 1, name: str | None = None) -> str:
        """Create a topic."""
        return self.kafka.admin.create_topic(name or f"parity-{uuid.uuid4().hex[:8]}", partitions)

    def produce(self, *values: bytes, partition: int = 0, topic: str | None = None) -> None:
        """Write records."""
        records = [Record(value, partition=partition) for value in values]
        self.kafka.admin.produce(topic or self.topic, records)

    def consumer(self, *topics: str, **options: Any) -> Any:
        """Return a consumer that is closed in the end; it begins at the first record."""
        options = {
            "bootstrap_servers": self.kafka.bootstrap(),
            "auto_offset_reset": "earliest",
            **options,
        }
        consumer = self.consumer_class(*topics, **options)
        self._consumers.append(consumer)
        return consumer

    def close(self) -> None:
        """Close the consumers."""
        for consumer in self._consumers:
            consumer.close()

    def read(self, consumer: Any, count: int) -> list[Any]:
        """Poll until so many records came."""
        records: list[Any] = []
        end = time.monotonic() + PATIENCE_S
        while len(records) < count:
            assert time.monotonic() < end, f"only {len(records)} of {count} records came"
            for some in consumer.poll(200).values():
                records += some
        return records

    def poll_until(self, consumer: Any, ready: Callable[[], object]) -> None:
        """Poll until `ready()`."""
        end = time.monotonic() + PATIENCE_S
        while not ready():
            assert time.monotonic() < end, "polled in vain"
            consumer.poll(50)

    def wait_until(self, ready: Callable[[], object]) -> None:
        """Look again and again, without a call of a consumer."""
        end = time.monotonic() + PATIENCE_S
        while not ready():
            assert time.monotonic() < end, "waited in vain"
            time.sleep(0.01)


def outcome(call: Callable[[], Any]) -> Any:
    """Return what a call returns, or `Raised`."""
    try:
        return call()
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return Raised(error)


def agree(ours: Any, theirs: Any) -> bool:
    """Tell whether a program that knows `theirs` gets on with `ours`."""
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
