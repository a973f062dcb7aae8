"""What a program needs that runs with kafka-python's consumer and with ours."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.kafka.broker import KafkaCluster
from tests.parity.kafka_world import PATIENCE_S, KafkaWorld

__all__ = ["PATIENCE_S", "Raised", "World", "agree", "outcome"]


@dataclass(frozen=True)
class Raised:
    """What a call raised instead of returning."""

    error: BaseException


class World(KafkaWorld):
    """A topic, a group and consumers of one class.

    Attributes:
        consumer_class: kafka-python's `KafkaConsumer`, or ours.
    """

    def __init__(self, consumer_class: Any, kafka: KafkaCluster) -> None:
        super().__init__(kafka)
        self.consumer_class = consumer_class

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
            consumer.poll(500)

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
