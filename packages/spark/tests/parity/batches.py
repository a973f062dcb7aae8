"""Combinations of batch queries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from packages.spark.tests.parity.dimensions import (
    ENDS,
    HEADERS,
    ISOLATIONS,
    LOSSES,
    SELECTIONS,
    SPLITS,
    STARTS,
    STRATEGIES,
    Batch,
    Case,
    Options,
    at_ms,
    combinations,
    json_of,
    merged,
    names,
    offsets,
    times,
)
from packages.spark.tests.parity.topics import PREFIX


def starts_and_ends() -> Iterator[Case]:
    combined = combinations(
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
        yield Batch("starts and ends", name, merged(parts))


KINDS: Final = ("odd", "transactions", "open", "empty", "emptied", "appended")
CODECS: Final = ("gzip", "snappy", "lz4", "zstd")


def kinds() -> Iterator[Case]:
    """All kinds of topics; the compacted one is last, because the log cleaner takes its time."""
    kinds = (*KINDS, *CODECS, "truncated", "plain", "compacted")
    for number, kind in enumerate(kinds):
        ways = {
            "subscribe": {"subscribe": PREFIX + kind},
            "subscribePattern": {"subscribePattern": f"^{PREFIX}{kind[:-1]}[{kind[-1]}]$"},
            "assign": {"assign": json_of({kind: [0]})},
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


def selections() -> Iterator[Case]:
    ways: dict[str, Options] = {
        "all of them": {"subscribe": names(*KINDS, *CODECS, "plain", "truncated")},
        "spaces and a repeated topic": {"subscribe": f"{PREFIX}plain , {PREFIX}odd,{PREFIX}plain"},
        "an empty topic and another": {"subscribe": names("empty", "plain")},
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
        "one partition of three": {"assign": json_of({"plain": [2]})},
        "partitions of two topics": {"assign": json_of({"plain": [0], "odd": [1]})},
        "a repeated partition": {"assign": json_of({"plain": [1, 1]})},
    }
    for name, options in ways.items():
        yield Batch("selections", name, options)


def numbers_of_tasks() -> Iterator[Case]:
    whole = {"subscribe": PREFIX + "plain"}
    for count in (1, 4, 7, 100):
        options = {**whole, "minPartitions": str(count)}
        yield Batch("numbers of tasks", f"minPartitions {count}", options)
    exact = {
        "startingOffsets": json_of({"plain": {"0": 0, "1": 0, "2": 0}}),
        "endingOffsets": json_of({"plain": {"0": 40, "1": 15, "2": 5}}),
    }
    for most in (3, 14, 15, 41):
        split = {"maxRecordsPerPartition": str(most)}
        yield Batch("numbers of tasks", f"maxRecordsPerPartition {most}", {**whole, **split})
        name = f"maxRecordsPerPartition {most}, start and end exact"
        yield Batch("numbers of tasks", name, {**whole, **exact, **split})


def queries() -> Iterator[Case]:
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
    return {"subscribe": names("plain", "odd", "transactions"), "includeHeaders": "true"}


def offset_mistakes() -> Iterator[Case]:
    """Starts and ends that cannot be right."""
    values: dict[str, tuple[Options, str]] = {
        "start beyond the end": ({"startingOffsets": offsets(plain1=100)}, "plain-1"),
        "start beyond the end, minPartitions 9": (
            {"startingOffsets": offsets(plain1=100), "minPartitions": "9"},
            "plain-1",
        ),
        "start beyond the end, loss allowed": (
            {"startingOffsets": offsets(plain1=100), "failOnDataLoss": "false"},
            "",
        ),
        "start latest": ({"startingOffsets": "latest"}, "startingOffsets"),
        "start -1": ({"startingOffsets": offsets(plain0=-1)}, "startingOffsets"),
        "start -3": ({"startingOffsets": offsets(plain0=-3)}, ""),
        "start is a number": ({"startingOffsets": "23"}, "startingOffsets"),
        "start is not JSON": ({"startingOffsets": "{plain"}, "startingOffsets"),
        "start and end in words": (
            {"startingOffsets": "earliest", "endingOffsets": "latest"},
            "",
        ),
        "endingTimestamp after the last record": ({"endingTimestamp": str(at_ms(1_000))}, ""),
        "start in capitals": ({"startingOffsets": "EARLIEST"}, ""),
        "start lacks a partition": (
            {
                "startingOffsets": json_of(
                    {"plain": {"0": 1, "1": 1}, "truncated": {"0": 10, "1": 25}}
                )
            },
            "plain",
        ),
        "start lacks a topic": ({"startingOffsets": json_of({"plain": {"0": 1}})}, "plain"),
        "start has another partition": (
            {
                "startingOffsets": json_of(
                    {"plain": dict.fromkeys("0123", 1), "truncated": {"0": 10, "1": 25}}
                )
            },
            "plain-3",
        ),
        "start has another topic": (
            {"startingOffsets": offsets()[:-1] + f',"{PREFIX}odd":{{"0":1}}}}'},
            "odd",
        ),
        "end earliest": ({"endingOffsets": "earliest"}, "endingOffsets"),
        "end -2": ({"endingOffsets": offsets(plain0=-2)}, "endingOffsets"),
        "end -3": ({"endingOffsets": offsets(plain0=-3)}, ""),
        "end lacks a partition": ({"endingOffsets": json_of({"plain": {"0": 1}})}, "plain"),
        "end is not JSON": ({"endingOffsets": "latest?"}, "endingOffsets"),
        "end beyond the end": (
            {"endingOffsets": offsets(plain0=50), "kafkaConsumer.pollTimeoutMs": "1500"},
            "plain-0",
        ),
        "end beyond the end, loss allowed": (
            {
                "endingOffsets": offsets(plain0=50),
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
            {"startingOffsetsByTimestamp": json_of({"plain": {"0": 1}})},
            "plain",
        ),
        "startingOffsetsByTimestamp is negative": (
            {"startingOffsetsByTimestamp": times(plain0=-2_000_000_000)},
            "",
        ),
        "startingOffsetsByTimestamp is not JSON": (
            {"startingOffsetsByTimestamp": "noon"},
            "startingOffsetsByTimestamp",
        ),
        "three starts": (
            {
                "startingOffsets": offsets(),
                "startingOffsetsByTimestamp": times(plain0=30),
                "startingTimestamp": str(at_ms(2)),
            },
            "",
        ),
        "two starts": (
            {"startingOffsets": "earliest", "startingOffsetsByTimestamp": times(plain0=30)},
            "",
        ),
        "three ends": (
            {
                "endingOffsets": offsets(),
                "endingOffsetsByTimestamp": times(plain0=30),
                "endingTimestamp": str(at_ms(53)),
            },
            "",
        ),
        "the strategy is unknown": (
            {"startingOffsetsByTimestampStrategy": "first", "startingTimestamp": str(at_ms(2))},
            "startingOffsetsByTimestampStrategy",
        ),
    }
    for name, (options, about) in values.items():
        yield Batch("mistaken offsets", name, SELECTIONS["subscribe"] | options, about)


def mistakes() -> Iterator[Case]:
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
        "a missing topic": ({"subscribe": names("plain", "missing")}, "missing"),
        "a missing topic, loss allowed": (
            {"subscribe": names("plain", "missing"), "failOnDataLoss": "false"},
            "missing",
        ),
        "a missing partition": ({"assign": json_of({"plain": [0, 7]})}, "plain-7"),
        "assign a missing topic": ({"assign": json_of({"missing": [0]})}, "missing"),
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
