"""Replaces kafka-python's consumer, for programs that import it from `kafka`."""

from __future__ import annotations

import tandem_kafka.runtime.kafka_python  # noqa: F401 - before any module of kafka-python

from types import ModuleType
from typing import Any, Final

import kafka
import kafka.consumer
import kafka.consumer.group

from tandem_kafka.consumer.consumer import KafkaConsumer

#: The modules from which programs, frameworks and agents import kafka-python's class.
_PLACES: Final[tuple[ModuleType, ...]] = (kafka, kafka.consumer, kafka.consumer.group)
_REPLACED: Final[dict[ModuleType, Any]] = {place: vars(place)["KafkaConsumer"] for place in _PLACES}
#: Made here, because it takes the defaults of the class that is replaced.
_DEFAULTS: Final = KafkaConsumer.DEFAULT_CONFIG


def install() -> None:
    """Replace ``kafka.KafkaConsumer`` with this library's class in the current process.

    Call this before any other import of the class: an earlier
    ``from kafka import KafkaConsumer`` keeps kafka-python's class. A second call has no effect.
    """
    for place in _PLACES:
        vars(place)["KafkaConsumer"] = KafkaConsumer


def uninstall() -> None:
    """Undo ``install()``: restore kafka-python's class."""
    for place, replaced in _REPLACED.items():
        vars(place)["KafkaConsumer"] = replaced
