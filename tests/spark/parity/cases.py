"""Generates the combinations. A label in a combination's name stands for the options beside it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from tests.spark.parity.pairwise import pairwise
from tests.spark.parity.topics import BASE_MS, PREFIX, SECOND_MS

__all__ = ["GROUPS", "LABELS", "Batch", "Case", "Sink", "Stream", "cases"]

Options = Mapping[str, str]


@dataclass(frozen=True)
class Case:
    """One combination.

    Attributes:
        about: What an error should name: an option, a topic or a partition.
    """

    group: str
    name: str
    options: Options
    about: str = ""

    @property
    def id(self) -> str:
        return f"{self.group}: {self.name}"


@dataclass(frozen=True)
class Batch(Case):
    """A batch query.

    Attributes:
        query: The name of what is made of the rows; see `outcomes.QUERIES`.
    """

    query: str = "all columns"


@dataclass(frozen=True)
class Stream(Case):
    """Runs of a streaming query with one checkpoint, and what happens between them.

    Attributes:
        setup: Topics that exist before, by name, with the numbers of their partitions; each has
            records. No other combination uses them.
        steps: `run <trigger>`, or a change; see `outcomes.py`.
    """

    steps: tuple[str, ...] = ("run availableNow",)
    setup: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Sink(Case):
    """A batch or a stream that writes to a new topic, which is then read.

    Attributes:
        rows: A query of Spark.
    """

    rows: str = ""
    topic: str = ""
    mode: str | None = "append"
    streaming: bool = False


def _json(value: Any) -> str:
    named = {PREFIX + topic: parts for topic, parts in value.items()}
    return json.dumps(named, separators=(",", ":"))


def _names(*names: str) -> str:
    return ",".join(PREFIX + name for name in names)


def _at(second: int) -> int:
    return BASE_MS + second * SECOND_MS


def _offsets(**changes: int) -> str:
    """Return JSON for all partitions of the two topics of `starts and ends`."""
    found = {"plain0": 10, "plain1": 3, "plain2": 0, "truncated0": 12, "truncated1": 30} | changes
    return _json(
        {
            "plain": {str(n): found[f"plain{n}"] for n in range(3)},
            "truncated": {str(n): found[f"truncated{n}"] for n in range(2)},
        }
    )


def _times(**changes: int) -> str:
    found = {"plain0": 20, "plain1": 9, "plain2": 1, "truncated0": 31, "truncated1": 52} | changes
    return _offsets(**{name: _at(second) for name, second in found.items()})


#: The values of each dimension, by the label in a combination's name.
SELECTIONS: Final[Mapping[str, Options]] = {
    "subscribe": {"subscribe": _names("plain", "truncated")},
    "subscribePattern": {"subscribePattern": f"^{PREFIX}(plain|truncated)$"},
    "assign": {"assign": _json({"plain": [0, 1, 2], "truncated": [0, 1]})},
}
STARTS: Final[Mapping[str, Options]] = {
    "no start": {},
    "start exact": {"startingOffsets": _offsets()},
    "start -2 or exact": {"startingOffsets": _offsets(plain0=-2, truncated0=-2, truncated1=-2)},
    "start below the beginning": {"startingOffsets": _offsets(truncated0=4)},
    "start beyond the end": {"startingOffsets": _offsets(plain1=100)},
    "startingTimestamp": {"startingTimestamp": str(_at(4))},
    "startingTimestamp after the last record": {"startingTimestamp": str(_at(38))},
    "startingOffsetsByTimestamp": {"startingOffsetsByTimestamp": _times()},
    "startingOffsetsByTimestamp after the last record": {
        "startingOffsetsByTimestamp": _times(plain2=30)
    },
}
ENDS: Final[Mapping[str, Options]] = {
    "no end": {},
    "end exact": {
        "endingOffsets": _offsets(plain0=33, plain1=14, plain2=5, truncated0=29, truncated1=30)
    },
    "end -1 or exact": {"endingOffsets": _offsets(plain0=-1, plain2=-1, truncated0=-1)},
    "end before start": {
        "endingOffsets": _offsets(plain0=9, plain1=15, plain2=5, truncated0=30, truncated1=30)
    },
    "endingTimestamp": {"endingTimestamp": str(_at(54))},
    "endingOffsetsByTimestamp": {
        "endingOffsetsByTimestamp": _times(plain0=35, plain1=99, plain2=99, truncated0=50)
    },
}
STRATEGIES: Final[Mapping[str, Options]] = {
    "": {},
    "strategy error": {"startingOffsetsByTimestampStrategy": "error"},
    "strategy latest": {"startingOffsetsByTimestampStrategy": "latest"},
}
LOSSES: Final[Mapping[str, Options]] = {"": {}, "loss allowed": {"failOnDataLoss": "false"}}
SPLITS: Final[Mapping[str, Options]] = {
    "": {},
    "minPartitions 2": {"minPartitions": "2"},
    "minPartitions 9": {"minPartitions": "9"},
    "maxRecordsPerPartition 7": {"maxRecordsPerPartition": "7"},
    "both splits": {"minPartitions": "13", "maxRecordsPerPartition": "10"},
}
HEADERS: Final[Mapping[str, Options]] = {"": {}, "headers": {"includeHeaders": "true"}}
ISOLATIONS: Final[Mapping[str, Options]] = {
    "": {},
    "read_committed": {"kafka.isolation.level": "read_committed"},
}
#: A stream of one or two topics; `{a}` stands for its own topic.
STREAM_SELECTIONS: Final[Mapping[str, Options]] = {
    "subscribe": {"subscribe": "{a}"},
    "subscribePattern": {"subscribePattern": "^{a}(-new)?$"},
    "assign": {"assign": '{{"{a}":[0,1]}}'},
}
STREAM_STARTS: Final[Mapping[str, Options]] = {
    "start earliest": {"startingOffsets": "earliest"},
    "start latest": {"startingOffsets": "latest"},
    "start -1 or exact": {"startingOffsets": '{{"{a}":{{"0":3,"1":-1}}}}'},
    "startingOffsetsByTimestamp": {
        "startingOffsetsByTimestamp": f'{{{{"{{a}}":{{{{"0":{_at(3)},"1":{_at(900)}}}}}}}}}',
        "startingOffsetsByTimestampStrategy": "latest",
    },
}
TRIGGERS: Final[Mapping[str, Options]] = {"availableNow": {}, "once": {}}
LIMITS: Final[Mapping[str, Options]] = {
    "": {},
    "maxOffsetsPerTrigger 7": {"maxOffsetsPerTrigger": "7"},
    "minOffsetsPerTrigger 8": {"minOffsetsPerTrigger": "8", "maxTriggerDelay": "1h"},
    "both limits": {"minOffsetsPerTrigger": "2", "maxOffsetsPerTrigger": "5"},
}
#: What happens between two runs, as steps.
CHANGES: Final[Mapping[str, tuple[str, ...]]] = {
    "new records": ("produce {a} 2",),
    "a new partition": ("partitions {a} 3", "produce {a} 3"),
    "a new topic": ("create {a}-new 1", "produce {a}-new 1"),
    "deleted records": ("produce {a} 2", "delete {a} 9"),
}

LABELS: Final[Mapping[str, Mapping[str, Options]]] = {
    "topics": SELECTIONS,
    "start": STARTS,
    "end": ENDS,
    "strategy": STRATEGIES,
    "loss": LOSSES,
    "tasks": SPLITS,
    "headers": HEADERS,
    "isolation": ISOLATIONS,
    "topics of a stream": STREAM_SELECTIONS,
    "start of a stream": STREAM_STARTS,
    "limits": LIMITS,
}


def _combined(**axes: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name and the values of each combination."""
    for labels in pairwise({axis: list(values) for axis, values in axes.items()}):
        name = ", ".join(label for label in labels.values() if label)
        yield name, {axis: axes[axis][label] for axis, label in labels.items()}


