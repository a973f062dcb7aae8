"""Applies the configured deserializers, on the application thread."""

from __future__ import annotations

import inspect
from collections.abc import Callable, MutableSequence
from typing import Any

from tandem_kafka.config import Config
from tandem_kafka.errors import KafkaError, RecordDeserializationError
from tandem_kafka.records import TakenRecords
from tandem_kafka.runtime.native import native
from tandem_kafka.types import ConsumerRecord, TopicPartition

#: A function of the bytes, or, if the flag is True, of topic, headers and bytes.
Deserialize = tuple[Callable[..., Any], bool]

#: Wraps a function.
Watch = Callable[[Callable[..., Any]], Callable[..., Any]]


class Deserializers:
    """The deserializers of keys and values; `active` is False if neither is configured."""

    def __init__(self, config: Config) -> None:
        self._objects = (config.key_deserializer, config.value_deserializer)
        self._key = _as_function(config.key_deserializer)
        self._value = _as_function(config.value_deserializer)
        self.active = self._key is not None or self._value is not None

    def apply(
        self, records: TakenRecords
    ) -> tuple[MutableSequence[ConsumerRecord], RecordDeserializationError | None]:
        """Deserialize keys and values.

        Returns:
            The finished records, and None or the error of the record after them.
        """
        if native is not None and type(records) is native.Records:
            deserialize: Callable[..., Any] = native.deserialize
        else:
            deserialize = _deserialize
        done, failure = deserialize(records, self._key, self._value)
        if failure is None:
            return done, None
        [record] = records.part(len(done), len(done) + 1)
        origin, error = failure
        return done, self.error_of(origin, error, record)

    def feed(
        self, records: Any, note_error: Callable[[KafkaError], None], watch: Watch | None = None
    ) -> Any:
        """Return a native `Feed` of native records, each deserialized when its turn comes.

        Args:
            records: The records.
            note_error: Notes the error of a deserializer.
            watch: Wraps the deserializers.
        """
        if native is None:
            raise AssertionError("a feed needs the native extension, which is not loaded")
        if not self.active:
            return native.Feed(records)

        def error_of(*failure: Any) -> RecordDeserializationError:
            error = self.error_of(*failure)
            note_error(error)
            return error

        key, value = self._key, self._value
        if watch is not None:
            key, value = (each and (watch(each[0]), each[1]) for each in (key, value))
        return native.Feed(records, key, value, error_of)

    def error_of(
        self, origin: str, error: Exception, record: ConsumerRecord
    ) -> RecordDeserializationError:
        """Return the error to raise for a record that has not been deserialized."""
        partition = TopicPartition(record.topic, record.partition)
        place = (partition, record.offset, record.timestamp)
        return RecordDeserializationError.caused_by(
            error, origin, *place, record.key, record.value, record.headers
        )

    def close(self) -> None:
        """Close the deserializers that have a `close()` method."""
        for each in self._objects:
            close = getattr(each, "close", None)
            if close is not None:
                close()


def _as_function(deserializer: Any) -> Deserialize | None:
    """Return a deserializer as a function; it may be an object of kafka-python's or a function."""
    if deserializer is None:
        return None
    method = getattr(deserializer, "deserialize", None)
    # As in kafka-python, both receive None for a missing key or the value of a tombstone.
    if method is None:
        return deserializer, False
    return (_without_headers(method) if _takes_no_headers(method) else method), True


def _takes_no_headers(method: Callable[..., Any]) -> bool:
    """Tell whether a method takes topic and bytes only, as before kafka-python 3.0."""
    try:
        signature = inspect.signature(method)
    except (TypeError, ValueError):
        return False
    return not _binds(signature, 3) and _binds(signature, 2)


def _binds(signature: inspect.Signature, count: int) -> bool:
    try:
        signature.bind(*[None] * count)
    except TypeError:
        return False
    return True


def _without_headers(method: Callable[[str, Any], Any]) -> Callable[..., Any]:
    return lambda topic, _headers, data: method(topic, data)


def _deserialize(
    records: TakenRecords,
    key: Deserialize | None,
    value: Deserialize | None,
) -> tuple[list[ConsumerRecord], tuple[str, Exception] | None]:
    """Replace the native `deserialize` where there is no native extension."""
    done: list[ConsumerRecord] = []
    for record in records:
        origin = "key"
        try:
            new_key = _called(key, record, record.key)
            origin = "value"
            new_value = _called(value, record, record.value)
        except Exception as error:  # noqa: BLE001 - raised when the record is next
            return done, (origin, error)
        done.append(record._replace(key=new_key, value=new_value))
    return done, None


def _called(function: Deserialize | None, record: ConsumerRecord, data: bytes | None) -> Any:
    if function is None:
        return data
    call, full = function
    return call(record.topic, record.headers, data) if full else call(data)
