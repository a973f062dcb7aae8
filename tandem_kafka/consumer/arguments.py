"""Checks of arguments; every error names the argument, its value and the allowed values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from kafka.util import ensure_valid_topic_name

from tandem_kafka.config.shown import show
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
    OffsetOfTopic,
    SubscriptionPattern,
    TopicPartition,
    epoch_of,
)

#: A name with one of these is meant as a pattern.
_REGEX: Final = frozenset("*+?^$|()[]{}\\")


def check_subscription(topics: Any, pattern: Any) -> frozenset[str]:
    """Return the topics to subscribe to; empty if there is a pattern.

    Raises:
        IllegalStateError: Both topics and a pattern are given.
        InvalidArgumentError: Neither is given, or a topic name is invalid.
        TypeError: `topics` is not a collection of str.
    """
    names = check_names(() if topics is None else topics)
    if names and pattern is not None:
        msg = f"subscribe() takes topics or a pattern, not both; got {show(topics)} and {pattern!r}"
        raise IllegalStateError(msg)
    if not names and pattern is None:
        msg = "subscribe() needs topics or a pattern; to end a subscription, call unsubscribe()"
        raise InvalidArgumentError(msg)
    return names


def check_names(topics: Any) -> frozenset[str]:
    """Return the names of topics to subscribe to.

    Raises:
        TypeError: `topics` is not a collection of str.
        InvalidArgumentError: A name is invalid.
    """
    names = check_topics(topics)
    for name in names:
        try:
            ensure_valid_topic_name(name)
        except ValueError as error:
            raise InvalidArgumentError(f"{error}{_advice_on(name)}") from None
    return names


def _advice_on(name: str) -> str:
    return f"; for a pattern, subscribe(pattern={show(name)})" if _REGEX.intersection(name) else ""


def check_topics(topics: Any) -> frozenset[str]:
    """Return topic names.

    Raises:
        TypeError: `topics` is not a collection of str.
        InvalidArgumentError: A name is blank.
    """
    if isinstance(topics, str | bytes) or not isinstance(topics, Iterable):
        advice = f"; pass [{show(topics)}]" if isinstance(topics, str) else ""
        msg = f"topics must be a collection of names, got {show(topics)}{advice}"
        raise TypeError(msg)
    names = list(topics)
    for name in names:
        if not isinstance(name, str):
            msg = f"a topic must be a str, got {show(name)}"
            if isinstance(name, Mapping):  # other clients take a dict of options
                msg += (
                    "; options are keyword arguments: KafkaConsumer('orders', "
                    "bootstrap_servers=...); for librdkafka's properties, use "
                    "tandem_kafka.confluent.Consumer"
                )
            elif isinstance(name, list | tuple | set | frozenset):
                msg += "; KafkaConsumer('a', 'b') and subscribe(['a', 'b']) take the names"
            raise ArgumentTypeError(msg)
        if not name.strip():
            msg = f"a topic must be a non-empty str, got {name!r}"
            raise InvalidArgumentError(msg)
    return frozenset(names)


def compile_pattern(pattern: Any) -> re.Pattern[str]:
    """Return a compiled pattern.

    Raises:
        InvalidArgumentError: It is neither a str nor a compiled pattern, or it does not compile.
    """
    if isinstance(pattern, re.Pattern):
        return pattern
    if not isinstance(pattern, str) or not pattern:
        msg = f"pattern must be a non-empty str or a compiled re pattern, got {pattern!r}"
        raise InvalidArgumentError(msg)
    try:
        return re.compile(pattern)
    except re.error as error:
        msg = f"pattern {pattern!r} is not a valid regular expression: {error}"
        raise InvalidArgumentError(msg) from error


def check_partition(partition: Any, name: str = "partition") -> TopicPartition:
    """Return a partition.

    Raises:
        TypeError: It is not a TopicPartition.
        InvalidArgumentError: Its topic is blank or its partition number is negative.
    """
    if not isinstance(partition, TopicPartition):
        kind = type(partition)
        given = f"{partition!r} of type {kind.__module__}.{kind.__qualname__}"
        msg = f"{name} must be a tandem_kafka.TopicPartition, got {given}"
        if isinstance(partition, str):
            msg += f"; write TopicPartition({partition!r}, 0)"
        raise TypeError(msg)
    fields: Any = partition  # without the declared types: users may put anything into the tuple
    topic, number = fields
    if not isinstance(topic, str) or not topic.strip():
        msg = f"the topic of {name} must be a non-empty str, got {partition!r}"
        raise InvalidArgumentError(msg)
    if not isinstance(number, int) or number < 0:
        msg = f"the partition number of {name} must be an int of at least 0, got {partition!r}"
        raise InvalidArgumentError(msg)
    return partition


def check_partitions(partitions: Any) -> tuple[TopicPartition, ...]:
    """Return the partitions in order, without duplicates.

    Raises:
        TypeError: It is not a collection of TopicPartition.
        InvalidArgumentError: A partition is invalid.
    """
    if isinstance(partitions, TopicPartition | str) or not isinstance(partitions, Iterable):
        msg = f"partitions must be a collection of TopicPartition, got {partitions!r}"
        raise ArgumentTypeError(msg)
    return tuple(dict.fromkeys(check_partition(tp) for tp in partitions))


def each_partition(partitions: Iterable[Any]) -> tuple[TopicPartition, ...]:
    """Return the partitions that a method takes as positional arguments.

    Raises:
        TypeError: One of them is not a TopicPartition.
        InvalidArgumentError: One of them is invalid.
    """
    return tuple([check_partition(tp) for tp in partitions])


def check_offset(offset: Any) -> OffsetAndMetadata:
    """Return the target of a seek, given as an int or as an OffsetAndMetadata.

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
    """Return a copy of the offsets to commit.

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
            msg = f"the offset of {tp} must be an OffsetAndMetadata, got {offset!r}"
            if isinstance(offset, int):
                msg += f"; write OffsetAndMetadata({offset}, '', -1)"
            raise TypeError(msg)
        _check_number(offset.offset, f"the offset of {tp}")
        copy[tp] = (
            offset
            if isinstance(offset, OffsetOfTopic)
            else OffsetAndMetadata(offset.offset, offset.metadata or "", epoch_of(offset))
        )
    return copy


def check_limit(max_records: Any, default: int) -> int:
    """Return the maximum number of records of a poll.

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


