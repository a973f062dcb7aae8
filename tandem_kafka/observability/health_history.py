"""What the page shows besides the present: the lag of the last minutes, and the last rebalances."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tandem_kafka import Health, TopicPartition

INTERVAL_MS: Final = 5_000
#: Ten minutes.
SAMPLES: Final = 120
REBALANCES: Final = 10
#: With more partitions, only the lag of all together is kept.
PARTITIONS: Final = 200
#: The share of a core that samples may take.
SHARE: Final = 0.002


@dataclass(frozen=True, slots=True)
class Sample:
    """The lag at one moment; that of a partition is None while it is unknown."""

    at_ms: int
    total: int
    lags: Mapping[TopicPartition, int | None]


@dataclass(frozen=True, slots=True)
class Rebalance:
    """A new generation or member epoch, and the changes of the assignment."""

    at_ms: int
    generation_id: int
    added: int
    removed: int


class History:
    """The past of one consumer. Tuples, so that other threads can read them meanwhile.

    Attributes:
        samples: The last ten minutes, the oldest first.
        rebalances: The last ones, the newest first.
    """

    def __init__(self) -> None:
        self.samples: tuple[Sample, ...] = ()
        self.rebalances: tuple[Rebalance, ...] = ()
        #: None before the first sample.
        self._generation_id: int | None = None
        self._assigned: frozenset[TopicPartition] = frozenset()

    def add(self, health: Health, at_ms: int) -> None:
        """Add a sample."""
        lags = {tp: each.lag for tp, each in health.partitions.items()}
        total = sum(lag or 0 for lag in lags.values())
        sample = Sample(at_ms, total, lags if len(lags) <= PARTITIONS else {})
        self.samples = (*self.samples, sample)[-SAMPLES:]
        self._compare(health, at_ms)

    def _compare(self, health: Health, at_ms: int) -> None:
        """Note a rebalance since the last sample."""
        before = self._generation_id, self._assigned
        assigned = frozenset(health.partitions)
        if None not in before and before != (health.generation_id, assigned):
            added, removed = len(assigned - self._assigned), len(self._assigned - assigned)
            rebalance = Rebalance(at_ms, health.generation_id, added, removed)
            self.rebalances = (rebalance, *self.rebalances)[:REBALANCES]
        self._generation_id, self._assigned = health.generation_id, assigned

    def of(self, partition: TopicPartition) -> list[int | None]:
        """Return the lag of a partition in the last ten minutes, the oldest first."""
        return [sample.lags.get(partition) for sample in self.samples]

    def total(self) -> list[int | None]:
        """Return the lag of all partitions together, the oldest first."""
        return [sample.total for sample in self.samples]
