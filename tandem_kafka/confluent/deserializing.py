"""`DeserializingConsumer`: a consumer that deserializes keys and values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import Message
from confluent_kafka.error import (
    ConsumeError,
    KeyDeserializationError,
    ValueDeserializationError,
)
from confluent_kafka.serialization import MessageField, SerializationContext

from tandem_kafka.confluent.consumer import Consumer
from tandem_kafka.confluent.messages import message_of

Deserializer = Callable[[Any, SerializationContext], Any]


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

    def _message_of(self, item: Any) -> Message[Any, Any]:
        """Deserialize before the position moves: an interrupt (Ctrl-C) then loses nothing."""
        taken, message = self._taken, message_of(item)
        given, drops = taken.given, taken.drops
        at = given - taken.items[0]
        ours = item in taken.items[at : at + 1]
        try:
            return self._deserialized(message)
        except ConsumeError:
            if ours and taken.given == given and taken.drops == drops:
                taken.given = given + 1  # the application has the message, in the error
            raise

    def _deserialized(self, message: Message[Any, Any]) -> Message[Any, Any]:
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

    def consume(self, num_messages: int = 1, timeout: float | None = -1) -> list[Message[Any, Any]]:
        """Raise an error: this class has no such method, like `confluent_kafka`'s.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError
