"""kafka-python's statistics, given many measurements at once.

One of its sensors takes about 10 µs for a measurement, most of it to find the sample of the
moment. With a poll() or a fetch every few hundred microseconds that is felt, so measurements are
collected and written several times a second.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kafka.metrics import stats
from kafka.metrics.stats.rate import SampledTotal, TimeUnit

__all__ = ["Avg", "Batch", "Max", "Occurrences", "Total", "occurrence_rate", "rate"]


class Batch(NamedTuple):
    """Measurements of one sensor, taken at about the same time."""

    number: int
    total: float
    highest: float


class _Sampled:
    """Puts a batch into the sample of the moment."""

    def record(self: Any, config: Any, batch: Batch, now: float) -> None:
        sample = self.current(now)
        if sample.is_complete(now, config):
            sample = self._advance(config, now)
        sample.value = self.added(sample.value, batch)
        sample.event_count += batch.number


class Avg(_Sampled, stats.Avg):
    """The mean of the measurements."""

    def added(self, value: float, batch: Batch) -> float:
        """Return a sample's sum with a batch in it."""
        return value + batch.total


class Max(_Sampled, stats.Max):
    """The highest measurement."""

    def added(self, value: float, batch: Batch) -> float:
        """Return a sample's maximum with a batch in it."""
        return max(value, batch.highest)


class _Sum(_Sampled, SampledTotal):
    def added(self, value: float, batch: Batch) -> float:
        return value + batch.total


class _Count(_Sampled, stats.Count):
    def added(self, value: float, batch: Batch) -> float:
        return value + batch.number


class Total(stats.Total):
    """The sum since the start."""

    def record(self, config: Any, batch: Batch, now: float) -> None:
        """Add a batch."""
        super().record(config, batch.total, now)


class Occurrences(stats.Total):
    """Counts the measurements since the start."""

    def record(self, config: Any, batch: Batch, now: float) -> None:
        """Add a batch."""
        super().record(config, batch.number, now)


def rate() -> Any:
    """Make a statistic of the sum per second."""
    return stats.Rate(sampled_stat=_Sum())


def occurrence_rate(unit: Any = TimeUnit.SECONDS) -> Any:
    """Make a statistic of the measurements per second, or per another unit."""
    return stats.Rate(unit, _Count())
