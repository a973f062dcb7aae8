"""Checks of what users pass in; every error names the argument, the value and what is allowed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from kafka.util import ensure_valid_topic_name

from tandem_kafka.errors import (
    ArgumentTypeError,
    IllegalStateError,
    InvalidArgumentError,
    UnsupportedVersionError,
)
from tandem_kafka.types import (
    UNKNOWN_EPOCH,
    LeaveOperation,
    OffsetAndMetadata,
    SubscriptionPattern,
    TopicPartition,
    epoch_of,
)

__all__ = [
    "check_arrow_usable",
    "check_leave",
    "check_limit",
    "check_offset",
    "check_offsets",
    "check_partition",
    "check_partitions",
    "check_regex",
    "check_subscription",
    "check_timestamps",
    "check_topics",
    "compile_pattern",
    "each_partition",
]


def check_subscription(topics: Any, pattern: Any) -> frozenset[str]:
    """Return the names of topics to subscribe to, none if there is a pattern.

    Raises:
        IllegalStateError: There are names and a pattern.
        InvalidArgumentError: There is neither, or a name is not allowed.
        TypeError: The topics are no collection, or one of them is no str.
    """
    names = check_topics(() if topics is None else topics)
    if names and pattern is not None:
        msg = "subscribe() takes topics or a pattern, not both"
        raise IllegalStateError(msg)
    if not names and pattern is None:
        msg = "subscribe() needs topics or a pattern; to drop a subscription call unsubscribe()"
        raise InvalidArgumentError(msg)
    for name in names:
        _check_topic_name(name)
    return names


def _check_topic_name(name: str) -> None:
    try:
        ensure_valid_topic_name(name)
    except ValueError as error:
        raise InvalidArgumentError(str(error)) from None


def check_topics(topics: Any) -> frozenset[str]:
    """Return topic names.

    Raises:
        TypeError: A string, or something that is not a collection of strings.
        InvalidArgumentError: An empty name.
    """
    if isinstance(topics, str | bytes) or not isinstance(topics, Iterable):
        msg = f"topics must be a collection of names, got {topics!r}"
        raise TypeError(msg)
    names = list(topics)
    for name in names:
        if not isinstance(name, str):
            msg = f"a topic must be a str, got {name!r}"
            raise ArgumentTypeError(msg)
        if not name.strip():
            msg = f"a topic must be a non-empty str, got {name!r}"
            raise InvalidArgumentError(msg)
    return frozenset(names)


def compile_pattern(pattern: Any) -> re.Pattern[str]:
    """Return a compiled pattern.

    Raises:
        InvalidArgumentError: It is neither a str nor a compiled pattern, or no regular expression.
    """
    if isinstance(pattern, re.Pattern):
        return pattern
    if not isinstance(pattern, str) or not pattern:
        msg = f"pattern must be a non-empty str or a compiled re pattern, got {pattern!r}"
        raise InvalidArgumentError(msg)
    try:
        return re.compile(pattern)
    except re.error as error:
        msg = f"pattern {pattern!r} is no regular expression: {error}"
        raise InvalidArgumentError(msg) from error


def check_partition(partition: Any, name: str = "partition") -> TopicPartition:
    """Return a partition.

    Raises:
        TypeError: It is not a TopicPartition.
        InvalidArgumentError: Its topic is empty or its number negative.
    """
    if not isinstance(partition, TopicPartition):
        msg = f"{name} must be a TopicPartition, got {partition!r}"
        raise TypeError(msg)
    topic, number = _unchecked(partition)
    if not isinstance(topic, str) or not topic.strip():
        msg = f"{name} must have a non-empty topic, got {partition!r}"
        raise InvalidArgumentError(msg)
    if not isinstance(number, int) or number < 0:
        msg = f"{name} must have a number of at least 0, got {partition!r}"
        raise InvalidArgumentError(msg)
    return partition


def _unchecked(fields: Any) -> Any:
    """Return what was put into a tuple, whatever its fields are declared to be."""
    return fields


def check_partitions(partitions: Any) -> tuple[TopicPartition, ...]:
    """Return partitions, each once and in order.

    Raises:
        TypeError: It is not a collection of TopicPartitions.
        InvalidArgumentError: It is None, or one of them is not allowed.
    """
    if partitions is None:
        msg = "partitions must be a collection of TopicPartition, got None"
        raise InvalidArgumentError(msg)
    if isinstance(partitions, TopicPartition | str) or not isinstance(partitions, Iterable):
        msg = f"partitions must be a collection of TopicPartition, got {partitions!r}"
        raise TypeError(msg)
    return tuple(dict.fromkeys(check_partition(tp) for tp in partitions))


def each_partition(partitions: Iterable[Any]) -> tuple[TopicPartition, ...]:
    """Return the partitions of a method that takes them as arguments.

    Raises:
        TypeError: One of them is not a TopicPartition.
        InvalidArgumentError: One of them is not allowed.
    """
    return tuple(check_partition(tp) for tp in partitions)


def check_offset(offset: Any) -> OffsetAndMetadata:
    """Return where to seek to: an int, or an OffsetAndMetadata with its leader epoch.

    Raises:
        TypeError: It is neither.
        InvalidArgumentError: It is negative.
    """
    if isinstance(offset, OffsetAndMetadata):
        _check_number(offset.offset, "offset")
        return offset
    _check_number(offset, "offset")
    return OffsetAndMetadata(offset, "", UNKNOWN_EPOCH)


def check_offsets(offsets: Any) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return a copy of offsets to commit.

    Raises:
        TypeError: It is not a mapping of TopicPartition to OffsetAndMetadata.
        InvalidArgumentError: An offset is negative.
    """
    if not isinstance(offsets, Mapping):
        msg = f"offsets must map TopicPartition to OffsetAndMetadata, got {offsets!r}"
        raise TypeError(msg)
    copy = {}
    for tp, offset in offsets.items():
        check_partition(tp, "a key of offsets")
        if not isinstance(offset, OffsetAndMetadata):
            msg = f"a value of offsets must be an OffsetAndMetadata, got {offset!r} for {tp}"
            raise TypeError(msg)
        _check_number(offset.offset, f"the offset of {tp}")
        copy[tp] = OffsetAndMetadata(offset.offset, offset.metadata or "", epoch_of(offset))
    return copy


