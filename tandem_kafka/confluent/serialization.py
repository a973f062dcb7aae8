"""The context that deserializers are called with, and their exceptions."""

from __future__ import annotations

import enum
from typing import Any

from tandem_kafka.confluent.errors import KafkaException

__all__ = ["MessageField", "SerializationContext", "SerializationError"]


class MessageField(str, enum.Enum):  # noqa: UP042 - formats like confluent_kafka's
    """The part of a message to deserialize."""

    NONE = "none"
    KEY = "key"
    VALUE = "value"

    def __str__(self) -> str:
        """Show the value."""
        return str(self.value)


class SerializationContext:
    """The topic, the field and the headers of the message to deserialize."""

    def __init__(self, topic: str, field: MessageField, headers: Any = None) -> None:
        self.topic = topic
        self.field = field
        self.headers = headers


class SerializationError(KafkaException):
    """Bytes could not be deserialized."""
