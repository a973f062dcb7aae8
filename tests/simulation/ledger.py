"""A ledger of the records handed out, with checks of each record and commit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka.consumer.reading.records import ConsumerRecords
from tandem_kafka.errors import KafkaTimeoutError
from tandem_kafka_testing import Simulation
from tests.scenarios.numbered_records import create_topic as topic
from tests.scenarios.numbered_records import produce, value_of

__all__ = ["Ledger", "produce", "reading", "topic", "value_of"]

#: The application thread may notice late: up to two extra steps of the driver.
LATE_MS = 15


class Ledger:
    """Reads through a consumer and checks every record and commit."""

    def __init__(
        self, simulation: Simulation, consumer: KafkaConsumer, partitions: Iterable[TopicPartition]
    ) -> None:
        self.simulation = simulation
        self.consumer = consumer
        self.next = dict.fromkeys(partitions, 0)
        self._commits_seen = len(simulation.cluster.commit_log)

    def poll(self, timeout_ms: int = 1_000, max_records: int | None = None) -> ConsumerRecords:
        """Poll; check duration, order, duplicates and the number of records."""
        began_ms = self.simulation.clock.now_ms()
        batch = self.consumer.poll(timeout_ms, max_records)
        took_ms = self.simulation.clock.now_ms() - began_ms
        assert took_ms <= timeout_ms + LATE_MS, f"poll({timeout_ms}) took {took_ms} ms"
        assert max_records is None or batch.count <= max_records
        for tp, records in batch.items():
            for record in records:
                assert record.offset == self.next[tp], f"{tp}: expected {self.next[tp]}, {record}"
                assert record.value == value_of(tp, record.offset)
                self.next[tp] = record.offset + 1
        self.check_commits()
        return batch

    def commit(self, timeout_ms: int) -> bool:
        """Commit; check that it is stored, or that it times out on time."""
        began_ms = self.simulation.clock.now_ms()
        wanted = {tp: offset for tp, offset in self.next.items() if offset}
        try:
            self.consumer.commit(timeout_ms=timeout_ms)
        except KafkaTimeoutError:
            took_ms = self.simulation.clock.now_ms() - began_ms
            assert timeout_ms <= took_ms <= timeout_ms + LATE_MS, f"{timeout_ms} took {took_ms}"
            return False
        finally:
            self.check_commits()
        group = self.consumer.group_metadata().group_id
        for tp, offset in wanted.items():
            stored = self.simulation.cluster.committed(group, tp)
            assert stored is not None, f"{tp}: nothing is committed"
            assert stored <= offset
        return True

    def check_commits(self) -> None:
        """Check that no commit is ahead of the records handed out."""
        log = self.simulation.cluster.commit_log
        for tp, (offset, _, _), _ in log[self._commits_seen :]:
            assert offset <= self.next[tp], f"{tp}: {offset} committed, {self.next[tp]} read"
        self._commits_seen = len(log)

    def read_all(self, within_ms: int = 300_000) -> None:
        """Read all records, and check that nothing follows."""
        cluster, clock = self.simulation.cluster, self.simulation.clock
        until_ms = clock.now_ms() + within_ms
        while any(self.next[tp] < cluster.at(tp).log.end_offset for tp in self.next):
            assert clock.now_ms() < until_ms, f"stuck at {self.next}"
            self.poll()
        assert not self.poll(2_000)


def reading(simulation: Simulation, tp: TopicPartition, **options: Any) -> Ledger:
    """Return the ledger of a consumer that reads a partition from its start."""
    consumer = simulation.consumer(auto_offset_reset="earliest", **options)
    consumer.assign([tp])
    return Ledger(simulation, consumer, [tp])
