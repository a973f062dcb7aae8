"""Readers for the usual ways of reading, of this consumer and of others."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from benchmarks.readers.base import Reader, Source

__all__ = ["WAYS", "Way", "open_way"]

#: Records per iteration in a loop over the consumer: as many as `poll()` returns.
_TURN: Final = 500
_BATCH: Final = 5_000

Values = Iterable[Any]
#: Polls a consumer once and returns the values.
Turn = Callable[[Any, float], Values]


def _same(data: bytes) -> bytes:
    return data


def _decoded(data: bytes) -> Any:
    return json.loads(data.decode())


def _text(data: bytes) -> str:
    return data.decode()


def _batches(consumer: Any, timeout_s: float) -> Any:
    return consumer.poll(timeout_ms=int(timeout_s * 1000)).values()


def _poll(consumer: Any, timeout_s: float) -> Values:
    return [record.value for records in _batches(consumer, timeout_s) for record in records]


def _poll_json(consumer: Any, timeout_s: float) -> Values:
    batches = _batches(consumer, timeout_s)
    return [json.loads(record.value) for records in batches for record in records]


def _poll_both(consumer: Any, timeout_s: float) -> Values:
    pairs = [
        (_text(record.key), _decoded(record.value))
        for records in _batches(consumer, timeout_s)
        for record in records
    ]
    return [value for _, value in pairs]


def _poll_deserialized_both(consumer: Any, timeout_s: float) -> Values:
    batches = _batches(consumer, timeout_s)
    pairs = [(record.key, record.value) for records in batches for record in records]
    return [value for _, value in pairs]


def _poll_lists(consumer: Any, timeout_s: float) -> Values:
    """Put the records of all partitions into one list, and access fields by index."""
    whole: list[Any] = sum(_batches(consumer, timeout_s), [])  # noqa: RUF017 - measured on purpose
    return [record[7] for record in whole]


def _poll_unpacked(consumer: Any, timeout_s: float) -> Values:
    whole: list[Any] = sum(_batches(consumer, timeout_s), [])  # noqa: RUF017 - measured on purpose
    return [value for _, _, _, _, _, _, _, value, _, _, _, _, _ in whole]


def _loop(consumer: Any, _timeout_s: float) -> Values:
    return [message.value for message in islice(consumer, _TURN)]


def _loop_json(consumer: Any, _timeout_s: float) -> Values:
    return [json.loads(message.value) for message in islice(consumer, _TURN)]


def _loop_both(consumer: Any, _timeout_s: float) -> Values:
    pairs = [(message.key, message.value) for message in islice(consumer, _TURN)]
    return [value for _, value in pairs]


def _consume(consumer: Any, timeout_s: float) -> Values:
    return [message.value() for message in consumer.consume(_BATCH, timeout_s)]


def _consume_json(consumer: Any, timeout_s: float) -> Values:
    return [json.loads(message.value()) for message in consumer.consume(_BATCH, timeout_s)]


def _consume_both(consumer: Any, timeout_s: float) -> Values:
    messages = consumer.consume(_BATCH, timeout_s)
    pairs = [(_text(message.key()), _decoded(message.value())) for message in messages]
    return [value for _, value in pairs]


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


_JSON: Final = {"value_deserializer": json.loads}
_BOTH: Final = {"key_deserializer": _text, "value_deserializer": _decoded}
_TANDEM, _CONFLUENT, _KAFKA_PYTHON = "tandem", "confluent", "kafka-python"
_LITTLE: Final = 0.03

WAYS: Final[Mapping[str, Way]] = {
    "way-poll": Way(_TANDEM, "poll()", _poll),
    "way-loop": Way(_TANDEM, "for message in consumer", _loop),
    "way-lists": Way(_TANDEM, "poll(), sum(values, []), record[7]", _poll_lists),
    "way-unpacked": Way(_TANDEM, "poll(), sum(values, []), records unpacked", _poll_unpacked),
    "way-same": Way(
        _TANDEM, "poll(), value_deserializer does nothing", _poll, {"value_deserializer": _same}
    ),
    "way-consume": Way(_CONFLUENT, "consume(5000)", _consume),
    "way-kafka-poll": Way(_KAFKA_PYTHON, "poll()", _poll, share=_LITTLE),
    "way-kafka-loop": Way(_KAFKA_PYTHON, "for message in consumer", _loop, share=_LITTLE),
    "way-json-inside": Way(_TANDEM, "poll(), json.loads in the loop", _poll_json),
    "way-json": Way(_TANDEM, "poll(), value_deserializer=json.loads", _poll, _JSON),
    "way-json-loop": Way(
        _TANDEM, "for message in consumer, value_deserializer=json.loads", _loop, _JSON
    ),
    "way-json-consume": Way(_CONFLUENT, "consume(5000), json.loads in the loop", _consume_json),
    "way-json-kafka": Way(
        _KAFKA_PYTHON,
        "for message in consumer, value_deserializer=json.loads",
        _loop,
        _JSON,
        _LITTLE,
    ),
    "way-both-inside": Way(_TANDEM, "poll(), both decoded in the loop", _poll_both),
    "way-both": Way(_TANDEM, "poll(), both deserializers", _poll_deserialized_both, _BOTH),
    "way-both-loop": Way(_TANDEM, "for message in consumer, both deserializers", _loop_both, _BOTH),
    "way-both-consume": Way(_CONFLUENT, "consume(5000), both decoded in the loop", _consume_both),
    "way-both-kafka": Way(
        _KAFKA_PYTHON, "for message in consumer, both deserializers", _loop_both, _BOTH, _LITTLE
    ),
}


class _Reading:
    """A way of reading as a `CountingReader`."""

    def __init__(self, way: Way, source: Source) -> None:
        self._turn = way.turn
        self._size = source.size
        self._consumer = _OPENERS[way.client](source, way.options)

    def count(self, timeout_s: float) -> tuple[int, int]:
        """Run one iteration; returns the number of values and their encoded bytes."""
        values = list(self._turn(self._consumer, timeout_s))
        return len(values), len(values) * self._size

    def values(self, timeout_s: float) -> list[bytes]:
        """Return nothing: the values may not be bytes."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the client."""
        self._consumer.close()


