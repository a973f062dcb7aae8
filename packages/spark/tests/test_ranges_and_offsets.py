"""How offsets are split into tasks, and what Spark's offset log keeps of them."""

from __future__ import annotations

import itertools

import pytest

import packages.spark.tests.session  # noqa: F401 - skips all of this without pyspark
from tandem_kafka.types import TopicPartition

from pyspark_tandem_kafka.offsets import (  # isort: skip - see session
    StreamOffset,
    rate_limited,
)
from pyspark_tandem_kafka.ranges import OffsetRange, split  # isort: skip

ENDS = {TopicPartition("orders", 0): 5, TopicPartition("orders", 1): 7}


@pytest.mark.parametrize(
    ("sizes", "wanted", "tasks"),
    [
        ([100, 100, 100, 1_000], 10, 10),  # small ones are whole, and count as a task each
        ([10] * 30 + [5_000, 5_000], 40, 40),
        ([1_000], 7, 7),
        ([3], 10, 3),  # a task has a record at least
        ([5, 0, 5], 1, 2),  # a partition without records has no task
    ],
)
def test_a_batch_has_as_many_tasks_as_min_partitions(
    sizes: list[int], wanted: int, tasks: int
) -> None:
    ranges = [OffsetRange("orders", number, 50, 50 + size) for number, size in enumerate(sizes)]
    found = split(ranges, min_partitions=wanted)
    assert len(found) == tasks
    offsets = sorted((part.partition, part.start, part.end) for part in found)
    for each in ranges:
        parts = [(start, end) for number, start, end in offsets if number == each.partition]
        assert sum(end - start for start, end in parts) == each.size
        assert all(before[1] == after[0] for before, after in itertools.pairwise(parts))


@pytest.mark.parametrize(
    ("size", "most", "sizes"), [(40, 7, [6, 6, 7, 7, 7, 7]), (10, 4, [3, 3, 4]), (7, 7, [7])]
)
def test_the_last_parts_of_a_range_are_the_larger_ones(
    size: int, most: int, sizes: list[int]
) -> None:
    """As with Spark's connector: a task has the same records."""
    found = sorted(split([OffsetRange("orders", 0, 50, 50 + size)], max_records=most), key=_start)
    assert [part.size for part in found] == sizes
    assert (found[0].start, found[-1].end) == (50, 50 + size)


def _start(part: OffsetRange) -> int:
    return part.start


@pytest.mark.parametrize("beginning", [{}, {TopicPartition("orders", 1): 3}, ENDS])
def test_the_end_of_a_first_batch_keeps_its_beginning(beginning: dict[TopicPartition, int]) -> None:
    """Also if there was no partition: the batch must not start again at a later end."""
    offset = StreamOffset(ENDS, beginning=beginning)
    assert StreamOffset.from_json(offset.to_json()) == offset


def test_a_limited_batch_has_a_record_of_each_backlog() -> None:
    """Otherwise a small backlog beside a large one would never be read."""
    small, large = ENDS
    found = rate_limited(10, {small: 0, large: 0}, {small: 1, large: 10_000})
    assert found == {small: 1, large: 9}
