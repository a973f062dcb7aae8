"""What is a way of reading."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sized
from dataclasses import dataclass, field
from typing import Any, Final

__all__ = ["CONFLUENT", "KAFKA_PYTHON", "TANDEM", "Turn", "Way"]

#: The clients.
TANDEM: Final = "tandem"
CONFLUENT: Final = "confluent"
KAFKA_PYTHON: Final = "kafka-python"

#: Polls a consumer once and returns the values.
Turn = Callable[[Any, float], Sized]


@dataclass(frozen=True, slots=True)
class Way:
    """One way of reading.

    Attributes:
        client: ``tandem``, ``confluent`` or ``kafka-python``.
        title: A description of the application, for the results.
        turn: One iteration of the application's loop.
        options: Options of the consumer.
        share: The part of the records to read.

    """

    client: str
    title: str
    turn: Turn
    options: Mapping[str, Any] = field(default_factory=dict)
    share: float = 1.0
