"""The options of source and sink, each with its default, parser and description.

Names, defaults and precedence follow Spark's own Kafka connector. Options that exist only here
begin with `tandem.`, except `commitOffsetsToGroup`. Names are not case-sensitive.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Final

from pyspark_tandem_kafka.client import servers_of
from pyspark_tandem_kafka.offsets import (
    EARLIEST,
    LATEST,
    At,
    Limit,
    Since,
    parse_offsets,
    parse_partitions,
    parse_timestamps,
)
from tandem_kafka.errors import InvalidArgumentError
from tandem_kafka.types import TopicPartition, names_of

_UNITS_MS: Final = {
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}


def _text(name: str, value: str) -> str:
    if not value.strip():
        raise InvalidArgumentError(f"{name} must not be empty")
    return value


def _number(least: int) -> Callable[[str, str], int]:
    def parse(name: str, value: str) -> int:
        try:
            number = int(value)
        except ValueError:
            number = least - 1
        if number < least:
            raise InvalidArgumentError(
                f"{name} must be a whole number of at least {least}, got {value!r}"
            )
        return number

    return parse


def _flag(name: str, value: str) -> bool:
    if value.lower() not in {"true", "false"}:
        raise InvalidArgumentError(f"{name} must be true or false, got {value!r}")
    return value.lower() == "true"


def _duration_ms(name: str, value: str) -> int:
    found = re.fullmatch(r"\s*(\d+)\s*([a-z]*)\s*", value.lower())
    unit = _UNITS_MS.get(found[2] or "ms") if found else None
    if found is None or unit is None:
        raise InvalidArgumentError(f"{name} must be a duration such as 15m, got {value!r}")
    return int(found[1]) * unit


def _strategy(name: str, value: str) -> str:
    if value.lower() not in {"error", "latest"}:
        raise InvalidArgumentError(f"{name} must be error or latest, got {value!r}")
    return value.lower()


@dataclass(frozen=True, slots=True)
class SourceOption:
    """The definition of an option.

    Attributes:
        streaming: True if only streams accept it, False if only batch queries do, None for both.
    """

    name: str
    default: Any
    parse: Callable[[str, str], Any]
    doc: str
    streaming: bool | None = None


def _at_time(name: str, value: str) -> Since:
    return Since(_number(0)(name, value))


#: The source's options, `kafka.*` apart.
SOURCE: Final = (
    SourceOption("subscribe", None, _text, "Topics, separated by commas."),
    SourceOption(
        "subscribePattern", None, _text, "Regular expression that occurs in the names of topics."
    ),
    SourceOption("assign", None, parse_partitions, "Partitions, as JSON."),
    SourceOption(
        "startingOffsets",
        None,
        lambda name, value: parse_offsets(name, value, edges=(EARLIEST, LATEST)),
        "earliest, latest, or JSON with an offset for each partition (-2 earliest, -1 latest).",
    ),
    SourceOption(
        "startingOffsetsByTimestamp",
        None,
        parse_timestamps,
        "JSON with a time in ms for each partition; overrides startingOffsets.",
    ),
    SourceOption(
        "startingTimestamp", None, _at_time, "A time in ms for all partitions; overrides both."
    ),
    SourceOption(
        "startingOffsetsByTimestampStrategy",
        "error",
        _strategy,
        "What to do if no record is at or after the time: error, or latest.",
    ),
    SourceOption(
        "endingOffsets",
        LATEST,
        lambda name, value: parse_offsets(name, value, edges=(LATEST,)),
        "latest, or JSON with an offset for each partition (-1 latest).",
        streaming=False,
    ),
    SourceOption(
        "endingOffsetsByTimestamp",
        None,
        parse_timestamps,
        "JSON with a time in ms for each partition; overrides endingOffsets.",
        streaming=False,
    ),
    SourceOption(
        "endingTimestamp",
        None,
        _at_time,
        "A time in ms for all partitions; overrides both.",
        streaming=False,
    ),
    SourceOption("failOnDataLoss", True, _flag, "Fail if offsets to read no longer exist."),
    SourceOption("minPartitions", None, _number(1), "Split ranges into at least this many tasks."),
    SourceOption("maxRecordsPerPartition", None, _number(1), "Split ranges larger than this."),
    SourceOption("includeHeaders", False, _flag, "Add the column headers."),
    SourceOption(
        "maxOffsetsPerTrigger",
        None,
        _number(1),
        "Maximum offsets of a micro-batch, divided in proportion to the backlog.",
        streaming=True,
    ),
    SourceOption(
        "minOffsetsPerTrigger",
        None,
        _number(1),
        "Wait until this many offsets are available, or maxTriggerDelay has passed.",
        streaming=True,
    ),
    SourceOption(
        "maxTriggerDelay",
        15 * 60_000,
        _duration_ms,
        "Maximum wait for minOffsetsPerTrigger.",
        streaming=True,
    ),
    SourceOption(
        "kafkaConsumer.pollTimeoutMs",
        120_000,
        _number(1),
        "Milliseconds that a task waits for the next record.",
    ),
    SourceOption("fetchOffset.numRetries", 3, _number(0), "Retries of an offset lookup."),
    SourceOption("fetchOffset.retryIntervalMs", 10, _number(0), "Milliseconds between retries."),
    SourceOption(
        "groupIdPrefix", None, _text, "Prefix of the client name in brokers' logs and quotas."
    ),
    SourceOption(
        "commitOffsetsToGroup",
        None,
        _text,
        "Group to which finished batches are committed, for lag monitoring.",
        streaming=True,
    ),
    SourceOption("tandem.batchBytes", 1 << 20, _number(1), "Approximate bytes of an Arrow batch."),
    SourceOption(
        "tandem.filterPushdown",
        False,
        _flag,
        "Use filters on topic, partition, offset and timestamp to read less; needs "
        "spark.sql.python.filterPushdown.enabled=true.",
        streaming=False,
    ),
)

#: The sink's options, `kafka.*` apart.
SINK: Final = (
    SourceOption("topic", None, _text, "Topic of all rows; overrides the column topic."),
    SourceOption(
        "includeHeaders", False, _flag, "Accepted for compatibility: headers are always written."
    ),
    SourceOption(
        "tandem.flushTimeoutMs",
        120_000,
        _number(1),
        "Milliseconds that a task waits for the delivery of its rows.",
    ),
    SourceOption(
        "tandem.transactionalIdPrefix",
        None,
        _text,
        "Write each task in a Kafka transaction; the prefix must be unique to the query.",
    ),
    SourceOption(
        "tandem.transactionEpoch",
        None,
        _text,
        "Name of this write in a batch query; reuse it when the write is repeated.",
    ),
)

#: Options that Spark itself adds.
_ADDED_BY_SPARK: Final = frozenset({"path", "checkpointlocation", "queryname", "outputmode"})
_TOPIC_OPTIONS: Final = ("subscribe", "subscribePattern", "assign")


@dataclass(frozen=True, slots=True)
class Topics:
    """The topics or partitions to read: exactly one field is set."""

    names: tuple[str, ...] = ()
    pattern: str | None = None
    assigned: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """The options of a source, with defaults applied."""

    topics: Topics
    starting: Limit
    ending: Limit
    error_without_match: bool
    fail_on_data_loss: bool
    min_partitions: int | None
    max_records_per_partition: int | None
    include_headers: bool
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay_ms: int
    poll_timeout_ms: int
    retries: int
    retry_interval_ms: int
    group_id_prefix: str | None
    commit_group: str | None
    batch_bytes: int
    filter_pushdown: bool
    kafka: Mapping[str, str] = field(repr=False)

    @classmethod
    def parse(cls, options: Mapping[str, str], *, streaming: bool) -> SourceOptions:
        """Parse the user's options and apply defaults.

        Raises:
            InvalidArgumentError: An option is unknown or missing, or its value is not allowed.
        """
        given, kafka = _given(SOURCE, options, strict=True)
        for option in SOURCE:
            if option.streaming is not None and option.name in given:
                _check_kind(option, streaming=streaming)
        start = (
            given.get("startingTimestamp")
            or given.get("startingOffsetsByTimestamp")
            or given.get("startingOffsets")
            or (LATEST if streaming else EARLIEST)
        )
        if not streaming:
            _check_start_of_batch(start)
        least, most = given.get("minOffsetsPerTrigger"), given.get("maxOffsetsPerTrigger")
        if least is not None and most is not None and least > most:
            raise InvalidArgumentError(
                f"minOffsetsPerTrigger ({least}) must not exceed maxOffsetsPerTrigger ({most})"
            )
        settled = {option.name: given.get(option.name, option.default) for option in SOURCE}
        return cls(
            topics=_topics(given),
            starting=start,
            ending=given.get("endingTimestamp")
            or given.get("endingOffsetsByTimestamp")
            or settled["endingOffsets"],
            error_without_match=settled["startingOffsetsByTimestampStrategy"] == "error",
            fail_on_data_loss=settled["failOnDataLoss"],
            min_partitions=settled["minPartitions"],
            max_records_per_partition=settled["maxRecordsPerPartition"],
            include_headers=settled["includeHeaders"],
            max_offsets_per_trigger=most,
            min_offsets_per_trigger=least,
            max_trigger_delay_ms=settled["maxTriggerDelay"],
            poll_timeout_ms=settled["kafkaConsumer.pollTimeoutMs"],
            retries=settled["fetchOffset.numRetries"],
            retry_interval_ms=settled["fetchOffset.retryIntervalMs"],
            # Follows the connector: with an explicit group id, there is nothing to prefix.
            group_id_prefix=(
                None if {"group.id", "group_id"} & kafka.keys() else settled["groupIdPrefix"]
            ),
            commit_group=settled["commitOffsetsToGroup"],
            batch_bytes=settled["tandem.batchBytes"],
            filter_pushdown=settled["tandem.filterPushdown"],
            kafka=kafka,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """The options of a sink, with defaults applied."""

    topic: str | None
    flush_timeout_ms: int
    transactional_id_prefix: str | None
    transaction_epoch: str | None
    kafka: Mapping[str, str] = field(repr=False)

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SinkOptions:
        """Parse the user's options and apply defaults; unrelated options of Spark are ignored.

        Raises:
            InvalidArgumentError: An option is misspelt or missing, or its value is not allowed.
        """
        given, kafka = _given(SINK, options, strict=False)
        settled = {option.name: given.get(option.name, option.default) for option in SINK}
        prefix = settled["tandem.transactionalIdPrefix"]
        if prefix is None and "tandem.transactionEpoch" in given:
            raise InvalidArgumentError(
                "tandem.transactionEpoch requires transactions: also set "
                "tandem.transactionalIdPrefix"
            )
        return cls(
            topic=settled["topic"],
            flush_timeout_ms=settled["tandem.flushTimeoutMs"],
            transactional_id_prefix=prefix,
            transaction_epoch=settled["tandem.transactionEpoch"],
            kafka=kafka,
        )


def _given(
    table: tuple[SourceOption, ...], options: Mapping[str, str], *, strict: bool
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the parsed options by canonical name, and the `kafka.` options without the prefix."""
    known = {option.name.lower(): option for option in table}
    given: dict[str, Any] = {}
    kafka: dict[str, str] = {}
    for key, value in options.items():
        name = key.lower()
        if name.startswith("kafka."):
            kafka[name.removeprefix("kafka.")] = value
        elif name in known:
            option = known[name]
            given[option.name] = option.parse(option.name, value)
        elif name not in _ADDED_BY_SPARK:
            near = get_close_matches(name, known, n=1)
            if strict or near:
                raise InvalidArgumentError(_unknown(key, near, known))
    if not servers_of(kafka):
        raise InvalidArgumentError(
            "the option kafka.bootstrap.servers is missing: give the addresses of one or more "
            "brokers as host:port, separated by commas"
        )
    return given, kafka