def check_limit(max_records: Any, default: int) -> int:
    """Return how many records a poll may return.

    Raises:
        TypeError: It is not an int.
        InvalidArgumentError: It is not positive.
    """
    if max_records is None:
        return default
    _check_number(max_records, "max_records")
    if max_records == 0:
        msg = "max_records must be at least 1, got 0"
        raise InvalidArgumentError(msg)
    return max_records  # type: ignore[no-any-return]


def check_leave(leave_group: Any) -> LeaveOperation:
    """Return what close() does about the group.

    Raises:
        InvalidArgumentError: It is none of the three.
    """
    try:
        return LeaveOperation(leave_group)
    except ValueError:
        allowed = ", ".join(repr(each.value) for each in LeaveOperation)
        msg = f"leave_group must be one of {allowed}, got {leave_group!r}"
        raise InvalidArgumentError(msg) from None


def check_regex(pattern: SubscriptionPattern, protocol: str) -> str:
    """Return the expression of a pattern that the coordinator is to match.

    Raises:
        InvalidArgumentError: It is empty.
        UnsupportedVersionError: The classic protocol has no such thing.
    """
    if not str(pattern.pattern or "").strip():
        msg = f"a SubscriptionPattern must have a non-empty str, got {pattern.pattern!r}"
        raise InvalidArgumentError(msg)
    if protocol == "classic":
        msg = (
            "SubscriptionPattern needs group_protocol='consumer' or 'auto'; "
            "group_protocol='classic' matches a str or re.Pattern in the client"
        )
        raise UnsupportedVersionError(msg)
    return pattern.pattern


def check_timestamps(timestamps: Any) -> dict[TopicPartition, int]:
    """Return a copy of timestamps to look up.

    Raises:
        TypeError: It is not a mapping of TopicPartition to milliseconds.
        InvalidArgumentError: A timestamp is negative.
    """
    if not isinstance(timestamps, Mapping):
        msg = f"timestamps must map TopicPartition to milliseconds, got {timestamps!r}"
        raise TypeError(msg)
    copy = {}
    for tp, timestamp in timestamps.items():
        check_partition(tp, "a key of timestamps")
        whole = int(timestamp)
        _check_number(whole, f"the timestamp of {tp}")
        copy[tp] = whole
    return copy


def _check_number(value: Any, name: str) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        msg = f"{name} must be an int, got {value!r}"
        raise ArgumentTypeError(msg)
    if value < 0:
        msg = f"{name} must not be negative, got {value}"
        raise InvalidArgumentError(msg)


def check_arrow_usable(*, deserializing: bool, intercepting: bool) -> None:
    """Check that nothing wants to see single records.

    Raises:
        IllegalStateError: A deserializer or an interceptor does.
    """
    if deserializing:
        msg = (
            "poll_arrow() hands out bytes: it cannot be used with key_deserializer or "
            "value_deserializer"
        )
        raise IllegalStateError(msg)
    if intercepting:
        msg = "poll_arrow() makes no records: it cannot be used with interceptors' on_consume()"
        raise IllegalStateError(msg)
