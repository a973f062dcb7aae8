"""Many threads, in order for each key: keep the newest order of each customer in a database.

A crash or a rebalance may repeat a record. The statement is idempotent, so a repetition changes
nothing. `run()` commits what is done, also after a rebalance and at the end.

    pip install tandem-kafka
    python keyed_workers.py  # writes example.sqlite
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import threading
from contextlib import closing

from tandem_kafka import ConsumerRecord, KafkaConsumer
from tandem_kafka.errors import CommitFailedError, KafkaTimeoutError
from tandem_kafka.workers import KeyedWorkers, Retry

CREATE = """
CREATE TABLE IF NOT EXISTS customers (customer TEXT PRIMARY KEY, amount REAL, position INTEGER)
"""
#: The orders of a customer are in one partition, so that their offsets can be compared.
UPSERT = """
INSERT INTO customers VALUES (?, ?, ?)
ON CONFLICT (customer) DO UPDATE SET amount = excluded.amount, position = excluded.position
WHERE excluded.position > position
"""

#: A connection for each thread.
connections = threading.local()


def connect() -> sqlite3.Connection:
    """Return a new connection."""
    return sqlite3.connect("example.sqlite", timeout=30)


def store(record: ConsumerRecord) -> None:
    """Store the order of a record, unless a newer one is there. An exception is retried."""
    database = getattr(connections, "database", None)
    if database is None:
        database = connections.database = connect()
    order = json.loads(record.value)
    with database:
        database.execute(UPSERT, (order["customer"], order["amount"], record.offset))
    print(f"stored order {order['order']}")


def main() -> None:
    """Handle records until Ctrl-C or SIGTERM."""
    with closing(connect()) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute(CREATE)
    with KafkaConsumer(
        os.environ.get("TOPIC", "orders"),
        bootstrap_servers=os.environ.get("BOOTSTRAP_SERVERS", "localhost:9092"),
        group_id=os.environ.get("GROUP", "example"),
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        workers = KeyedWorkers(
            consumer,
            store,
            workers=16,
            retry=Retry(5, backoff_ms=(100, 30_000)),
            commit_interval_ms=1_000,
        )
        try:
            workers.run(signals=[signal.SIGTERM, signal.SIGINT])
        except (CommitFailedError, KafkaTimeoutError) as error:
            print(f"not committed at the end: {error}")  # these records are handled again


if __name__ == "__main__":
    main()
