"""Ranges of offsets, one for each Spark task, and how they are cut."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass

from pyspark.sql.datasource import InputPartition

from tandem_kafka.types import TopicPartition

__all__ = ["OffsetRange", "split"]


@dataclass(frozen=True)
class OffsetRange(InputPartition):
    """What one task reads: `start` up to but not including `end`."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def tp(self) -> TopicPartition:
        """The partition it is of."""
        return TopicPartition(self.topic, self.partition)

    @property
    def size(self) -> int:
        """How many offsets there are; records may be fewer."""
        return self.end - self.start

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} [{self.start}, {self.end})"


def split(
    ranges: Iterable[OffsetRange],
    *,
    min_partitions: int | None = None,
    max_records: int | None = None,
) -> list[OffsetRange]:
    """Return ranges cut so that none has more than `max_records` and there are enough of them.

    Empty ranges go. The largest come first: the last task of a stage is then a short one.
    """
    wanted = [each for each in ranges if each.size > 0]
    if max_records is not None:
        wanted = [
            part for each in wanted for part in _cut(each, math.ceil(each.size / max_records))
        ]
    if min_partitions is not None and len(wanted) < min_partitions:
        wanted = _at_least(wanted, min_partitions)
    return sorted(wanted, key=lambda each: (-each.size, each.topic, each.partition, each.start))


def _at_least(ranges: list[OffsetRange], count: int) -> list[OffsetRange]:
    """Cut the large ones, weighed by size; what is small anyway stays whole and out of the sum."""
    total = sum(each.size for each in ranges)
    whole = [each for each in ranges if _rounded(each.size / total * count) <= 1]
    large = [each for each in ranges if _rounded(each.size / total * count) > 1]
    left = sum(each.size for each in large)
    share = max(1, count - len(whole))
    cut = [
        part for each in large for part in _cut(each, max(1, _rounded(each.size / left * share)))
    ]
    return whole + cut


def _rounded(number: float) -> int:
    """Round as Java does: half goes up, not to the even number."""
    return math.floor(number + 0.5)


def _cut(each: OffsetRange, parts: int) -> list[OffsetRange]:
    """Return nearly equal parts, never an empty one."""
    parts = min(parts, each.size)
    edges = [each.start + each.size * number // parts for number in range(parts + 1)]
    return [
        OffsetRange(each.topic, each.partition, first, last)
        for first, last in itertools.pairwise(edges)
    ]