def _merged(parts: Mapping[str, Options]) -> dict[str, str]:
    return {name: value for options in parts.values() for name, value in options.items()}


# --- batch queries ------------------------------------------------------------------------------


def _starts_and_ends() -> Iterator[Case]:
    combined = _combined(
        topics=SELECTIONS,
        start=STARTS,
        end=ENDS,
        strategy=STRATEGIES,
        loss=LOSSES,
        tasks=SPLITS,
        headers=HEADERS,
        isolation=ISOLATIONS,
    )
    for name, parts in combined:
        yield Batch("starts and ends", name, _merged(parts))


KINDS: Final = ("odd", "transactions", "open", "empty", "emptied", "appended")
CODECS: Final = ("gzip", "snappy", "lz4", "zstd")


def _kinds() -> Iterator[Case]:
    """All kinds of topics; the compacted one is last, because the log cleaner takes its time."""
    kinds = (*KINDS, *CODECS, "truncated", "plain", "compacted")
    for number, kind in enumerate(kinds):
        ways = {
            "subscribe": {"subscribe": PREFIX + kind},
            "subscribePattern": {"subscribePattern": f"^{PREFIX}{kind[:-1]}[{kind[-1]}]$"},
            "assign": {"assign": _json({kind: [0]})},
        }
        several = list(ways.items())
        chosen = [several[number % 3], several[(number + 1) % 3]][: 1 + (kind not in CODECS)]
        for turn, (way, options) in enumerate(chosen):
            level = "read_committed" if (number + turn) % 2 else "read_uncommitted"
            more = {"includeHeaders": "true", "kafka.isolation.level": level}
            splits = {"minPartitions": "5"} if turn else {}
            name = ", ".join((kind, way, level, *("minPartitions 5" for _ in splits)))
            yield Batch("kinds of topics", name, {**options, **more, **splits})
    for kind in ("transactions", "open"):
        for level in ("read_committed", "read_uncommitted"):
            options = {"subscribe": PREFIX + kind, "kafka.isolation.level": level}
            split = {"maxRecordsPerPartition": "4"}
            yield Batch("kinds of topics", f"{kind}, {level}, tasks of 4", {**options, **split})


