"""What deserializers are called with, and what they raise."""

from __future__ import annotations

import enum
from typing import Any

from tandem_kafka.confluent.errors import KafkaException

__all__ = ["MessageField", "SerializationContext", "SerializationError"]


class MessageField(str, enum.Enum):  # noqa: UP042 - programs format it as they do theirs
    """Which part of a message is deserialized."""

    NONE = "none"
    KEY = "key"
    VALUE = "value"

    def __str__(self) -> str:
        """Show the word."""
        return str(self.value)


class SerializationContext:
    """What is deserialized: the topic, the field and the message's headers."""

    def __init__(self, topic: str, field: MessageField, headers: Any = None) -> None:
        self.topic = topic
        self.field = field
        self.headers = headers


class SerializationError(KafkaException):
    """Bytes could not be deserialized."""
