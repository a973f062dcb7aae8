"""Which records of a share partition a fetch acquires, and in which ranges.

A record that was offered half as often as the limit allows is offered in smaller ranges, and for
the last time alone: a record that ends its consumers then takes no others with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from tandem_kafka_testing.share.in_flight import Delivery, InFlightBatch, Span

#: Records are not offered in smaller ranges before this number of deliveries.
_FIRST_THROTTLED: Final = 2


class Acquired(NamedTuple):
    """Offsets that a member has acquired, with their delivery count."""

    first: int
    last: int
    deliveries: int


@dataclass(frozen=True, slots=True)
class Acquisition:
    """What a fetch of a member may acquire.

    Attributes:
        max_records: The number of records after which no further batch is acquired.
        batch_size: Number of records from which on a range ends with the batch of the log.
        exact: Whether `max_records` is a limit within batches, too (KIP-1206).
    """

    member_id: str
    max_records: int
    batch_size: int
    exact: bool = False


@dataclass(slots=True)
class Acquiring:
    """One acquisition.

    Attributes:
        log_batches: The batches that were read from the log.
        last: The last offset that may be acquired.
        lock_ends_ms: When the acquired records are released.
        most_deliveries: The limit of deliveries.
    """

    request: Acquisition
    log_batches: Sequence[Span]
    last: int
    lock_ends_ms: int
    most_deliveries: int

    @property
    def _throttled_from(self) -> int:
        return max(_FIRST_THROTTLED, (self.most_deliveries + 1) // 2)

    def new(self, first: int, last: int, most: int) -> tuple[list[InFlightBatch], list[Acquired]]:
        """Acquire offsets for the first time; returns the batches in flight and the ranges.

        The batches end with batches of the log. An exact limit leaves the rest of one available.
        """
        member_id, exact = self.request.member_id, self.request.exact
        if most < last - first + 1:
            last = self._end_of_batch(first + most - 1)
        spans = [Span(first, last)] if exact else self._ranges(first, last)
        batches = [InFlightBatch(*span, Delivery()) for span in spans]
        for batch in batches:
            batch.whole.acquire(member_id, self.lock_ends_ms)
        if exact and last - first + 1 > most:
            rest = batches[0].split()
            for offset in range(first + most, last + 1):
                rest[offset] = Delivery()
            return batches, [Acquired(first, first + most - 1, 1)]
        return batches, [Acquired(*span, 1) for span in spans]

    def _end_of_batch(self, offset: int) -> int:
        ends = (span.last for span in self.log_batches if span.first <= offset <= span.last)
        return next(ends, offset)

    def _ranges(self, first: int, last: int) -> list[Span]:
        """Return the ranges of new records, each of one batch of the log or more."""
        found: list[Span] = []
        size = self.request.batch_size
        for span in self.log_batches if last - first + 1 > size else ():
            if span.first > last:
                break
            if span.first - first >= size:
                found.append(Span(first, span.first - 1))
                first = span.first
        return [*found, Span(first, last)]

    def again(self, known: Sequence[InFlightBatch], most: int) -> tuple[list[Acquired], bool]:
        """Acquire released records; returns the ranges, and whether others may follow them."""
        found: list[Acquired] = []
        begin, count = self.log_batches[0].first, 0
        for batch in known:
            left = most - count
            if left <= 0:
                return found, False
            throttled = self._is_throttled(batch, begin)
            if throttled and count:
                return found, False
            cut = self.request.exact and batch.size > left
            if batch.each is None and not batch.whole.available:
                continue
            if batch.each is None and batch.within(begin, self.last) and not (cut or throttled):
                batch.whole.acquire(self.request.member_id, self.lock_ends_ms)
                found.append(Acquired(batch.first, batch.last, batch.whole.count))
                count += batch.size
                continue
            offsets = self._acquire_each(batch, begin, left)
            found += _merged(offsets)
            count += len(offsets)
            if throttled and offsets:
                return found, False
        return found, count < most

    def _is_throttled(self, batch: InFlightBatch, begin: int) -> bool:
        counts = (
            delivery.count
            for span, delivery in batch.parts()
            if delivery.available and (batch.each is None or begin <= span.first <= self.last)
        )
        return max(counts, default=0) >= self._throttled_from

    def _acquire_each(self, batch: InFlightBatch, begin: int, left: int) -> list[Acquired]:
        """Acquire offsets of a batch, one by one."""
        found: list[Acquired] = []
        limit, isolates = None, self.most_deliveries > _FIRST_THROTTLED
        for offset, delivery in batch.split().items():
            if not (begin <= offset <= self.last and delivery.available):
                continue
            if isolates and found and delivery.count == self.most_deliveries - 1:
                break
            excess = delivery.count - self._throttled_from
            if limit is None and excess >= 0:
                limit = max(1, batch.size >> (excess + 1))
            delivery.acquire(self.request.member_id, self.lock_ends_ms)
            found.append(Acquired(offset, offset, delivery.count))
            alone = isolates and delivery.count == self.most_deliveries
            full = self.request.exact and len(found) == left
            if alone or full or len(found) == limit:
                break
        return found


def _merged(offsets: Sequence[Acquired]) -> list[Acquired]:
    """Return ranges of neighbours with equal delivery counts."""
    found: list[Acquired] = []
    for each in offsets:
        before = found[-1] if found else None
        if before is not None and (before.last + 1, before.deliveries) == (
            each.first,
            each.deliveries,
        ):
            found[-1] = before._replace(last=each.last)
        else:
            found.append(each)
    return found


def without(acquired: Sequence[Acquired], removed: Sequence[Span]) -> list[Acquired]:
    """Return what is left of the ranges."""
    left = list(acquired)
    for span in removed:
        cut: list[Acquired] = []
        for each in left:
            if each.last < span.first or each.first > span.last:
                cut.append(each)
                continue
            if each.first < span.first:
                cut.append(each._replace(last=span.first - 1))
            if each.last > span.last:
                cut.append(each._replace(first=span.last + 1))
        left = cut
    return left