def open_way(name: str, source: Source) -> Reader:
    """Return a way of reading, at the beginning of its topic."""
    return _Reading(WAYS[name], source)


def _open_tandem(source: Source, options: Mapping[str, Any]) -> Any:
    from tandem_kafka import KafkaConsumer, TopicPartition  # noqa: PLC0415 - where it is measured

    return _assigned(KafkaConsumer, TopicPartition, source, options)


def _open_kafka_python(source: Source, options: Mapping[str, Any]) -> Any:
    from kafka import KafkaConsumer, TopicPartition  # noqa: PLC0415 - where it is measured

    return _assigned(KafkaConsumer, TopicPartition, source, options)


def _assigned(client: Any, partition: Any, source: Source, options: Mapping[str, Any]) -> Any:
    consumer = client(bootstrap_servers=source.bootstrap, enable_auto_commit=False, **options)
    partitions = [partition(source.topic, number) for number in range(source.partitions)]
    consumer.assign(partitions)
    consumer.seek_to_beginning(*partitions)
    return consumer


def _open_confluent(source: Source, _options: Mapping[str, Any]) -> Any:
    from confluent_kafka import (  # noqa: PLC0415 - where it is measured
        OFFSET_BEGINNING,
        Consumer,
        TopicPartition,
    )

    from benchmarks.readers.confluent import FOR_THROUGHPUT  # noqa: PLC0415

    options = {"bootstrap.servers": source.bootstrap, "group.id": "unused", **FOR_THROUGHPUT}
    consumer = Consumer({**options, "enable.auto.commit": False})
    partitions = range(source.partitions)
    consumer.assign([TopicPartition(source.topic, each, OFFSET_BEGINNING) for each in partitions])
    return consumer


_OPENERS: Final[Mapping[str, Callable[[Source, Mapping[str, Any]], Any]]] = {
    _TANDEM: _open_tandem,
    _CONFLUENT: _open_confluent,
    _KAFKA_PYTHON: _open_kafka_python,
}