def _unknown(key: str, near: list[str], known: Mapping[str, SourceOption]) -> str:
    hint = f" (did you mean {known[near[0]].name}?)" if near else ""
    names = ", ".join(option.name for option in known.values())
    return f"there is no option {key!r}{hint}; there are {names}, and client options as kafka.*"


def _check_kind(option: SourceOption, *, streaming: bool) -> None:
    if option.streaming is not streaming:
        kind = "a stream" if streaming else "a batch query"
        raise InvalidArgumentError(f"{option.name} is not an option of {kind}")


def _check_start_of_batch(start: Limit) -> None:
    """Reject a start at the end, where a batch query would always read nothing."""
    starts = start.offsets.items() if isinstance(start, At) else ()
    late = [tp for tp, at in starts if at is LATEST]
    if start is LATEST or late:
        which = f" ({names_of(late)}: -1)" if late else ""
        raise InvalidArgumentError(
            f"startingOffsets: a batch query cannot start at latest{which}; give earliest, -2 or "
            "an offset"
        )


def _topics(given: Mapping[str, Any]) -> Topics:
    chosen = [name for name in _TOPIC_OPTIONS if name in given]
    if len(chosen) != 1:
        found = " and ".join(chosen) or "none of them"
        advice = "remove all but one" if chosen else 'for instance, set subscribe="orders"'
        raise InvalidArgumentError(
            f"give exactly one of {', '.join(_TOPIC_OPTIONS)}; you gave {found}: {advice}"
        )
    if "assign" in given:
        return Topics(assigned=given["assign"])
    if "subscribePattern" in given:
        pattern = given["subscribePattern"].strip()
        try:
            re.compile(pattern)
        except re.error as error:
            message = f"subscribePattern is not a valid regular expression: {error}"
            raise InvalidArgumentError(message) from None
        return Topics(pattern=pattern)
    names = [name.strip() for name in given["subscribe"].split(",")]
    named = tuple(dict.fromkeys(name for name in names if name))
    if not named:
        raise InvalidArgumentError(f"subscribe has no topic: {given['subscribe']!r}")
    return Topics(names=named)
