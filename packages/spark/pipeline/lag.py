"""The lag of each query over time: records produced minus records processed."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from pipeline.progress import Batch

__all__ = ["Samples", "lag_over_time", "largest_lag"]

#: Pairs of a time in seconds and a number of records.
Samples = Sequence[tuple[float, int]]


def lag_over_time(produced: Samples, batches: Sequence[Batch]) -> list[tuple[float, int]]:
    """Return the lag at each time of `produced`, and at the end of each batch after them."""
    ends = [batch.end_s for batch in batches]
    found = [(at_s, written - _position(batches, ends, at_s)) for at_s, written in produced]
    if produced:
        last_s, total = produced[-1]
        found += [(each.end_s, total - each.position) for each in batches if each.end_s > last_s]
    return found


def largest_lag(produced: Samples, batches: Sequence[Batch]) -> int:
    """Return the largest lag after the first batch: before it, the query was not running."""
    first_s = batches[0].end_s if batches else float("inf")
    return max(
        (lag for at_s, lag in lag_over_time(produced, batches) if at_s >= first_s), default=0
    )


def _position(batches: Sequence[Batch], ends: Sequence[float], at_s: float) -> int:
    number = bisect_right(ends, at_s)
    return batches[number - 1].position if number else 0
