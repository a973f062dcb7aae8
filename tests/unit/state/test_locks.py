"""Ranges of locked offsets, of which a broker may send any number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from tandem_kafka.state.locks import LockedRange, joined, overlapping


@pytest.mark.parametrize(
    ("ranges", "expected"),
    [
        ([(0, 0, 1), (1, 1, 1), (2, 5, 1)], [(0, 5, 1)]),
        ([(4, 5, 1), (0, 1, 1), (2, 3, 1)], [(0, 3, 1), (4, 5, 1)]),
        ([(0, 1, 1), (2, 3, 2)], [(0, 1, 1), (2, 3, 2)]),
        ([(0, 1, 1), (3, 4, 1)], [(0, 1, 1), (3, 4, 1)]),
        ([(0, 1, 1), (1, 2, 1)], [(0, 1, 1), (1, 2, 1)]),
        ([(0, 3, 1), (4, 2, 1)], [(0, 3, 1), (4, 2, 1)]),
    ],
)
def test_neighbours_of_the_same_count_are_one(
    ranges: Sequence[LockedRange], expected: Sequence[LockedRange]
) -> None:
    assert joined(ranges, 10) == expected


def test_no_more_ranges_are_read_than_may_be() -> None:
    def endless() -> Iterator[LockedRange]:
        number = 0
        while True:
            yield number, number, 1
            number += 2

    assert joined(endless(), 3) == [(0, 0, 1), (2, 2, 1), (4, 4, 1), (6, 6, 1)]


class Counted(list[LockedRange]):
    """Counts which of its items are looked at."""

    looked = 0

    def __getitem__(self, at):  # type: ignore[no-untyped-def, override]
        self.looked += not isinstance(at, slice)
        return super().__getitem__(at)


@pytest.mark.parametrize("first", [-5, 0, 1, 2, 9, 10, 11, 20])
@pytest.mark.parametrize("size", [1, 2, 3, 30])
def test_overlapping_ranges(first: int, size: int) -> None:
    ranges = [(0, 1, 1), (2, 2, 2), (5, 9, 1), (11, 15, 1)]
    last = first + size - 1
    expected = [each for each in ranges if each[0] <= last and first <= each[1]]
    assert overlapping(ranges, first, last) == expected


def test_few_of_many_ranges_are_looked_at() -> None:
    """Each of one response was compared with each of another."""
    ranges = Counted((2 * number, 2 * number, 1) for number in range(10_000))
    assert not overlapping(ranges, 5_001, 5_001)
    assert 0 < ranges.looked < 40
