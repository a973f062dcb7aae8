"""Consumers of `tandem_kafka.confluent` on the simulation."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Message

from tandem_kafka.confluent import Consumer
from tandem_kafka.confluent.configuration import settings_from
from tandem_kafka.runtime import Runtime
from tandem_kafka_testing import Simulation

__all__ = ["offsets", "polled", "simulated"]


def simulated(simulation: Simulation, **properties: Any) -> Consumer:
    """Return a consumer that reads from the beginning; `__` stands for a dot."""
    config = {"group.id": "g", "auto.offset.reset": "earliest"}
    config |= {name.replace("__", "."): value for name, value in properties.items()}
    settings = settings_from(config)
    options = {name: v for name, v in settings.options.items() if name != "bootstrap_servers"}
    kafka = simulation.consumer(**options)
    consumer = Consumer.__new__(Consumer)
    core = kafka._core
    consumer._begin(kafka, settings, Runtime(core.clock, core.driver))
    return consumer


def polled(consumer: Consumer, count: int, timeout: float = 5.0) -> list[Message[bytes, bytes]]:
    """Poll until this number of messages has come; fewer after the timeout."""
    found: list[Message[bytes, bytes]] = []
    while len(found) < count:
        message = consumer.poll(timeout)
        if message is None:
            break
        found.append(message)
    return found


def offsets(messages: list[Message[bytes, bytes]]) -> list[tuple[int | None, int | None]]:
    """Return the partitions and offsets of messages."""
    return [(message.partition(), message.offset()) for message in messages]
