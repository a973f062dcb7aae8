"""Exactly once into SQLite: a result and the next offset are stored in one transaction.

pip install tandem-kafka
python exactly_once_sqlite.py  # writes example.sqlite
"""

from __future__ import annotations

import os
import signal
import sqlite3
import threading
from collections.abc import Iterable
from contextlib import closing

from tandem_kafka import ConsumerRebalanceListener, ConsumerRecord, KafkaConsumer, TopicPartition

SCHEMA = """
CREATE TABLE IF NOT EXISTS results (topic TEXT, partition INT, position INT, value BLOB,
                                    PRIMARY KEY (topic, partition, position));
CREATE TABLE IF NOT EXISTS offsets (topic TEXT, partition INT, next INT,
                                    PRIMARY KEY (topic, partition));
"""
FIND = "SELECT next FROM offsets WHERE topic = ? AND partition = ?"
BEGIN = "INSERT INTO offsets VALUES (?, ?, ?)"
STORE = "INSERT INTO results VALUES (?, ?, ?, ?)"
MOVE = "UPDATE offsets SET next = ? WHERE topic = ? AND partition = ? AND next = ?"

stopping = threading.Event()


def stop(number: int, _frame: object) -> None:
    """Let the loop finish its batch. A second signal ends the process at once."""
    stopping.set()
    signal.signal(number, signal.SIG_DFL)


class Results(ConsumerRebalanceListener):
    """Results and offsets in one database. The offsets that Kafka keeps are not used."""

    def __init__(self, consumer: KafkaConsumer, database: sqlite3.Connection) -> None:
        self._consumer = consumer
        self._database = database
        #: The stored offset of each assigned partition.
        self._next: dict[TopicPartition, int] = {}

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """Continue at the stored offset, or begin where the log begins now.

        If retention has deleted the stored offset, `auto_offset_reset` moves the position to the
        oldest record that is left.
        """
        for partition in assigned:
            row = self._database.execute(FIND, partition).fetchone()
            if row is None:
                # The group has committed nothing, so this is the oldest record. It need not be
                # offset 0: retention deletes records.
                row = (self._consumer.position(partition),)
                with self._database:
                    self._database.execute(BEGIN, (*partition, row[0]))
            self._consumer.seek(partition, row[0])
            self._next[partition] = row[0]

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """Forget them. Nothing is open: each batch is stored before the next poll()."""
        for partition in revoked:
            self._next.pop(partition, None)

    def store(
        self, partition: TopicPartition, records: Iterable[ConsumerRecord], following: int
    ) -> None:
        """Store a batch and the offset after it, both or neither."""
        try:
            with self._database:
                self._write(partition, records, following)
        except sqlite3.IntegrityError as error:
            # This process was suspended, for example, and the partition has a new owner. The next
            # poll() says so. Nothing of the batch is stored.
            print(f"not stored: {error}")
            self.on_partitions_assigned([partition])
        else:
            self._next[partition] = following

    def _write(
        self, partition: TopicPartition, records: Iterable[ConsumerRecord], following: int
    ) -> None:
        rows = ((*partition, record.offset, record.value) for record in records)
        self._database.executemany(STORE, rows)
        move = (following, *partition, self._next[partition])
        if self._database.execute(MOVE, move).rowcount != 1:
            raise sqlite3.IntegrityError(f"another member has stored records of {partition}")


def main() -> None:
    """Store every record of a topic once, until Ctrl-C or SIGTERM."""
    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    with (
        closing(sqlite3.connect("example.sqlite")) as database,
        KafkaConsumer(
            bootstrap_servers=os.environ.get("BOOTSTRAP_SERVERS", "localhost:9092"),
            group_id=os.environ.get("GROUP", "example"),
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer,
    ):
        database.executescript(SCHEMA)
        results = Results(consumer, database)
        consumer.subscribe([os.environ.get("TOPIC", "orders")], listener=results)
        while not stopping.is_set():
            batch = consumer.poll(timeout_ms=1_000)
            for partition, records in batch.items():
                results.store(partition, records, batch.next_offsets[partition].offset)


if __name__ == "__main__":
    main()
