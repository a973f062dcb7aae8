"""Keep state per partition, and commit it when the partition is taken away."""

from __future__ import annotations

from collections.abc import Iterable

from arguments import parse

from tandem_kafka import (
    ConsumerRebalanceListener,
    ConsumerRecord,
    KafkaConsumer,
    OffsetAndMetadata,
    TopicPartition,
)


class Worker:
    """What one partition needs: here a running count, in earnest a cache or a file."""

    def __init__(self) -> None:
        self.count = 0
        self.next_offset = 0

    def process(self, record: ConsumerRecord) -> None:
        """Take one record in."""
        self.count += 1
        self.next_offset = record.offset + 1


class Workers(ConsumerRebalanceListener):
    """A worker for each partition that is ours."""

    def __init__(self, consumer: KafkaConsumer) -> None:
        self._consumer = consumer
        self._workers: dict[TopicPartition, Worker] = {}
        self.processed = 0

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """Begin with what is new."""
        for partition in assigned:
            self._workers[partition] = Worker()

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """Still ours: commit, so that the next owner goes on exactly there."""
        self.commit(revoked)
        for partition in revoked:
            worker = self._workers.pop(partition)
            print(f"{partition.topic}-{partition.partition} goes after {worker.count} records")

    def on_partitions_lost(self, lost: Iterable[TopicPartition]) -> None:
        """Not ours any more: what was not committed, another will process again."""
        for partition in lost:
            self._workers.pop(partition, None)

    def process(self, partition: TopicPartition, records: Iterable[ConsumerRecord]) -> None:
        """Hand a batch to its worker."""
        for record in records:
            self._workers[partition].process(record)
            self.processed += 1

    def commit(self, partitions: Iterable[TopicPartition]) -> None:
        """Commit how far the workers are."""
        self._consumer.commit_sync(
            {
                partition: OffsetAndMetadata(self._workers[partition].next_offset, "", -1)
                for partition in partitions
                if self._workers[partition].count
            }
        )


def main() -> None:
    """One worker a partition."""
    arguments = parse(main.__doc__ or "")
    with KafkaConsumer(
        bootstrap_servers=arguments.bootstrap,
        group_id=arguments.group,
        group_protocol="auto",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        workers = Workers(consumer)
        consumer.subscribe([arguments.topic], listener=workers)
        while not 0 < arguments.stop_after <= workers.processed:
            for partition, records in consumer.poll(timeout_ms=1_000).items():
                workers.process(partition, records)
    print(f"processed {workers.processed}")


if __name__ == "__main__":
    main()
