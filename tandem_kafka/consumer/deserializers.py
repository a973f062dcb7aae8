"""Applies the configured deserializers, on the application thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tandem_kafka.config import Config
from tandem_kafka.errors import RecordDeserializationError
from tandem_kafka.types import ConsumerRecord, TopicPartition

__all__ = ["Deserializers"]

#: Given the record, and its key or value.
Deserialize = Callable[[ConsumerRecord, Any], Any]


class Deserializers:
    """The pair for keys and values; `active` is False where neither is configured."""

    def __init__(self, config: Config) -> None:
        self._objects = (config.key_deserializer, config.value_deserializer)
        self._key = _as_function(config.key_deserializer)
        self._value = _as_function(config.value_deserializer)
        self.active = self._key is not None or self._value is not None

    def apply(self, record: ConsumerRecord) -> ConsumerRecord:
        """Return the record with key and value deserialized.

        Raises:
            RecordDeserializationError: A deserializer raised; the cause is its exception.
        """
        key, value = record.key, record.value
        try:
            origin = "key"
            if self._key is not None:
                key = self._key(record, key)
            origin = "value"
            if self._value is not None:
                value = self._value(record, value)
        except Exception as error:
            raise RecordDeserializationError(
                origin,
                TopicPartition(record.topic, record.partition),
                record.offset,
                record.timestamp,
                record.key,
                record.value,
                record.headers,
            ) from error
        return record._replace(key=key, value=value)

    def close(self) -> None:
        """Close deserializers that can be closed."""
        for each in self._objects:
            close = getattr(each, "close", None)
            if close is not None:
                close()


def _as_function(deserializer: Any) -> Deserialize | None:
    """Make one shape of the two: kafka-python's objects, and functions of the bytes alone."""
    if deserializer is None:
        return None
    method = getattr(deserializer, "deserialize", None)
    if method is not None:
        return lambda record, data: method(record.topic, record.headers, data)
    # As in kafka-python, a function is given None for a missing key or a tombstone's value.
    return lambda _record, data: deserializer(data)
