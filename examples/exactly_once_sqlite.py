"""Exactly once into SQLite: a result and the next offset are stored in one transaction.

Run it with Python 3.11 or newer, after `pip install tandem-kafka`. It writes `<group>.sqlite` into
the current folder:

    python examples/exactly_once_sqlite.py --bootstrap localhost:9092 --topic numbers
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import closing

from arguments import parse
from stopping import Stop

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
        """Store a batch and the offset after it, both or neither.

        Raises:
            RuntimeError: Another member has stored records of this partition since it was
                assigned here. Nothing of the batch is stored.
        """
        with self._database:
            rows = ((*partition, record.offset, record.value) for record in records)
            self._database.executemany(STORE, rows)
            # The condition rejects a member that was suspended and does not know its successor.
            move = (following, *partition, self._next[partition])
            if self._database.execute(MOVE, move).rowcount != 1:
                raise RuntimeError(f"{partition} belongs to another member")
        self._next[partition] = following


def main() -> None:
    """Store every record of a topic once."""
    arguments = parse(__doc__)
    stop = Stop(arguments.stop_after)
    stored = 0
    with (
        closing(sqlite3.connect(f"{arguments.group}.sqlite")) as database,
        KafkaConsumer(
            bootstrap_servers=arguments.bootstrap,
            group_id=arguments.group,
            group_protocol="auto",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer,
    ):
        database.executescript(SCHEMA)
        results = Results(consumer, database)
        consumer.subscribe([arguments.topic], listener=results)
        while not stop.due(stored):
            batch = consumer.poll(timeout_ms=1_000)
            for partition, records in batch.items():
                results.store(partition, records, batch.next_offsets[partition].offset)
                stored += len(records)
    print(f"stored {stored}")


if __name__ == "__main__":
    main()