def _selections() -> Iterator[Case]:
    ways: dict[str, Options] = {
        "all of them": {"subscribe": _names(*KINDS, *CODECS, "plain", "truncated")},
        "spaces and a repeated topic": {"subscribe": f"{PREFIX}plain , {PREFIX}odd,{PREFIX}plain"},
        "an empty topic and another": {"subscribe": _names("empty", "plain")},
        "a comma at the end": {"subscribe": PREFIX + "plain,"},
        "a pattern that is a whole name": {"subscribePattern": PREFIX + "plain"},
        "a pattern that is a part of names": {"subscribePattern": "plain"},
        "a pattern with overlapping branches": {
            "subscribePattern": f"{PREFIX}pl.*|{PREFIX}plain|{PREFIX}plain-.*"
        },
        "a pattern that begins anywhere": {"subscribePattern": ".*-plain"},
        "a pattern that ends anywhere": {"subscribePattern": PREFIX + "plain.*"},
        "a pattern with anchors": {"subscribePattern": f"^{PREFIX}plain$"},
        "a pattern without a match": {"subscribePattern": PREFIX + "nothing.*"},
        "a pattern with spaces around it": {"subscribePattern": f" {PREFIX}plain "},
        "a pattern in capitals": {"subscribePattern": (PREFIX + "plain").upper()},
        "a pattern without regard to case": {"subscribePattern": f"(?i){PREFIX}PLAIN"},
        "a pattern of internal topics": {"subscribePattern": "__consumer_off.*"},
        "a Java class of characters": {"subscribePattern": PREFIX + r"\p{Lower}lain"},
        "one partition of three": {"assign": _json({"plain": [2]})},
        "partitions of two topics": {"assign": _json({"plain": [0], "odd": [1]})},
        "a repeated partition": {"assign": _json({"plain": [1, 1]})},
    }
    for name, options in ways.items():
        yield Batch("selections", name, options)


