"""Write a file for each partition, and hand it over when the partition moves.

Writing is cheap and a commit is not, so that a commit is made each second, and before a partition
is given up.

    pip install tandem-kafka
    python per_partition.py
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from tandem_kafka import (
    ConsumerRebalanceListener,
    ConsumerRecord,
    KafkaConsumer,
    OffsetAndMetadata,
    TopicPartition,
)
from tandem_kafka.errors import CommitFailedError, KafkaTimeoutError

COMMIT_SECONDS = 1.0

stopping = threading.Event()


def stop(number: int, _frame: object) -> None:
    """Let the loop finish its batch. A second signal ends the process at once."""
    stopping.set()
    signal.signal(number, signal.SIG_DFL)


class Files(ConsumerRebalanceListener):
    """An open file for each assigned partition."""

    def __init__(self, consumer: KafkaConsumer) -> None:
        self._consumer = consumer
        self._files: dict[TopicPartition, BinaryIO] = {}
        #: Where to continue after the records that were written since the last commit.
        self._next: dict[TopicPartition, OffsetAndMetadata] = {}

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """Open the files."""
        for partition in assigned:
            name = f"{partition.topic}-{partition.partition}.txt"
            self._files[partition] = Path(name).open("ab")  # noqa: SIM115 - closed when it moves

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """Commit while the partitions are still assigned: their next owners continue there."""
        self.commit()
        self.on_partitions_lost(revoked)

    def on_partitions_lost(self, lost: Iterable[TopicPartition]) -> None:
        """Close the files. The next owner writes again what was not committed."""
        for partition in lost:
            self._next.pop(partition, None)
            self._files.pop(partition).close()

    def write(
        self,
        partition: TopicPartition,
        records: Iterable[ConsumerRecord],
        following: OffsetAndMetadata,
    ) -> None:
        """Append a line for each record."""
        self._files[partition].writelines(
            b"%d %s\n" % (record.offset, record.value or b"") for record in records
        )
        self._next[partition] = following

    def commit(self) -> None:
        """Make the files safe, then commit their records."""
        if not self._next:
            return
        for partition in self._next:
            self._files[partition].flush()
            os.fsync(self._files[partition].fileno())
        try:
            self._consumer.commit(self._next)
        except (CommitFailedError, KafkaTimeoutError) as error:
            print(f"not committed: {error}")  # the next commit makes up for it, or the next owner
        else:
            self._next.clear()


def main() -> None:
    """Read and write until Ctrl-C or SIGTERM."""
    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    with KafkaConsumer(
        bootstrap_servers=os.environ.get("BOOTSTRAP_SERVERS", "localhost:9092"),
        group_id=os.environ.get("GROUP", "example"),
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        files = Files(consumer)
        consumer.subscribe([os.environ.get("TOPIC", "orders")], listener=files)
        due = time.monotonic() + COMMIT_SECONDS
        while not stopping.is_set():
            batch = consumer.poll(timeout_ms=1_000)
            for partition, records in batch.items():
                files.write(partition, records, batch.next_offsets[partition])
            if time.monotonic() >= due:
                files.commit()
                due = time.monotonic() + COMMIT_SECONDS
    # The end of the block has called on_partitions_revoked(), which commits and closes the files.


if __name__ == "__main__":
    main()
