"""Exactly once into SQLite: a result and the offset behind it are one transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from arguments import parse

from tandem_kafka import (
    ConsumerRebalanceListener,
    ConsumerRecord,
    KafkaConsumer,
    TopicPartition,
)

SCHEMA = """
CREATE TABLE IF NOT EXISTS results (topic TEXT, partition INT, position INT, value BLOB,
                                    PRIMARY KEY (topic, partition, position));
CREATE TABLE IF NOT EXISTS offsets (topic TEXT, partition INT, next INT,
                                    PRIMARY KEY (topic, partition));
"""


class SeekToStored(ConsumerRebalanceListener):
    """Has each partition go on where the database says; Kafka's own offsets are not used."""

    def __init__(self, consumer: KafkaConsumer, database: sqlite3.Connection) -> None:
        self._consumer = consumer
        self._database = database

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """Seek before the first record."""
        for partition in assigned:
            row = self._database.execute(
                "SELECT next FROM offsets WHERE topic = ? AND partition = ?", partition
            ).fetchone()
            self._consumer.seek(partition, row[0] if row else 0)

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """Nothing to do: every batch was stored before the next poll."""


def store(
    database: sqlite3.Connection, partition: TopicPartition, records: Iterable[ConsumerRecord]
) -> int:
    """Store a batch and where to go on, both or neither; returns how many records that were."""
    stored = 0
    with database:
        for record in records:
            database.execute(
                "INSERT INTO results VALUES (?, ?, ?, ?)",
                (*partition, record.offset, record.value),
            )
            stored += 1
        database.execute(
            "INSERT OR REPLACE INTO offsets VALUES (?, ?, ?)", (*partition, record.offset + 1)
        )
    return stored


def main() -> None:
    """Store every record of a topic once."""
    arguments = parse(main.__doc__ or "")
    database = sqlite3.connect(f"{arguments.group}.sqlite")
    database.executescript(SCHEMA)
    stored = 0
    with KafkaConsumer(
        bootstrap_servers=arguments.bootstrap,
        group_id=arguments.group,
        group_protocol="auto",
        enable_auto_commit=False,
    ) as consumer:
        consumer.subscribe([arguments.topic], listener=SeekToStored(consumer, database))
        while not 0 < arguments.stop_after <= stored:
            for partition, records in consumer.poll(timeout_ms=1_000).items():
                stored += store(database, partition, records)
    print(f"stored {stored}")


if __name__ == "__main__":
    main()