def _numbers_of_tasks() -> Iterator[Case]:
    whole = {"subscribe": PREFIX + "plain"}
    for count in (1, 4, 7, 100):
        options = {**whole, "minPartitions": str(count)}
        yield Batch("numbers of tasks", f"minPartitions {count}", options)
    exact = {
        "startingOffsets": _json({"plain": {"0": 0, "1": 0, "2": 0}}),
        "endingOffsets": _json({"plain": {"0": 40, "1": 15, "2": 5}}),
    }
    for most in (3, 14, 15, 41):
        split = {"maxRecordsPerPartition": str(most)}
        yield Batch("numbers of tasks", f"maxRecordsPerPartition {most}", {**whole, **split})
        name = f"maxRecordsPerPartition {most}, start and end exact"
        yield Batch("numbers of tasks", name, {**whole, **exact, **split})


def _queries() -> Iterator[Case]:
    names = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
    for name in (*names, "headers"):
        yield Batch("queries", f"column {name}", _everything(), query=f"column {name}")
    for name in (
        "count",
        "columns in another order",
        "filter on the offset",
        "filter on the partition",
        "filter on the time",
        "filter on the value",
        "null values",
        "limit after a filter",
        "sums by topic",
        "strings",
    ):
        yield Batch("queries", name, _everything(), query=name)


def _everything() -> Options:
    return {"subscribe": _names("plain", "odd", "transactions"), "includeHeaders": "true"}


