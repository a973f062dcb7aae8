"""Putting this consumer in the place of kafka-python's, for programs that import from there."""

from __future__ import annotations

from types import ModuleType
from typing import Any, Final

import kafka
import kafka.consumer
import kafka.consumer.group

from tandem_kafka.consumer.consumer import KafkaConsumer

__all__ = ["install", "uninstall"]

#: Where programs, frameworks and agents look kafka-python's class up.
_PLACES: Final[tuple[ModuleType, ...]] = (kafka, kafka.consumer, kafka.consumer.group)
_REPLACED: Final[dict[ModuleType, Any]] = {place: vars(place)["KafkaConsumer"] for place in _PLACES}


def install() -> None:
    """Make `kafka.KafkaConsumer` this library's class, for this process.

    Call it first: what has been imported as `from kafka import KafkaConsumer` before stays
    kafka-python's. A second call changes nothing.
    """
    for place in _PLACES:
        vars(place)["KafkaConsumer"] = KafkaConsumer


def uninstall() -> None:
    """Give kafka-python its own class back."""
    for place, replaced in _REPLACED.items():
        vars(place)["KafkaConsumer"] = replaced
