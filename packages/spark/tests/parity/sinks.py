"""Combinations of the sink."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from packages.spark.tests.parity.dimensions import (
    Case,
    Options,
    Sink,
)
from packages.spark.tests.parity.topics import PREFIX

_TIME: Final = "timestamp_millis(1700000000123)"
#: Rows for the sink, by name, as a query of Spark.
_ROWS: Final[Mapping[str, str]] = {
    "strings": "select string(id) key, concat('v', id) value from range(0, 30, 1, 1)",
    "binary": "select binary(string(id)) key, binary(concat('v', id)) value from range(0, 3, 1, 1)",
    "without keys": "select concat('v', id) value, int(id % 3) partition from range(0, 9, 1, 1)",
    "null keys and values": (
        "select if(id % 2 = 0, null, string(id)) key, if(id % 3 = 0, null, string(id)) value, "
        "int(0) partition from range(0, 9, 1, 1)"
    ),
    "headers": (
        f"select 'v' value, int(0) partition, {_TIME} timestamp, "
        "array(named_struct('key', 'a', 'value', binary('1')), "
        "named_struct('key', 'a', 'value', binary(null))) headers"
    ),
    "null headers": (
        "select 'v' value, int(0) partition, "
        "cast(null as array<struct<key:string,value:binary>>) headers"
    ),
    "null partitions": "select 'k' key, 'v' value, cast(null as int) partition",
    "timestamps": (
        "select concat('v', id) value, int(0) partition, timestamp_millis(1700000000000 + id) "
        "timestamp from range(0, 4, 1, 1)"
    ),
    "null timestamps": "select 'v' value, int(0) partition, cast(null as timestamp) timestamp",
    "a string as a timestamp": "select 'v' value, int(0) partition, 'noon' timestamp",
    "other columns": "select 'v' value, int(0) partition, 7 number, array(1) numbers",
    "no rows": "select 'v' value, int(0) partition where false",
    "a topic that is missing": "select 'v' value, 'parity-missing' topic",
    "a partition that is missing": "select 'v' value, int(7) partition",
    "no value": "select 'k' key",
    "a number as a value": "select 1 value",
    "a number as a key": "select 1 key, 'v' value",
    "a string as a partition": "select 'v' value, '1' partition",
    "a long as a partition": "select 'v' value, 1L partition",
    "strings as headers": "select 'v' value, array('a') headers",
    "a number as a topic": "select 'v' value, 1 topic",
    "a negative partition": "select 'v' value, int(-1) partition",
}


#: What errors of the sink are about.
_COLUMNS: Final = {
    "a topic that is missing": "missing",
    "a partition that is missing": "partition",
    "no value": "value",
    "a number as a value": "value",
    "a number as a key": "key",
    "a string as a partition": "partition",
    "a long as a partition": "partition",
    "strings as headers": "headers",
    "a number as a topic": "topic",
    "a string as a timestamp": "timestamp",
    "a negative partition": "partition",
    "no topic": "topic",
    "a null topic": "topic",
    "mode overwrite": "overwrit",
    "mode ignore": "ignore",
    "a serializer": "key.serializer",
    "a stream without a topic": "topic",
    "a stream without a value": "value",
}


#: How long Java's producer, and ours, wait for a topic to appear.
_IMPATIENT: Final = {
    "kafka.max.block.ms": "2000",
    "kafka.topic.metadata.propagation.max.ms": "1000",
}


def sinks() -> Iterator[Case]:
    for number, (name, rows) in enumerate(_ROWS.items()):
        topic = f"sink-{number}"
        options = {} if " topic" in rows else {"topic": PREFIX + topic}
        patience = _IMPATIENT if "missing" in name else {}
        about = _COLUMNS.get(name, "")
        yield Sink("the sink", name, options | patience, about, rows=rows, topic=topic)
    rest = "int(0) partition, 'v' value"
    more: dict[str, tuple[str, Options, dict[str, Any]]] = {
        "the column topic": (f"select '{{a}}' topic, {rest}", {}, {}),
        "the option wins": (f"select 'parity-plain' topic, {rest}", {"topic": "{a}"}, {}),
        "no topic": (f"select {rest}", {}, {}),
        "a null topic": (f"select cast(null as string) topic, {rest}", {}, {}),
        "a null topic with the option": (
            f"select cast(null as string) topic, {rest}",
            {"topic": "{a}"},
            {},
        ),
        "no mode": (f"select {rest}", {"topic": "{a}"}, {"mode": None}),
        "mode error": (f"select {rest}", {"topic": "{a}"}, {"mode": "error"}),
        "mode overwrite": (f"select {rest}", {"topic": "{a}"}, {"mode": "overwrite"}),
        "mode ignore": (f"select {rest}", {"topic": "{a}"}, {"mode": "ignore"}),
        "includeHeaders": (
            f"select {rest}, array(named_struct('key','a','value',binary('1'))) headers",
            {"topic": "{a}", "includeHeaders": "true"},
            {},
        ),
        "headers without the option": (
            f"select {rest}, array(named_struct('key','a','value',binary('1'))) headers",
            {"topic": "{a}"},
            {},
        ),
        "acks 1": (f"select {rest}", {"topic": "{a}", "kafka.acks": "1"}, {}),
        "compression": (f"select {rest}", {"topic": "{a}", "kafka.compression.type": "zstd"}, {}),
        "a serializer": (f"select {rest}", {"topic": "{a}", "kafka.key.serializer": "a.B"}, {}),
        "an unknown option": (f"select {rest}", {"topic": "{a}", "colour": "blue"}, {}),
        "a stream": (
            "select int(0) partition, string(id) key, 'v' value from parity_rows",
            {"topic": "{a}"},
            {"streaming": True},
        ),
        "a stream without a topic": (
            "select 'v' value from parity_rows",
            {},
            {"streaming": True},
        ),
        "a stream without a value": (
            "select 'k' key from parity_rows",
            {"topic": "{a}"},
            {"streaming": True},
        ),
    }
    for number, (name, (rows, options, further)) in enumerate(more.items(), len(_ROWS)):
        topic = f"sink-{number}"
        yield Sink(
            "the sink",
            name,
            {option: value.format(a=PREFIX + topic) for option, value in options.items()},
            _COLUMNS.get(name, ""),
            rows=rows.replace("{a}", PREFIX + topic),
            topic=topic,
            **further,
        )