def _offset_mistakes() -> Iterator[Case]:
    """Starts and ends that cannot be right."""
    values: dict[str, tuple[Options, str]] = {
        "start beyond the end": ({"startingOffsets": _offsets(plain1=100)}, "plain-1"),
        "start beyond the end, minPartitions 9": (
            {"startingOffsets": _offsets(plain1=100), "minPartitions": "9"},
            "plain-1",
        ),
        "start beyond the end, loss allowed": (
            {"startingOffsets": _offsets(plain1=100), "failOnDataLoss": "false"},
            "",
        ),
        "start latest": ({"startingOffsets": "latest"}, "startingOffsets"),
        "start -1": ({"startingOffsets": _offsets(plain0=-1)}, "startingOffsets"),
        "start -3": ({"startingOffsets": _offsets(plain0=-3)}, ""),
        "start is a number": ({"startingOffsets": "23"}, "startingOffsets"),
        "start is not JSON": ({"startingOffsets": "{plain"}, "startingOffsets"),
        "start and end in words": (
            {"startingOffsets": "earliest", "endingOffsets": "latest"},
            "",
        ),
        "endingTimestamp after the last record": ({"endingTimestamp": str(_at(1_000))}, ""),
        "start in capitals": ({"startingOffsets": "EARLIEST"}, ""),
        "start lacks a partition": (
            {
                "startingOffsets": _json(
                    {"plain": {"0": 1, "1": 1}, "truncated": {"0": 10, "1": 25}}
                )
            },
            "plain",
        ),
        "start lacks a topic": ({"startingOffsets": _json({"plain": {"0": 1}})}, "plain"),
        "start has another partition": (
            {
                "startingOffsets": _json(
                    {"plain": dict.fromkeys("0123", 1), "truncated": {"0": 10, "1": 25}}
                )
            },
            "plain-3",
        ),
        "start has another topic": (
            {"startingOffsets": _offsets()[:-1] + f',"{PREFIX}odd":{{"0":1}}}}'},
            "odd",
        ),
        "end earliest": ({"endingOffsets": "earliest"}, "endingOffsets"),
        "end -2": ({"endingOffsets": _offsets(plain0=-2)}, "endingOffsets"),
        "end -3": ({"endingOffsets": _offsets(plain0=-3)}, ""),
        "end lacks a partition": ({"endingOffsets": _json({"plain": {"0": 1}})}, "plain"),
        "end is not JSON": ({"endingOffsets": "latest?"}, "endingOffsets"),
        "end beyond the end": (
            {"endingOffsets": _offsets(plain0=50), "kafkaConsumer.pollTimeoutMs": "1500"},
            "plain-0",
        ),
        "end beyond the end, loss allowed": (
            {
                "endingOffsets": _offsets(plain0=50),
                "kafkaConsumer.pollTimeoutMs": "1500",
                "failOnDataLoss": "false",
            },
            "plain-0",
        ),
        "startingTimestamp is negative": ({"startingTimestamp": "-5"}, "startingTimestamp"),
        "startingTimestamp is no number": ({"startingTimestamp": "today"}, "startingTimestamp"),
        "startingTimestamp 0": ({"startingTimestamp": "0"}, ""),
        "endingTimestamp 0": ({"endingTimestamp": "0"}, ""),
        "endingTimestamp is negative": ({"endingTimestamp": "-5"}, "endingTimestamp"),
        "startingOffsetsByTimestamp lacks a partition": (
            {"startingOffsetsByTimestamp": _json({"plain": {"0": 1}})},
            "plain",
        ),
        "startingOffsetsByTimestamp is negative": (
            {"startingOffsetsByTimestamp": _times(plain0=-2_000_000_000)},
            "",
        ),
        "startingOffsetsByTimestamp is not JSON": (
            {"startingOffsetsByTimestamp": "noon"},
            "startingOffsetsByTimestamp",
        ),
        "three starts": (
            {
                "startingOffsets": _offsets(),
                "startingOffsetsByTimestamp": _times(plain0=30),
                "startingTimestamp": str(_at(2)),
            },
            "",
        ),
        "two starts": (
            {"startingOffsets": "earliest", "startingOffsetsByTimestamp": _times(plain0=30)},
            "",
        ),
        "three ends": (
            {
                "endingOffsets": _offsets(),
                "endingOffsetsByTimestamp": _times(plain0=30),
                "endingTimestamp": str(_at(53)),
            },
            "",
        ),
        "the strategy is unknown": (
            {"startingOffsetsByTimestampStrategy": "first", "startingTimestamp": str(_at(2))},
            "startingOffsetsByTimestampStrategy",
        ),
    }
    for name, (options, about) in values.items():
        yield Batch("mistaken offsets", name, SELECTIONS["subscribe"] | options, about)


