"""The expected figures of a run, computed without Spark, and the actual ones."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from pipeline.encoding import reason
from pipeline.orders import BROKEN, DELAY_MS, WINDOW_MS, Customer, Entry, Kind

__all__ = ["UNKNOWN", "DeadLetter", "Expected", "Found", "Row", "Total", "TotalKey", "expect"]

UNKNOWN: Final = "unknown"

#: Start of a window in ms, and the country.
TotalKey = tuple[int, str]


@dataclass(frozen=True, slots=True)
class Row:
    """An order with its country, as in the Parquet files."""

    customer: str
    country: str
    cents: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class Total:
    """The sums of a window and country."""

    orders: int
    cents: int


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A rejected record: its original value, and the reason."""

    value: bytes
    reason: str


@dataclass(slots=True)
class Expected:
    """The expected output.

    Attributes:
        kinds: The number of orders of each kind.
        ids: The ids of each kind.
        rows: The rows of the Parquet files, by id.
        totals: The final windows.
        dead_letters: The dead letters, by the key of the record.
        final_ms: The watermark at which all of `totals` are final.
    """

    kinds: Counter[Kind] = field(default_factory=Counter)
    ids: dict[Kind, set[int]] = field(default_factory=lambda: defaultdict(set))
    rows: dict[int, Row] = field(default_factory=dict)
    totals: dict[TotalKey, Total] = field(default_factory=dict)
    dead_letters: dict[str, DeadLetter] = field(default_factory=dict)
    final_ms: int = 0


@dataclass(slots=True)
class Found:
    """The actual output, with all copies.

    Attributes:
        records: The number of records in the topic of the orders.
        written: The time of each dead letter in the topic in seconds since the epoch, and its key.
    """

    records: int = 0
    rows: list[tuple[int, Row]] = field(default_factory=list)
    totals: list[tuple[TotalKey, Total]] = field(default_factory=list)
    dead_letters: list[tuple[str, DeadLetter]] = field(default_factory=list)
    written: list[tuple[float, str]] = field(default_factory=list)


def expect(
    produced: Iterable[Entry],
    customers: Sequence[Customer],
    encode: Callable[[Entry], bytes],
    form: str,
) -> Expected:
    """Compute the expected output; `form` is json or avro."""
    countries = {each.id: each.country for each in customers}  # the newest record wins
    found = Expected()
    for entry in produced:
        order = entry.order
        found.kinds[entry.kind] += 1
        found.ids[entry.kind].add(order.id)
        if entry.kind in BROKEN:
            letter = DeadLetter(encode(entry), reason(entry.kind, form))
            found.dead_letters[str(order.id)] = letter
        elif entry.kind not in (Kind.COPY, Kind.TOO_LATE):
            country = countries.get(order.customer) or UNKNOWN
            found.rows[order.id] = Row(order.customer, country, order.cents, order.at_ms)
        if entry.kind is Kind.CLOSING:
            found.final_ms = order.at_ms - DELAY_MS
    found.totals = _totals(found.rows.values(), found.final_ms)
    return found


def _totals(rows: Iterable[Row], final_ms: int) -> dict[TotalKey, Total]:
    windows: dict[TotalKey, list[int]] = defaultdict(list)
    for row in rows:
        begin_ms = row.at_ms // WINDOW_MS * WINDOW_MS
        if begin_ms + WINDOW_MS <= final_ms:
            windows[begin_ms, row.country].append(row.cents)
    return {key: Total(len(cents), sum(cents)) for key, cents in windows.items()}
