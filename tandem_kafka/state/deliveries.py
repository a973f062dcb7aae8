"""What the application was given of each partition, and may be given again.

A broker forgets deliveries: it stores them with what ends them, so a new leader counts again from
what was stored. Kafka 4.1 also takes back those that end with a session. A row of a record batch
has its delivery count, and no other sign of its lock. So each delivery gets a count above those
before it, whatever the broker says.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Final

from tandem_kafka.state.locks import LockedRange, joined, overlapping
from tandem_kafka.types import TopicPartition

#: The largest delivery count: it has 16 bits.
MOST_DELIVERIES: Final = 2**15 - 1
#: The most ranges of a partition that are remembered: as many as the offsets of it that a broker
#: has in flight by default (`group.share.partition.max.record.locks`). And the most partitions.
MOST_REMEMBERED: Final = 2_000


class Deliveries:
    """Deliveries that were not, as far as is known, the last ones of their records.

    They are kept by the name of the topic: a row has no other, if a topic is deleted and made anew.
    Writer: the network thread.
    """

    def __init__(self) -> None:
        #: In order, and each offset once, with its highest count.
        self._ranges: dict[TopicPartition, list[LockedRange]] = {}

    def of(self, tp: TopicPartition) -> list[LockedRange]:
        """Return those of a partition, in order; any thread may call this."""
        return self._ranges.get(tp, []).copy()

    def add(self, tp: TopicPartition, delivered: LockedRange) -> None:
        """Note a delivery."""
        ranges = self._ranges.setdefault(tp, [])
        add_delivery(ranges, delivered)
        # What is in flight is close together, so it is never the farthest.
        first, last, _ = delivered
        while len(ranges) > MOST_REMEMBERED:
            ranges.pop(0 if first - ranges[0][1] > ranges[-1][0] - last else -1)
        if len(self._ranges) > MOST_REMEMBERED:
            del self._ranges[next(iter(self._ranges))]

    def remove(self, tp: TopicPartition, first: int, last: int) -> None:
        """Note that records come no more."""
        ranges = self._ranges.get(tp)
        if ranges is not None:
            _replace(ranges, first, last, ())
            if not ranges:
                del self._ranges[tp]


def add_delivery(ranges: list[LockedRange], delivered: LockedRange) -> None:
    """Add a delivery to ranges, which are in order and have each offset once."""
    _replace(ranges, *delivered[:2], _with_counts(delivered, ranges))


def counted_on(locked: LockedRange, earlier: Sequence[LockedRange]) -> list[LockedRange]:
    """Return a range in parts whose delivery counts are above those of earlier deliveries.

    Args:
        locked: The range.
        earlier: The earlier deliveries, in order and each offset once.
    """
    found = overlapping(earlier, *locked[:2])
    above = [(first, last, min(count + 1, MOST_DELIVERIES)) for first, last, count in found]
    return _with_counts(locked, above)


def _with_counts(locked: LockedRange, others: Sequence[LockedRange]) -> list[LockedRange]:
    """Return a range in parts whose counts are not below those of others."""
    first, last, count = locked
    parts: list[LockedRange] = []
    for begin, end, other in overlapping(others, first, last):
        parts.append((first, begin - 1, count))
        parts.append((max(first, begin), min(last, end), max(count, other)))
        first = end + 1
    return _joined([*parts, (first, last, count)])


def _replace(
    ranges: list[LockedRange], first: int, last: int, parts: Iterable[LockedRange]
) -> None:
    """Replace what ranges have of some offsets."""
    begin = bisect_left(ranges, first - 1, key=itemgetter(1))
    end = bisect_right(ranges, last + 1, begin, key=itemgetter(0))
    around = ranges[begin:end]  # with the neighbours, which may become one with the parts
    before = [(start, min(stop, first - 1), count) for start, stop, count in around]
    behind = [(max(start, last + 1), stop, count) for start, stop, count in around]
    # Invariant: one call. The reader may copy them meanwhile.
    ranges[begin:end] = _joined([*before, *parts, *behind])


def _joined(parts: Sequence[LockedRange]) -> list[LockedRange]:
    return joined((each for each in parts if each[0] <= each[1]), len(parts))
