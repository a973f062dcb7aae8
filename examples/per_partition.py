"""Keep state per partition, commit as it grows, and hand it over when the partition moves.

Run it with Python 3.11 or newer, after `pip install tandem-kafka`:

    python examples/per_partition.py --bootstrap localhost:9092 --topic numbers
"""

from __future__ import annotations

from collections.abc import Iterable

from arguments import parse
from stopping import Stop

from tandem_kafka import (
    ConsumerRebalanceListener,
    ConsumerRecord,
    KafkaConsumer,
    OffsetAndMetadata,
    TopicPartition,
)
from tandem_kafka.errors import CommitFailedError


class Worker:
    """The state of one partition: a running count here, a cache or a file in a real program."""

    def __init__(self) -> None:
        self.count = 0
        self.next_offset = 0
        self.committed = 0

    def process(self, record: ConsumerRecord) -> None:
        """Add one record."""
        self.count += 1
        self.next_offset = record.offset + 1


class Workers(ConsumerRebalanceListener):
    """One worker for each assigned partition."""

    def __init__(self, consumer: KafkaConsumer) -> None:
        self._consumer = consumer
        self._workers: dict[TopicPartition, Worker] = {}
        self.processed = 0

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """Start a worker for each new partition."""
        for partition in assigned:
            self._workers[partition] = Worker()

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """Commit while the partitions are still assigned: the next owner continues there."""
        self.commit(revoked)
        for partition in revoked:
            worker = self._workers.pop(partition)
            print(f"{partition.topic}-{partition.partition} ends after {worker.count} records")

    def on_partitions_lost(self, lost: Iterable[TopicPartition]) -> None:
        """Drop the state: another member reads again what was not committed."""
        for partition in lost:
            self._workers.pop(partition, None)

    def process(self, partition: TopicPartition, records: Iterable[ConsumerRecord]) -> None:
        """Give records to the worker of their partition."""
        for record in records:
            self._workers[partition].process(record)
            self.processed += 1

    def commit(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Commit the progress of these workers, or of all."""
        chosen = self._workers if partitions is None else partitions
        offsets = {
            partition: OffsetAndMetadata(worker.next_offset)
            for partition in chosen
            if (worker := self._workers[partition]).next_offset > worker.committed
        }
        if not offsets:
            return
        try:
            self._consumer.commit_sync(offsets)
        except CommitFailedError as error:
            print(f"not committed: {error}")  # the next commit, or the next owner, makes up for it
            return
        for partition, offset in offsets.items():
            self._workers[partition].committed = offset.offset


def main() -> None:
    """Read, with one worker per partition."""
    arguments = parse(__doc__)
    stop = Stop(arguments.stop_after)
    with KafkaConsumer(
        bootstrap_servers=arguments.bootstrap,
        group_id=arguments.group,
        group_protocol="auto",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        workers = Workers(consumer)
        consumer.subscribe([arguments.topic], listener=workers)
        while not stop.due(workers.processed):
            for partition, records in consumer.poll(timeout_ms=1_000).items():
                workers.process(partition, records)
            workers.commit()
    print(f"processed {workers.processed}")


if __name__ == "__main__":
    main()
