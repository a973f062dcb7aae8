"""What the application was given before, and the counts of the next deliveries."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest

from tandem_kafka.runtime import Random
from tandem_kafka.state.deliveries import (
    MOST_DELIVERIES,
    MOST_REMEMBERED,
    Deliveries,
    add_delivery,
    counted_on,
)
from tandem_kafka.state.locks import LockedRange
from tandem_kafka.types import TopicPartition
from tests.unit.state.test_locks import Counted

TP = TopicPartition("orders", 0)


@pytest.mark.parametrize(
    ("earlier", "expected"),
    [
        ([], [(3, 9, 2)]),
        ([(0, 2, 5), (3, 9, 1), (10, 12, 5)], [(3, 9, 2)]),
        ([(0, 12, 2)], [(3, 9, 3)]),
        ([(0, 4, 4)], [(3, 4, 5), (5, 9, 2)]),
        ([(9, 9, 2)], [(3, 8, 2), (9, 9, 3)]),
        ([(4, 6, 3), (7, 7, 2)], [(3, 3, 2), (4, 6, 4), (7, 7, 3), (8, 9, 2)]),
        ([(3, 4, 1), (5, 6, 0), (7, 9, 1)], [(3, 9, 2)]),
        ([(3, 9, MOST_DELIVERIES)], [(3, 9, MOST_DELIVERIES)]),
    ],
)
def test_a_delivery_has_a_count_above_the_earlier_ones(
    earlier: Sequence[LockedRange], expected: Sequence[LockedRange]
) -> None:
    assert counted_on((3, 9, 2), earlier) == expected


@pytest.mark.parametrize("seed", range(200))
def test_each_offset_keeps_its_highest_count_until_it_comes_no_more(seed: int) -> None:
    random, deliveries, counts = Random(seed), Deliveries(), dict[int, int]()
    for _ in range(60):
        first = random.randrange(30)
        last = first + random.randrange(8)
        count = random.randrange(1, 4)
        offsets = range(first, last + 1)
        if random.random() < 0.7:
            deliveries.add(TP, (first, last, count))
            counts |= {offset: max(counts.get(offset, 0), count) for offset in offsets}
        else:
            deliveries.remove(TP, first, last)
            counts = {offset: each for offset, each in counts.items() if offset not in offsets}
        found = deliveries.of(TP)
        assert {
            offset: each for begin, end, each in found for offset in range(begin, end + 1)
        } == counts
        assert sum(end - begin + 1 for begin, end, _ in found) == len(counts)
        for before, after in pairwise(found):
            assert before[1] < after[0], "not in order"
            assert before[1:] != (after[0] - 1, after[2]), "neighbours are not one"
        wanted = [max(count, counts.get(offset, 0) + 1) for offset in offsets]
        parts = counted_on((first, last, count), found)
        assert [each for begin, end, each in parts for _ in range(begin, end + 1)] == wanted
        assert [parts[0][0], *(begin for begin, _, _ in parts[1:]), last + 1] == [
            first,
            *(end + 1 for _, end, _ in parts),
        ]


def test_few_of_many_earlier_deliveries_are_looked_at() -> None:
    """Each row was compared with each of them."""
    earlier = Counted((2 * number, 2 * number, 1) for number in range(10_000))
    assert counted_on((5_000, 5_001, 1), earlier) == [(5_000, 5_000, 2), (5_001, 5_001, 1)]
    add_delivery(earlier, (5_001, 5_001, 1))
    assert 0 < earlier.looked < 150


def test_what_is_done_leaves_nothing() -> None:
    deliveries = Deliveries()
    deliveries.remove(TP, 0, 9)
    deliveries.add(TP, (0, 9, 1))
    deliveries.remove(TP, 0, 4)
    assert deliveries.of(TP) == [(5, 9, 1)]
    deliveries.remove(TP, 5, 20)
    assert deliveries.of(TP) == []
    assert not deliveries._ranges


@pytest.mark.parametrize("begin", [0, 1_000_000])
def test_the_ranges_farthest_from_a_new_one_are_forgotten(begin: int) -> None:
    """What others have done is behind; of a topic that was made anew, the offsets begin again."""
    deliveries = Deliveries()
    for number in range(MOST_REMEMBERED):
        deliveries.add(TP, (500_000 + 2 * number, 500_000 + 2 * number, 1))
    for number in range(MOST_REMEMBERED):
        deliveries.add(TP, (begin + 2 * number, begin + 2 * number, 1))
        assert len(deliveries.of(TP)) == MOST_REMEMBERED
    assert deliveries.of(TP) == [
        (begin + 2 * number, begin + 2 * number, 1) for number in range(MOST_REMEMBERED)
    ]


def test_a_bounded_number_of_partitions_is_remembered() -> None:
    deliveries = Deliveries()
    for number in range(MOST_REMEMBERED + 10):
        deliveries.add(TopicPartition(f"job-{number}", 0), (0, 0, 1))
    assert len(deliveries._ranges) == MOST_REMEMBERED
    assert deliveries.of(TopicPartition("job-9", 0)) == []
    assert deliveries.of(TopicPartition("job-10", 0)) == [(0, 0, 1)]
