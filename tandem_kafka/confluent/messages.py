"""`confluent_kafka`'s messages, made of our records and of events."""

from __future__ import annotations

from typing import Any, Final

from confluent_kafka import OFFSET_INVALID, TIMESTAMP_NOT_AVAILABLE, KafkaError, Message

from tandem_kafka.types import TopicPartition

#: Becomes None: only produced messages have a latency.
_NO_LATENCY: Final = -1.0


def message_of(item: Any) -> Message[bytes, bytes]:
    """Return a record as a message; an event is one already."""
    if type(item) is Message:
        return item
    topic, partition, epoch, offset, at_ms, kind, key, value, headers = item[:9]
    stamp = TIMESTAMP_NOT_AVAILABLE if kind is None or at_ms < 0 else kind + 1
    # Positional arguments take a third of the time of named ones.
    return Message(
        topic,
        partition,
        offset,
        key,
        value,
        [tuple(pair) for pair in headers] if headers else None,
        None,
        (stamp, at_ms),
        _NO_LATENCY,
        epoch,
    )


def error_message(
    error: KafkaError,
    topic: str | None = None,
    partition: int | None = None,
    offset: int = OFFSET_INVALID,
) -> Message[bytes, bytes]:
    """Return a message for an event, with its partition if given."""
    given: dict[str, Any] = {"topic": topic, "partition": partition}
    known = {name: value for name, value in given.items() if value is not None}
    return Message(offset=offset, value=error.str().encode(), error=error, **known)


def key_of(item: Any) -> TopicPartition | None:
    """Return the partition of a record, None for an event."""
    return None if type(item) is Message else TopicPartition(item[0], item[1])


def is_end_of(item: Any, tp: TopicPartition) -> bool:
    """Tell whether an item is the event of the end of a partition."""
    if type(item) is not Message:
        return False
    error = item.error()
    ends = error is not None and error.code() == KafkaError._PARTITION_EOF
    return ends and (item.topic(), item.partition()) == tp