def check_wait(name: str, duration_ms: Any) -> None:
    """Check a duration in milliseconds.

    Raises:
        ArgumentTypeError: It is not a number.
        InvalidArgumentError: It is negative, or NaN.
    """
    if isinstance(duration_ms, bool) or not isinstance(duration_ms, int | float):
        msg = f"{name} must be a number of milliseconds, such as 1000, got {duration_ms!r}"
        raise ArgumentTypeError(msg)
    if not duration_ms >= 0:
        msg = f"{name} must be at least 0, got {duration_ms!r}"
        raise InvalidArgumentError(msg)


def check_leave(leave_group: Any) -> LeaveOperation:
    """Return whether close() leaves the group.

    Raises:
        InvalidArgumentError: It is not a `LeaveOperation`.
    """
    try:
        return LeaveOperation(leave_group)
    except ValueError:
        allowed = ", ".join(repr(each.value) for each in LeaveOperation)
        msg = f"leave_group must be one of {allowed}, got {leave_group!r}"
        raise InvalidArgumentError(msg) from None


def check_regex(pattern: SubscriptionPattern, protocol: str) -> str:
    """Return the regular expression of a pattern that the coordinator matches.

    Raises:
        InvalidArgumentError: It is empty.
        UnsupportedVersionError: The classic protocol does not support it.
    """
    if not str(pattern.pattern or "").strip():
        msg = f"the pattern of a SubscriptionPattern must not be empty, got {pattern.pattern!r}"
        raise InvalidArgumentError(msg)
    if protocol == "classic":
        msg = (
            "SubscriptionPattern needs group_protocol='consumer' or 'auto'; "
            "group_protocol='classic' matches a str or re.Pattern in the client"
        )
        raise UnsupportedVersionError(msg)
    return pattern.pattern


def check_timestamps(timestamps: Any) -> dict[TopicPartition, int]:
    """Return a copy of the timestamps to look up.

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
        try:
            whole = int(timestamp)
        except (TypeError, ValueError):
            msg = (
                f"the timestamp of {tp} must be a number of milliseconds since 1970, got "
                f"{timestamp!r}; of a datetime it is int(at.timestamp() * 1000)"
            )
            raise ArgumentTypeError(msg) from None
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
    """Check that no deserializer or interceptor needs `ConsumerRecord` objects.

    Raises:
        IllegalStateError: A deserializer or an interceptor does.
    """
    if deserializing:
        msg = (
            "poll_arrow() returns bytes and cannot be used with key_deserializer or "
            "value_deserializer: create the consumer without them, and decode the columns"
        )
        raise IllegalStateError(msg)
    if intercepting:
        msg = (
            "poll_arrow() creates no ConsumerRecord objects and cannot be used with interceptors "
            "that have on_consume(): remove them from interceptor_classes, or call poll()"
        )
        raise IllegalStateError(msg)
