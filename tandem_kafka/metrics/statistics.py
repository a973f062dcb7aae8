"""kafka-python's statistics, updated with batches of measurements.

A sensor of kafka-python takes about 10 µs per measurement, most of it to find the current sample.
This matters when there is a poll() or fetch every few hundred microseconds. Measurements are
therefore collected and written several times a second.
"""

from __future__ import annotations

import tandem_kafka.runtime.kafka_python  # noqa: F401 - before any module of kafka-python

from typing import Any, NamedTuple

from kafka.metrics import stats
from kafka.metrics.stats.rate import SampledTotal, TimeUnit


class Batch(NamedTuple):
    """Measurements of one sensor, made at about the same time.

    Attributes:
        number: Number of measurements.
        total: Their sum.
        highest: The highest of them.
    """

    number: int
    total: float
    highest: float


class _Sampled:
    """Adds a batch to the current sample."""

    def record(self: Any, config: Any, batch: Batch, now: float) -> None:
        sample = self.current(now)
        if sample.is_complete(now, config):
            sample = self._advance(config, now)
        sample.value = self.added(sample.value, batch)
        sample.event_count += batch.number


class Avg(_Sampled, stats.Avg):
    """The mean of the measurements."""

    def added(self, value: float, batch: Batch) -> float:
        """Return the sum of a sample and a batch."""
        return value + batch.total


class Max(_Sampled, stats.Max):
    """The highest measurement."""

    def added(self, value: float, batch: Batch) -> float:
        """Return the maximum of a sample and a batch."""
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
    """The number of measurements since the start."""

    def record(self, config: Any, batch: Batch, now: float) -> None:
        """Add a batch."""
        super().record(config, batch.number, now)


def rate() -> Any:
    """Return a statistic of the sum per second."""
    return stats.Rate(sampled_stat=_Sum())


def occurrence_rate(unit: Any = TimeUnit.SECONDS) -> Any:
    """Return a statistic of the number of measurements per unit of time."""
    return stats.Rate(unit, _Count())
