"""Ranges of offsets, one for each Spark task, and how they are split."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from uuid import UUID

from pyspark.sql.datasource import InputPartition

from tandem_kafka.types import NO_TOPIC_ID, TopicPartition


@dataclass(frozen=True)
class OffsetRange(InputPartition):
    """The offsets that one task reads: from `start` up to but not including `end`.

    Attributes:
        topic_id: The id of the topic that was planned; a recreated one has others. All zeros if it
            is not known.
    """

    topic: str
    partition: int
    start: int
    end: int
    topic_id: UUID = NO_TOPIC_ID

    @property
    def tp(self) -> TopicPartition:
        """The topic and partition of the range."""
        return TopicPartition(self.topic, self.partition)

    @property
    def size(self) -> int:
        """The number of offsets; there may be fewer records."""
        return self.end - self.start

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} [{self.start}, {self.end})"


def split(
    ranges: Iterable[OffsetRange],
    *,
    min_partitions: int | None = None,
    max_records: int | None = None,
) -> list[OffsetRange]:
    """Split ranges so that each has at most `max_records`, and at least `min_partitions` result.

    Empty ranges are dropped. Large ranges come first, so that a stage does not end with a long
    task.
    """
    nonempty = [each for each in ranges if each.size > 0]
    if max_records is not None:
        nonempty = [
            part for each in nonempty for part in _cut(each, math.ceil(each.size / max_records))
        ]
    if min_partitions is not None and len(nonempty) < min_partitions:
        nonempty = _at_least(nonempty, min_partitions)
    return sorted(nonempty, key=lambda each: (-each.size, each.topic, each.partition, each.start))


def _at_least(ranges: list[OffsetRange], count: int) -> list[OffsetRange]:
    """Split large ranges in proportion to size; small ones stay whole and are not counted."""
    total = sum(each.size for each in ranges)
    whole = [each for each in ranges if _rounded(each.size / total * count) <= 1]
    large = [each for each in ranges if _rounded(each.size / total * count) > 1]
    large_size = sum(each.size for each in large)
    share = max(1, count - len(whole))
    cut = [
        part
        for each in large
        for part in _cut(each, max(1, _rounded(each.size / large_size * share)))
    ]
    return whole + cut


def _rounded(number: float) -> int:
    """Round half up like Java, not half to even like Python."""
    return math.floor(number + 0.5)


def _cut(each: OffsetRange, parts: int) -> list[OffsetRange]:
    """Split a range into nonempty parts of two sizes, the larger ones last, like the connector."""
    parts = min(parts, each.size)
    size, larger = divmod(each.size, parts)
    edges = [
        each.start + size * number + max(0, number - (parts - larger))
        for number in range(parts + 1)
    ]
    return [replace(each, start=first, end=last) for first, last in itertools.pairwise(edges)]
