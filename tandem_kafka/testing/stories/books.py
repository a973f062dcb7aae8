"""What a story has produced, and what of it readers are to see."""

from __future__ import annotations

from tandem_kafka.testing.cluster.transactions import Transaction
from tandem_kafka.testing.simulation import Simulation
from tandem_kafka.testing.stories.numbered import next_values
from tandem_kafka.types import TopicPartition

__all__ = ["Books", "Work"]


class Work:
    """The records of a transaction that is not over."""

    def __init__(self, transaction: Transaction) -> None:
        self.transaction = transaction
        self.offsets: dict[TopicPartition, set[int]] = {}


class Books:
    """Offsets of a story's partitions that hold no record, or one that does not count.

    Readers leave out what was aborted (`read_committed`) and the markers of transactions; what
    retention has dropped they may have read before.
    """

    def __init__(self, simulation: Simulation) -> None:
        self._cluster = simulation.cluster
        self._simulation = simulation
        self._gaps: dict[TopicPartition, set[int]] = {}
        #: Transactions that are not over.
        self.open: list[Work] = []
        #: How often each topic was made anew.
        self._lives: dict[str, int] = {}

    def life_of(self, topic: str) -> int:
        """Return how often a topic was made anew."""
        return self._lives.get(topic, 0)

    def recreate(self, topic: str) -> None:
        """Delete a topic and make another one of the same name; what it holds tells it apart."""
        self._cluster.recreate_topic(topic)
        self._lives[topic] = self.life_of(topic) + 1
        for tp in [tp for tp in self._gaps if tp.topic == topic]:
            del self._gaps[tp]

    def first_due(self, tp: TopicPartition, offset: int) -> int:
        """Return the first offset, not before `offset`, of a record that counts or may yet."""
        gaps = self._gaps.get(tp, ())
        while offset in gaps:
            offset += 1
        return offset

    def last_due(self, tp: TopicPartition, offset: int) -> int:
        """The same for who has not seen what retention has dropped."""
        return self.first_due(tp, max(offset, self._cluster.at(tp).log.start_offset))

    def is_undecided(self, tp: TopicPartition, offset: int) -> bool:
        """Tell whether a record is of a transaction that is not over."""
        return any(offset in work.offsets.get(tp, ()) for work in self.open)

    # --- producing -----------------------------------------------------------------------------

    def begin(self) -> Work:
        """Begin a transaction."""
        work = Work(self._cluster.transaction())
        self.open.append(work)
        return work

    def produce(self, tp: TopicPartition, count: int, work: Work | None = None) -> None:
        """Append records whose values tell their offsets, as a part of a transaction's work."""
        if work is None:
            life = self.life_of(tp.topic)
            self._cluster.produce(tp, *next_values(self._simulation, tp, count, life))
            return
        first = work.transaction.produce(tp, *next_values(self._simulation, tp, count))
        work.offsets.setdefault(tp, set()).update(range(first, first + count))

    def end(self, work: Work, *, commit: bool) -> None:
        """End a transaction; its markers, and its records if it is aborted, do not count."""
        self.open.remove(work)
        for tp, offsets in work.offsets.items():
            gaps = self._gaps.setdefault(tp, set())
            gaps.add(self._cluster.at(tp).log.end_offset)
            if not commit:
                gaps |= offsets
        if commit:
            work.transaction.commit()
        else:
            work.transaction.abort()
