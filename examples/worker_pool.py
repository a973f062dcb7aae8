"""Process partitions in parallel: one batch per partition at a time, committed when it is done.

A partition is paused while a worker has its batch, so its records stay in order. Run it with Python
3.11 or newer, after `pip install tandem-kafka`:

    python examples/worker_pool.py --bootstrap localhost:9092 --topic numbers
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait

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

WORKERS = 4


def process(records: Iterable[ConsumerRecord]) -> int:
    """Stand for the work, such as a request for each record; returns how many records it was."""
    count = 0
    for _record in records:
        time.sleep(0.001)
        count += 1
    return count


class Batches(ConsumerRebalanceListener):
    """The batches that workers have: at most one per partition, so memory is bounded."""

    def __init__(self, consumer: KafkaConsumer, pool: ThreadPoolExecutor) -> None:
        self._consumer = consumer
        self._pool = pool
        self._running: dict[TopicPartition, tuple[Future[int], OffsetAndMetadata]] = {}
        self.processed = 0

    def start(
        self,
        partition: TopicPartition,
        records: Iterable[ConsumerRecord],
        following: OffsetAndMetadata,
    ) -> None:
        """Give a batch to a worker, and take no more of its partition."""
        self._consumer.pause(partition)
        self._running[partition] = (self._pool.submit(process, records), following)

    def finish(self) -> None:
        """Commit the batches that are done, and read their partitions again."""
        done = {tp: batch for tp, batch in self._running.items() if batch[0].done()}
        if not done:
            return
        counts = [future.result() for future, _ in done.values()]  # raises a worker's error
        self._consumer.commit_sync({tp: following for tp, (_, following) in done.items()})
        self._consumer.resume(*done)
        self.processed += sum(counts)
        for partition in done:
            del self._running[partition]

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """Nothing to prepare."""

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """Wait for the batches of these partitions and commit them. Heartbeats continue."""
        wait([self._running[tp][0] for tp in revoked if tp in self._running])
        self.finish()

    def on_partitions_lost(self, lost: Iterable[TopicPartition]) -> None:
        """Forget the batches: another member reads them again."""
        for partition in lost:
            self._running.pop(partition, None)


def main() -> None:
    """Poll in this thread, process in others."""
    arguments = parse(__doc__)
    stop = Stop(arguments.stop_after)
    with (
        ThreadPoolExecutor(WORKERS) as pool,
        KafkaConsumer(
            bootstrap_servers=arguments.bootstrap,
            group_id=arguments.group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer,
    ):
        batches = Batches(consumer, pool)
        consumer.subscribe([arguments.topic], listener=batches)
        while not stop.due(batches.processed):
            # A short timeout: poll() does not return when a worker is done.
            batch = consumer.poll(timeout_ms=50)
            for partition, records in batch.items():
                batches.start(partition, records, batch.next_offsets[partition])
            try:
                batches.finish()
            except CommitFailedError as error:
                print(f"not committed: {error}")  # poll(), then commit again or lose the partition
    # The close above has called on_partitions_revoked, which waits for the workers and commits.
    print(f"processed {batches.processed}")


if __name__ == "__main__":
    main()