def _mistakes() -> Iterator[Case]:
    plain = {"subscribe": PREFIX + "plain"}
    values: dict[str, tuple[Options, str]] = {
        "no topics": ({}, "subscribe"),
        "subscribe and assign": ({**plain, **SELECTIONS["assign"]}, "assign"),
        "subscribe and a pattern": (
            {**plain, **SELECTIONS["subscribePattern"]},
            "subscribePattern",
        ),
        "subscribe nothing": ({"subscribe": ""}, "subscribe"),
        "subscribe a comma": ({"subscribe": ","}, "subscribe"),
        "an empty pattern": ({"subscribePattern": " "}, "subscribePattern"),
        "a pattern that is none": ({"subscribePattern": "*plain"}, ""),
        "a missing topic": ({"subscribe": _names("plain", "missing")}, "missing"),
        "a missing topic, loss allowed": (
            {"subscribe": _names("plain", "missing"), "failOnDataLoss": "false"},
            "missing",
        ),
        "a missing partition": ({"assign": _json({"plain": [0, 7]})}, "plain-7"),
        "assign a missing topic": ({"assign": _json({"missing": [0]})}, "missing"),
        "assign is not JSON": ({"assign": "plain"}, "assign"),
        "assign nothing": ({"assign": "{}"}, "assign"),
        "assign a word": ({"assign": '{"parity-plain":["a"]}'}, "assign"),
        "minPartitions 0": ({**plain, "minPartitions": "0"}, "minPartitions"),
        "minPartitions -1": ({**plain, "minPartitions": "-1"}, "minPartitions"),
        "minPartitions is a word": ({**plain, "minPartitions": "many"}, ""),
        "maxRecordsPerPartition 0": ({**plain, "maxRecordsPerPartition": "0"}, "maxRecords"),
        "maxRecordsPerPartition -1": ({**plain, "maxRecordsPerPartition": "-1"}, "maxRecords"),
        "maxRecordsPerPartition is a word": ({**plain, "maxRecordsPerPartition": "few"}, ""),
        "failOnDataLoss is a word": ({**plain, "failOnDataLoss": "maybe"}, "failOnDataLoss"),
        "includeHeaders is a word": ({**plain, "includeHeaders": "1"}, "includeHeaders"),
        "flags in capitals": ({**plain, "failOnDataLoss": "TRUE", "includeHeaders": "True"}, ""),
        "names in capitals": ({"SUBSCRIBE": PREFIX + "plain", "MINPARTITIONS": "6"}, ""),
        "a name that is misspelt": ({**plain, "startingOffset": "earliest"}, "startingOffset"),
        "an unknown name": ({**plain, "colour": "blue"}, "colour"),
        "an unknown name of Kafka": ({**plain, "kafka.colour": "blue"}, "colour"),
        "an option of streams": ({**plain, "maxOffsetsPerTrigger": "5"}, "maxOffsetsPerTrigger"),
        "another option of streams": (
            {**plain, "minOffsetsPerTrigger": "5"},
            "minOffsetsPerTrigger",
        ),
        "pollTimeoutMs is a word": (
            {**plain, "kafkaConsumer.pollTimeoutMs": "long"},
            "pollTimeoutMs",
        ),
        "numRetries -1": ({**plain, "fetchOffset.numRetries": "-1"}, "numRetries"),
        "a bad level of isolation": ({**plain, "kafka.isolation.level": "all"}, "isolation"),
        "a number that is a word": ({**plain, "kafka.fetch.min.bytes": "many"}, "fetch"),
        "groupIdPrefix": ({**plain, "groupIdPrefix": "mine"}, ""),
        "kafka.group.id": ({**plain, "kafka.group.id": "mine"}, ""),
        "kafka.client.id": ({**plain, "kafka.client.id": "mine"}, ""),
        "kafka.max.poll.records": ({**plain, "kafka.max.poll.records": "3"}, ""),
        "kafka.fetch.max.bytes": (
            {**plain, "kafka.fetch.max.bytes": "100", "kafka.max.partition.fetch.bytes": "100"},
            "",
        ),
        "kafka.check.crcs": ({**plain, "kafka.check.crcs": "false"}, ""),
        "kafka.session.timeout.ms": ({**plain, "kafka.session.timeout.ms": "30000"}, ""),
    }
    for name in (
        "auto.offset.reset=earliest",
        "enable.auto.commit=true",
        "key.deserializer=a.Class",
        "value.deserializer=a.Class",
        "interceptor.classes=a.Class",
        "key.serializer=a.Class",
        "value.serializer=a.Class",
    ):
        option, _, value = name.partition("=")
        values[f"kafka.{option}"] = ({**plain, f"kafka.{option}": value}, option)
    for name, (options, about) in values.items():
        yield Batch("options and mistakes", name, options, about)


# --- streams ------------------------------------------------------------------------------------


