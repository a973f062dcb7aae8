"""`DeserializingConsumer`: a consumer that deserializes keys and values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tandem_kafka.confluent.consumer import Consumer
from tandem_kafka.confluent.errors import KafkaError, KafkaException
from tandem_kafka.confluent.serialization import (
    MessageField,
    SerializationContext,
    SerializationError,
)
from tandem_kafka.confluent.values import Message

__all__ = [
    "ConsumeError",
    "DeserializingConsumer",
    "KeyDeserializationError",
    "ValueDeserializationError",
]

Deserializer = Callable[[Any, SerializationContext], Any]


class ConsumeError(KafkaException):
    """`poll()` received an event, or a message that could not be deserialized.

    Attributes:
        exception: The exception of the deserializer, if it raised one.
        kafka_message: The message.
    """

    def __init__(
        self,
        kafka_error: KafkaError,
        exception: Exception | None = None,
        kafka_message: Message | None = None,
    ) -> None:
        super().__init__(kafka_error)
        self.exception = exception
        self.kafka_message = kafka_message

    @property
    def code(self) -> int:
        """The error's code."""
        return self.args[0].code()  # type: ignore[no-any-return]

    @property
    def name(self) -> str:
        """The name of the error's code."""
        return self.args[0].name()  # type: ignore[no-any-return]


class KeyDeserializationError(ConsumeError, SerializationError):
    """The key's deserializer raised an exception."""

    def __init__(
        self, exception: Exception | None = None, kafka_message: Message | None = None
    ) -> None:
        error = KafkaError(KafkaError._KEY_DESERIALIZATION, str(exception))
        super().__init__(error, exception, kafka_message)


class ValueDeserializationError(ConsumeError, SerializationError):
    """The value's deserializer raised an exception."""

    def __init__(
        self, exception: Exception | None = None, kafka_message: Message | None = None
    ) -> None:
        error = KafkaError(KafkaError._VALUE_DESERIALIZATION, str(exception))
        super().__init__(error, exception, kafka_message)


class DeserializingConsumer(Consumer):
    """A `Consumer` with `key.deserializer` and `value.deserializer` in its configuration.

    Each is called with bytes or None, and a `SerializationContext`. Deserializers of Schema
    Registry clients therefore work. `poll()` raises a `ConsumeError` instead of returning an event,
    and a subclass of it if a deserializer fails.
    """

    def __init__(self, conf: Mapping[str, Any]) -> None:
        given = dict(conf)
        self._key_deserializer: Deserializer | None = given.pop("key.deserializer", None)
        self._value_deserializer: Deserializer | None = given.pop("value.deserializer", None)
        super().__init__(given)

    def poll(self, timeout: float | None = -1) -> Message | None:
        """Return the next message, deserialized, or None after the timeout.

        Raises:
            KeyDeserializationError, ValueDeserializationError: A deserializer failed.
            ConsumeError: An event occurred.
        """
        message = super().poll(timeout)
        if message is None:
            return None
        error = message.error()
        if error is not None:
            raise ConsumeError(error, kafka_message=message)
        context = SerializationContext(message.topic() or "", MessageField.KEY, message.headers())
        if self._key_deserializer is not None:
            try:
                message.set_key(self._key_deserializer(message.key(), context))
            except Exception as raised:
                raise KeyDeserializationError(raised, message) from raised
        if self._value_deserializer is not None:
            context.field = MessageField.VALUE
            try:
                message.set_value(self._value_deserializer(message.value(), context))
            except Exception as raised:
                raise ValueDeserializationError(raised, message) from raised
        return message

    def consume(self, num_messages: int = 1, timeout: float | None = -1) -> list[Message]:
        """Raise an error: this class has no such method, like `confluent_kafka`'s.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError
