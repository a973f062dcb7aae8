"""The history of a run: what is produced, for whom it is due, and what everybody does.

At the end it is judged by the checks for real brokers (`tests.histories`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tandem_kafka.types import TopicPartition
from tandem_kafka_testing.cluster.transactions import Transaction
from tandem_kafka_testing.simulation import Simulation
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
from tests.scenarios.numbered_records import next_values, value_of
from tests.scenarios.violation import Violation

__all__ = ["History", "OpenTransaction"]


class OpenTransaction:
    """The records of a transaction that is not yet committed or aborted."""

    def __init__(self, transaction: Transaction) -> None:
        self.transaction = transaction
        self.offsets: dict[TopicPartition, set[int]] = {}


class History:
    """What producers, members and committers of a run did; it produces, too.

    With `read_committed`, readers skip aborted records and transaction markers. Records dropped by
    retention may have been read before or not.

    Args:
        simulation: The simulation.
        judged: False if records vanish: an anomaly then proves nothing.
        transactions: How many may be open at once.

    Attributes:
        open: Transactions that are not yet committed or aborted.
    """

    def __init__(self, simulation: Simulation, *, judged: bool, transactions: int = 0) -> None:
        self._simulation = simulation
        self._cluster = simulation.cluster
        self._clock = simulation.clock
        #: Offsets that hold no record for readers.
        self._gaps: dict[TopicPartition, set[int]] = {}
        self.open: list[OpenTransaction] = []
        self._incarnations: dict[str, int] = {}
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

    # --- what is due ---------------------------------------------------------------------------

    def incarnation_of(self, topic: str) -> int:
        """Return how often a topic was recreated."""
        return self._incarnations.get(topic, 0)

    def recreate(self, topic: str) -> None:
        """Delete a topic and create another one with its name; the values of records differ."""
        self._cluster.recreate_topic(topic)
        self._incarnations[topic] = self.incarnation_of(topic) + 1
        for tp in [tp for tp in self._gaps if tp.topic == topic]:
            del self._gaps[tp]

    def first_due(self, tp: TopicPartition, offset: int) -> int:
        """Return the first offset from `offset` on whose record readers receive, now or later."""
        gaps = self._gaps.get(tp, ())
        while offset in gaps:
            offset += 1
        return offset

    def last_due(self, tp: TopicPartition, offset: int) -> int:
        """Return the same for a reader that missed the records dropped by retention."""
        return self.first_due(tp, max(offset, self._cluster.at(tp).log.start_offset))

    def is_undecided(self, tp: TopicPartition, offset: int) -> bool:
        """Return whether a record belongs to an open transaction."""
        return any(offset in opened.offsets.get(tp, ()) for opened in self.open)

    def check_epoch(self, tp: TopicPartition, offset: int, epoch: int) -> None:
        """Check the epoch of a commit: if it ends before, the log seems truncated to that end."""
        log = self._cluster.at(tp).log
        if epoch >= 0 and log.end_of_epoch(epoch)[1] < offset:
            raise Violation(f"{tp}: {offset} committed with epoch {epoch}, which ends before")

    # --- producing -----------------------------------------------------------------------------

    def found(self, tp: TopicPartition) -> None:
        """Note the records that a partition has before the run."""
        values = [value_of(tp, offset) for offset in range(self._cluster.at(tp).log.end_offset)]
        self._produced(tp, 0, values, "acknowledged")

    def begin(self) -> OpenTransaction:
        """Begin a transaction."""
        opened = OpenTransaction(self._cluster.transaction())
        self.open.append(opened)
        return opened

    def produce(
        self, tp: TopicPartition, count: int, opened: OpenTransaction | None = None
    ) -> None:
        """Append records whose values name their offsets, if given as a part of a transaction."""
        if opened is None:
            first = self._cluster.at(tp).log.end_offset
            values = next_values(self._simulation, tp, count, self.incarnation_of(tp.topic))
            self._cluster.produce(tp, *values)
            self._produced(tp, first, values, "acknowledged")
            return
        first = opened.transaction.produce(tp, *next_values(self._simulation, tp, count))
        opened.offsets.setdefault(tp, set()).update(range(first, first + count))

    def end(self, opened: OpenTransaction, *, commit: bool) -> None:
        """Commit or abort a transaction; its markers and aborted records are not due."""
        self.open.remove(opened)
        for tp, offsets in opened.offsets.items():
            for offset in offsets:
                outcome: Outcome = "acknowledged" if commit else "aborted"
                self._produced(tp, offset, [value_of(tp, offset)], outcome)
            gaps = self._gaps.setdefault(tp, set())
            gaps.add(self._cluster.at(tp).log.end_offset)
            if not commit:
                gaps |= offsets
        if commit:
            opened.transaction.commit()
        else:
            opened.transaction.abort()

    def _produced(
        self, tp: TopicPartition, first: int, values: Iterable[bytes], outcome: Outcome
    ) -> None:
        """Note records, whose transaction has ended if they are a part of one."""
        (number,), now = self._numbers_of([tp]), self._now()
        self._operations += [
            Produced("producer", now, now, number, value.decode(), outcome, offset)
            for offset, value in enumerate(values, first)
        ]

    # --- members -------------------------------------------------------------------------------

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
