"""The last records of several partitions, in the order of their timestamps."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tandem_kafka.runtime import Clock
from tandem_kafka.tables.reader import SpanReader
from tandem_kafka.tables.span import Span
from tandem_kafka.types import ConsumerRecord, TopicPartition

if TYPE_CHECKING:
    from tandem_kafka import KafkaConsumer


Record: TypeAlias = ConsumerRecord[Any, Any]

#: Compacted topics and transactions have offsets without a record: then a longer range is read.
_WIDER: Final = 10


def last_records(
    consumer: KafkaConsumer, partitions: Sequence[TopicPartition], count: int, clock: Clock
) -> tuple[list[Record], dict[TopicPartition, int]]:
    """Return the last records of all partitions together, and where each partition ended.

    Raises:
        CommandError: A partition cannot be read.
    """
    ends = consumer.end_offsets(partitions)
    if not count:
        return [], ends
    kept = last_of_each(consumer, ends, count, clock)
    found = [record for records in kept.values() for record in records]
    found.sort(key=lambda record: (record.timestamp, record.partition, record.offset))
    return found[-count:], ends


def last_of_each(
    consumer: KafkaConsumer, ends: Mapping[TopicPartition, int], count: int, clock: Clock
) -> dict[TopicPartition, deque[Record]]:
    """Return the last records before the given end of each partition.

    Raises:
        CommandError: A partition cannot be read.
    """
    beginnings = consumer.beginning_offsets([*ends])
    found: dict[TopicPartition, deque[Record]] = {}
    incomplete, width = set(ends), count
    while incomplete:
        first = {tp: max(beginnings[tp], ends[tp] - width) for tp in incomplete}
        kept = _read(consumer, Span(first, {tp: ends[tp] for tp in incomplete}), count, clock)
        found.update(kept)
        incomplete = {
            tp for tp in incomplete if len(kept[tp]) < count and first[tp] > beginnings[tp]
        }
        width *= _WIDER
    return found


def _read(
    consumer: KafkaConsumer, span: Span, count: int, clock: Clock
) -> dict[TopicPartition, deque[Record]]:
    kept: dict[TopicPartition, deque[Record]] = {tp: deque(maxlen=count) for tp in span.first}
    for batch in SpanReader(consumer, span, clock).batches():
        for record in batch:
            kept[TopicPartition(record.topic, record.partition)].append(record)
    return kept
