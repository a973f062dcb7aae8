"""Readers for the usual ways of reading, of this consumer and of others."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sized
from importlib import import_module
from importlib.util import find_spec
from itertools import islice
from typing import Any, Final

from benchmarks.readers.base import Reader, Source
from benchmarks.ways.columns import column_ways
from benchmarks.ways.way import CONFLUENT, KAFKA_PYTHON, TANDEM, Turn, Way

__all__ = ["WAYS", "open_way"]

#: Records per iteration in a loop over the consumer: as many as `poll()` returns.
_TURN: Final = 500
_BATCH: Final = 5_000

Values = Sized


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


def _loop_both(consumer: Any, _timeout_s: float) -> Values:
    pairs = [(message.key, message.value) for message in islice(consumer, _TURN)]
    return [value for _, value in pairs]


def _consume(consumer: Any, timeout_s: float) -> Values:
    return [message.value() for message in consumer.consume(_BATCH, timeout_s)]


def _consume_both(consumer: Any, timeout_s: float) -> Values:
    messages = consumer.consume(_BATCH, timeout_s)
    pairs = [(_text(message.key()), _decoded(message.value())) for message in messages]
    return [value for _, value in pairs]


def _decoding(loads: Callable[[bytes], Any]) -> tuple[Turn, Turn]:
    """Return the loops over `poll()` and over `consume()` that decode values with a function."""

    def poll(consumer: Any, timeout_s: float) -> Values:
        batches = _batches(consumer, timeout_s)
        return [loads(record.value) for records in batches for record in records]

    def consume(consumer: Any, timeout_s: float) -> Values:
        return [loads(message.value()) for message in consumer.consume(_BATCH, timeout_s)]

    return poll, consume


_JSON: Final = {"value_deserializer": json.loads}
_BOTH: Final = {"key_deserializer": _text, "value_deserializer": _decoded}
_LITTLE: Final = 0.03


def _ways_with(library: str, name: str, loads: Callable[[bytes], Any]) -> dict[str, Way]:
    """Return the ways of decoding JSON with a library, by names that begin with `way-library`."""
    poll, consume = _decoding(loads)
    options = {"value_deserializer": loads}
    return {
        f"way-{library}-inside": Way(TANDEM, f"poll(), {name} in the loop", poll),
        f"way-{library}": Way(TANDEM, f"poll(), value_deserializer={name}", _poll, options),
        f"way-{library}-loop": Way(
            TANDEM, f"for message in consumer, value_deserializer={name}", _loop, options
        ),
        f"way-{library}-consume": Way(CONFLUENT, f"consume(5000), {name} in the loop", consume),
    }


def _fast_ways() -> dict[str, Way]:
    """Return the ways of the libraries that are installed."""
    found: dict[str, Way] = {}
    if find_spec("orjson") is not None:
        found |= _ways_with("orjson", "orjson.loads", import_module("orjson").loads)
    if find_spec("msgspec") is not None:
        decode = import_module("msgspec.json").Decoder().decode
        found |= _ways_with("msgspec", "msgspec's decode", decode)
    return found


WAYS: Final[Mapping[str, Way]] = {
    **_ways_with("json", "json.loads", json.loads),
    **_fast_ways(),
    **dict(column_ways()),
    "way-poll": Way(TANDEM, "poll()", _poll),
    "way-loop": Way(TANDEM, "for message in consumer", _loop),
    "way-lists": Way(TANDEM, "poll(), sum(values, []), record[7]", _poll_lists),
    "way-unpacked": Way(TANDEM, "poll(), sum(values, []), records unpacked", _poll_unpacked),
    "way-same": Way(
        TANDEM, "poll(), value_deserializer does nothing", _poll, {"value_deserializer": _same}
    ),
    "way-consume": Way(CONFLUENT, "consume(5000)", _consume),
    "way-kafka-poll": Way(KAFKA_PYTHON, "poll()", _poll, share=_LITTLE),
    "way-kafka-loop": Way(KAFKA_PYTHON, "for message in consumer", _loop, share=_LITTLE),
    "way-json-kafka": Way(
        KAFKA_PYTHON,
        "for message in consumer, value_deserializer=json.loads",
        _loop,
        _JSON,
        _LITTLE,
    ),
    "way-both-inside": Way(TANDEM, "poll(), both decoded in the loop", _poll_both),
    "way-both": Way(TANDEM, "poll(), both deserializers", _poll_deserialized_both, _BOTH),
    "way-both-loop": Way(TANDEM, "for message in consumer, both deserializers", _loop_both, _BOTH),
    "way-both-consume": Way(CONFLUENT, "consume(5000), both decoded in the loop", _consume_both),
    "way-both-kafka": Way(
        KAFKA_PYTHON, "for message in consumer, both deserializers", _loop_both, _BOTH, _LITTLE
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
        count = len(self._turn(self._consumer, timeout_s))
        return count, count * self._size

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
    TANDEM: _open_tandem,
    CONFLUENT: _open_confluent,
    KAFKA_PYTHON: _open_kafka_python,
}