def _streams() -> Iterator[Case]:
    combined = _combined(
        topics=STREAM_SELECTIONS,
        start=STREAM_STARTS,
        trigger={name: {"trigger": name} for name in TRIGGERS},
        limits=LIMITS,
        change=CHANGES,
        loss=LOSSES,
        isolation=ISOLATIONS,
        headers=HEADERS,
    )
    for number, (name, parts) in enumerate(combined):
        own = f"stream-{number}"
        trigger = parts.pop("trigger")["trigger"]
        change = tuple(step.format(a=own) for step in parts.pop("change"))
        options = {option: value.format(a=PREFIX + own) for option, value in _merged(parts).items()}
        steps = (f"run {trigger}", *change, f"run {trigger}")
        yield Stream("streams", name, options, steps=steps, setup={own: 2})


def _streams_of_kinds() -> Iterator[Case]:
    for number, kind in enumerate(("transactions", "open", "compacted", "truncated", "appended")):
        level = ("read_committed", "read_uncommitted")[number == 4]
        options = {
            "subscribe": PREFIX + kind,
            "startingOffsets": "earliest",
            "includeHeaders": "true",
            "kafka.isolation.level": level,
            "maxOffsetsPerTrigger": "25",
        }
        if number % 2:
            options["maxRecordsPerPartition"] = "4"
        yield Stream("streams of kinds of topics", f"{kind}, {level}", options)


def _live_streams() -> Iterator[Case]:
    """Streams that are running while the topic changes."""
    for number, (name, options, change) in enumerate(
        (
            ("subscribe, new records", {"subscribe": "{a}"}, CHANGES["new records"]),
            ("subscribe, a new partition", {"subscribe": "{a}"}, CHANGES["a new partition"]),
            (
                "subscribePattern, a new topic",
                {"subscribePattern": "{a}.*"},
                CHANGES["a new topic"],
            ),
        )
    ):
        own = f"live-{number}"
        latest = {name: value.format(a=PREFIX + own) for name, value in options.items()}
        steps = ("begin", *(step.format(a=own) for step in change), "end", "run availableNow")
        yield Stream(
            "running streams", f"{name}, start latest", latest, steps=steps, setup={own: 2}
        )


def _stream_mistakes() -> Iterator[Case]:
    plain = {"subscribe": PREFIX + "plain", "startingOffsets": "earliest"}
    values: dict[str, tuple[Options, str]] = {
        "endingOffsets": ({**plain, "endingOffsets": "latest"}, "endingOffsets"),
        "endingTimestamp": ({**plain, "endingTimestamp": str(_at(1))}, "ending"),
        "endingOffsetsByTimestamp": ({**plain, "endingOffsetsByTimestamp": _times()}, "ending"),
        "a missing topic": ({"subscribe": PREFIX + "missing"}, "missing"),
        "maxOffsetsPerTrigger is a word": ({**plain, "maxOffsetsPerTrigger": "few"}, ""),
        "maxOffsetsPerTrigger -1": ({**plain, "maxOffsetsPerTrigger": "-1"}, ""),
        "minimum above the maximum": (
            {**plain, "minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "5"},
            "minOffsetsPerTrigger",
        ),
        "start beyond the end": (
            {**plain, "startingOffsets": _json({"plain": {"0": 99, "1": 0, "2": 0}})},
            "plain-0",
        ),
        "startingTimestamp after the last record": (
            {**plain, "startingTimestamp": str(_at(900))},
            "",
        ),
    }
    for name, (options, about) in values.items():
        yield Stream("mistakes in streams", name, options, about)


# --- the sink -----------------------------------------------------------------------------------

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


def _sinks() -> Iterator[Case]:
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


GROUPS: Final = (
    _starts_and_ends,
    _selections,
    _numbers_of_tasks,
    _queries,
    _offset_mistakes,
    _mistakes,
    _sinks,
    _kinds,
    _streams,
    _streams_of_kinds,
    _live_streams,
    _stream_mistakes,
)


@cache
def cases() -> Mapping[str, Case]:
    """Return all combinations by id, in the order in which they are run."""
    found = [case for generate in GROUPS for case in generate()]
    by_id = {case.id: case for case in found}
    assert len(by_id) == len(found), "two combinations have the same name"
    return by_id
