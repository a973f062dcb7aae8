"""The produced records: customers and orders, some late, duplicated or broken, by a seed."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Final

__all__ = [
    "BROKEN",
    "DELAY_MS",
    "PER_BATCH_SHARE",
    "SPAN_MS",
    "WINDOW_MS",
    "Customer",
    "Entry",
    "Kind",
    "Order",
    "customers",
    "entries",
]

_MINUTE_MS: Final = 60_000
#: The span of event times of a run.
SPAN_MS: Final = 180 * _MINUTE_MS
#: Length of a window of the job.
WINDOW_MS: Final = 10 * _MINUTE_MS
#: The watermark delay: how late an order may arrive.
DELAY_MS: Final = 30 * _MINUTE_MS
#: A micro-batch reads at most this share of the orders. Orders that are too late are produced after
#: several batches, so that the watermark has passed them regardless of the batches' content.
PER_BATCH_SHARE: Final = 1 / 6

#: A margin before the watermark for late orders, because partitions are not read in lockstep.
_LATE_MS: Final = 20 * _MINUTE_MS
_TOO_LATE_MS: Final = 60 * _MINUTE_MS
#: The share of the orders before the first one that is too late.
_TOO_LATE_FROM: Final = 2 / 3
#: The maximum delay of a copy.
_COPY_MS: Final = 10 * _MINUTE_MS

_COUNTRIES: Final = ("AT", "CH", "DE", "FR", "IT")
_CUSTOMERS: Final = 60


class Kind(StrEnum):
    """The kinds of orders, most of them defective."""

    ON_TIME = "on time"
    LATE = "late, within the watermark"
    COPY = "a duplicate"
    TOO_LATE = "too late"
    CLOSING = "the last one"
    CUT_OFF = "cut off"
    INCOMPLETE = "incomplete"
    WRONG_TYPE = "of the wrong type"
    WORTHLESS = "worthless"
    FROM_THE_FUTURE = "from the future"


#: The kinds that must become dead letters.
BROKEN: Final = (
    Kind.CUT_OFF,
    Kind.INCOMPLETE,
    Kind.WRONG_TYPE,
    Kind.WORTHLESS,
    Kind.FROM_THE_FUTURE,
)

_WEIGHTS: Final = {
    Kind.ON_TIME: 0.86,
    Kind.LATE: 0.06,
    Kind.COPY: 0.04,
    **dict.fromkeys(BROKEN, 0.005),
    Kind.TOO_LATE: 0.015,
}


@dataclass(frozen=True, slots=True)
class Order:
    """An order without defects."""

    id: int
    customer: str
    cents: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class Entry:
    """An order with its kind and production time."""

    kind: Kind
    order: Order


@dataclass(frozen=True, slots=True)
class Customer:
    """A record of the customers' topic; without a country the customer was deleted."""

    id: str
    country: str | None


def customers(seed: int) -> list[Customer]:
    """Return all records in order: some customers change their country, some are deleted."""
    chance = Random(f"customers {seed}")
    names = [f"c{number:02}" for number in range(_CUSTOMERS)]
    first = [Customer(name, chance.choice(_COUNTRIES)) for name in names]
    moved = [Customer(name, chance.choice(_COUNTRIES)) for name in names[: _CUSTOMERS // 3]]
    deleted = [Customer(name, None) for name in names[-3:]]
    return [*first, *moved, *deleted]


def entries(count: int, seed: int, begin_ms: int) -> Iterator[Entry]:
    """Yield the orders in the order of production.

    The last order is so far ahead that the watermark passes every window before it.

    Args:
        count: The number of orders, without duplicates and the last one.
        seed: Determines everything except the times.
        begin_ms: The event time of the first order.
    """
    chance = Random(f"orders {seed}")
    kinds, weights = list(_WEIGHTS), list(_WEIGHTS.values())
    copies: list[tuple[int, int, Order]] = []  # a heap of (time, number, entry)
    for number in range(count):
        now_ms = begin_ms + number * SPAN_MS // count
        while copies and copies[0][0] <= now_ms:
            yield Entry(Kind.COPY, heapq.heappop(copies)[2])
        kind = chance.choices(kinds, weights)[0]
        if kind is Kind.TOO_LATE and number < count * _TOO_LATE_FROM:
            kind = Kind.LATE
        customer = f"c{chance.randrange(_CUSTOMERS + 2):02}"  # two of them are unknown
        at_ms = _event_time(kind, now_ms, begin_ms, chance)
        order = Order(number, customer, chance.randint(1, 50_000), at_ms)
        if kind is Kind.COPY:
            heapq.heappush(copies, (now_ms + chance.randrange(_COPY_MS), number, order))
            kind = Kind.ON_TIME
        yield Entry(kind, order)
    for _, _, order in sorted(copies):
        yield Entry(Kind.COPY, order)
    closing_ms = begin_ms + SPAN_MS + DELAY_MS + 2 * WINDOW_MS
    yield Entry(Kind.CLOSING, Order(count, "c00", 1, closing_ms))


def _event_time(kind: Kind, now_ms: int, begin_ms: int, chance: Random) -> int:
    if kind is Kind.LATE:
        return now_ms - chance.randrange(_MINUTE_MS, _LATE_MS)
    if kind is Kind.TOO_LATE:
        return begin_ms - _TOO_LATE_MS - chance.randrange(_TOO_LATE_MS)
    return now_ms
