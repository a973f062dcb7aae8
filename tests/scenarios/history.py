"""The history of a run, for the checks that also judge real brokers (`tests.histories`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tandem_kafka.runtime import Clock
from tandem_kafka.types import TopicPartition
from tests.histories.anomalies import anomalies
from tests.histories.operations import (
    Assigned,
    Committed,
    Operation,
    Outcome,
    Polled,
    Produced,
    Released,
    Sought,
)
from tests.scenarios.violation import Violation

__all__ = ["History"]


class History:
    """What producers, members and committers of a run did.

    Args:
        clock: The clock of the simulation.
        judged: False if records vanish: an anomaly then proves nothing.
        transactions: How many may be open at once.
    """

    def __init__(self, clock: Clock, *, judged: bool, transactions: int = 0) -> None:
        self._clock = clock
        self._judged = judged
        self._transactions = transactions
        self._operations: list[Operation] = []
        #: Operations name partitions by numbers.
        self._numbers: dict[TopicPartition, int] = {}

    def _now(self) -> float:
        return self._clock.now_ms() / 1_000

    def _numbers_of(self, partitions: Iterable[TopicPartition]) -> tuple[int, ...]:
        numbers = self._numbers
        return tuple(numbers.setdefault(tp, len(numbers)) for tp in sorted(partitions))

    def produced(
        self, tp: TopicPartition, first: int, values: Iterable[bytes], outcome: Outcome
    ) -> None:
        """Note records, whose transaction has ended if they are a part of one."""
        (number,), now = self._numbers_of([tp]), self._now()
        self._operations += [
            Produced("producer", now, now, number, value.decode(), outcome, offset)
            for offset, value in enumerate(values, first)
        ]

    def polled(self, member: int, tp: TopicPartition, records: Sequence[Any]) -> None:
        """Note records that were handed out."""
        (number,), now = self._numbers_of([tp]), self._now()
        found = tuple((number, record.offset, record.value.decode()) for record in records)
        self._operations.append(Polled(str(member), now, now, found))

    def assigned(self, member: int, partitions: Iterable[TopicPartition]) -> None:
        """Note partitions that a member owns from now on."""
        self._operations.append(Assigned(str(member), self._now(), self._numbers_of(partitions)))

    def released(self, member: int, partitions: Iterable[TopicPartition], *, certain: bool) -> None:
        """Note partitions that a member no longer owns."""
        numbers = self._numbers_of(partitions)
        self._operations.append(Released(str(member), self._now(), numbers, certain))

    def sought(self, member: int, tp: TopicPartition, offset: int) -> None:
        """Note a seek."""
        (number,) = self._numbers_of([tp])
        self._operations.append(Sought(str(member), self._now(), number, offset))

    def committed(self, member: str, tp: TopicPartition, offset: int) -> None:
        """Note a commit of a member with this id."""
        (number,), now = self._numbers_of([tp]), self._now()
        self._operations.append(Committed(member, now, now, ((number, offset),)))

    def check(self) -> None:
        """Check that there is no anomaly."""
        found = anomalies(self._operations, self._transactions) if self._judged else []
        if found:
            raise Violation(str(found[0]))
