"""Compares the expected figures with the actual ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from pipeline.figures import UNKNOWN, Expected, Found
from pipeline.orders import Kind

__all__ = ["Line", "compare", "written_again"]

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Line:
    """A figure of the report."""

    name: str
    expected: int
    found: int

    @property
    def agrees(self) -> bool:
        """Whether both are equal."""
        return self.expected == self.found


def compare(expected: Expected, found: Found) -> list[Line]:
    """Return all figures."""
    return [
        Line("records of the orders' topic", expected.kinds.total(), found.records),
        *_of_orders(expected, found),
        *_of_dead_letters(expected, found),
        *_of_totals(expected, found),
    ]


def written_again(pairs: Iterable[tuple[Key, object]]) -> int:
    """Return the number of records whose key occurred before."""
    return sum(times - 1 for times in Counter(key for key, _ in pairs).values())


def _of_orders(expected: Expected, found: Found) -> list[Line]:
    ids = {number for number, _ in found.rows}
    surplus = len(found.rows) - len(ids)
    late, too_late = expected.ids[Kind.LATE], expected.ids[Kind.TOO_LATE]
    copies = expected.kinds[Kind.COPY]
    expected_rows = expected.rows.values()
    return [
        Line("orders in Parquet", len(expected.rows), len(found.rows)),
        Line("  of them late, within the watermark", len(late), len(late & ids)),
        Line(
            "  of them from unknown customers",
            sum(row.country == UNKNOWN for row in expected_rows),
            sum(row.country == UNKNOWN for _, row in found.rows),
        ),
        Line(
            "  sum of cents",
            sum(row.cents for row in expected_rows),
            sum(row.cents for _, row in found.rows),
        ),
        Line("  rows that differ", 0, _differing(expected.rows, found.rows)),
        Line("duplicates dropped", copies, copies - surplus),
        Line("too late, dropped", len(too_late), len(too_late - ids)),
    ]


def _of_dead_letters(expected: Expected, found: Found) -> list[Line]:
    expected_counts = Counter(letter.reason for letter in expected.dead_letters.values())
    actual = Counter(letter.reason for letter in dict(found.dead_letters).values())
    reasons = dict.fromkeys([*expected_counts, *actual])
    return [
        *(Line(f"dead letters: {each}", expected_counts[each], actual[each]) for each in reasons),
        Line("  letters that differ", 0, _differing(expected.dead_letters, found.dead_letters)),
    ]


def _of_totals(expected: Expected, found: Found) -> list[Line]:
    expected_totals, actual = expected.totals.values(), dict(found.totals).values()
    return [
        Line("totals, by window and country", len(expected_totals), len(actual)),
        Line(
            "  orders in them",
            sum(t.orders for t in expected_totals),
            sum(t.orders for t in actual),
        ),
        Line(
            "  cents in them", sum(t.cents for t in expected_totals), sum(t.cents for t in actual)
        ),
        Line("  totals that differ", 0, _differing(expected.totals, found.totals)),
    ]


def _differing(expected: Mapping[Key, object], found: Iterable[tuple[Key, object]]) -> int:
    """Return the number of keys that are missing, unexpected, or ever have a wrong value."""
    pairs = list(found)
    wrong = {key for key, value in pairs if expected.get(key) != value}
    return len(wrong | (expected.keys() - {key for key, _ in pairs}))
