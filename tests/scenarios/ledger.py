"""A ledger of the produced records: which ones readers must receive."""

from __future__ import annotations

from tandem_kafka.types import TopicPartition
from tandem_kafka_testing.cluster.transactions import Transaction
from tandem_kafka_testing.simulation import Simulation
from tests.histories.operations import Outcome
from tests.scenarios.history import History
from tests.scenarios.numbered_records import next_values, value_of

__all__ = ["Ledger", "OpenTransaction"]


class OpenTransaction:
    """The records of a transaction that is not yet committed or aborted."""

    def __init__(self, transaction: Transaction) -> None:
        self.transaction = transaction
        self.offsets: dict[TopicPartition, set[int]] = {}


class Ledger:
    """Knows the offsets that hold no record for readers.

    With `read_committed`, readers skip aborted records and transaction markers. Records dropped by
    retention may have been read before or not.

    Attributes:
        open: Transactions that are not yet committed or aborted.
    """

    def __init__(self, simulation: Simulation, history: History) -> None:
        self._history = history
        self._cluster = simulation.cluster
        self._simulation = simulation
        self._gaps: dict[TopicPartition, set[int]] = {}
        self.open: list[OpenTransaction] = []
        self._incarnations: dict[str, int] = {}

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

    # --- producing -----------------------------------------------------------------------------

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
            self._history.produced(tp, first, values, "acknowledged")
            return
        first = opened.transaction.produce(tp, *next_values(self._simulation, tp, count))
        opened.offsets.setdefault(tp, set()).update(range(first, first + count))

    def end(self, opened: OpenTransaction, *, commit: bool) -> None:
        """Commit or abort a transaction; its markers and aborted records are not due."""
        self.open.remove(opened)
        for tp, offsets in opened.offsets.items():
            for offset in offsets:
                outcome: Outcome = "acknowledged" if commit else "aborted"
                self._history.produced(tp, offset, [value_of(tp, offset)], outcome)
            gaps = self._gaps.setdefault(tp, set())
            gaps.add(self._cluster.at(tp).log.end_offset)
            if not commit:
                gaps |= offsets
        if commit:
            opened.transaction.commit()
        else:
            opened.transaction.abort()
