"""Many threads, in order for each key: keep the newest value of each account in a database.

A crash or a rebalance may repeat a record. The statement is idempotent, so a repetition changes
nothing. Run it with Python 3.11 or newer, after `pip install tandem-kafka`:

    python examples/keyed_workers.py --bootstrap localhost:9092 --topic numbers
"""

from __future__ import annotations

import signal
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

from arguments import parse

from tandem_kafka import ConsumerRecord, KafkaConsumer
from tandem_kafka.workers import KeyedWorkers, Retry

WORKERS = 16
ACCOUNTS = 10

UPSERT = """
INSERT INTO accounts (account, balance, partition, offset) VALUES (?, ?, ?, ?)
ON CONFLICT (account, partition) DO UPDATE
SET balance = excluded.balance, offset = excluded.offset
WHERE excluded.offset > offset
"""


def account_of(record: ConsumerRecord) -> int:
    """Return the key; the records of one account are handled one after another."""
    return int(record.value or 0) % ACCOUNTS


class Accounts:
    """A table in a file, with a connection for each thread."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._of_thread = threading.local()
        self._lock = threading.Lock()
        self.stored = 0
        with closing(sqlite3.connect(file)) as database:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute(
                "CREATE TABLE IF NOT EXISTS accounts (account INTEGER, balance INTEGER, "
                "partition INTEGER, offset INTEGER, PRIMARY KEY (account, partition))"
            )

    def store(self, record: ConsumerRecord) -> None:
        """Store the value of a record, unless a newer one is there."""
        database = getattr(self._of_thread, "database", None)
        if database is None:
            database = self._of_thread.database = sqlite3.connect(self._file, timeout=30)
        row = (account_of(record), int(record.value or 0), record.partition, record.offset)
        with database:
            database.execute(UPSERT, row)
        with self._lock:
            self.stored += 1


def main() -> None:
    """Handle records until a signal."""
    arguments = parse(__doc__)
    accounts = Accounts(Path(f"{arguments.group}.sqlite"))
    with KafkaConsumer(
        arguments.topic,
        bootstrap_servers=arguments.bootstrap,
        group_id=arguments.group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        workers = KeyedWorkers(
            consumer,
            accounts.store,
            key=account_of,
            workers=WORKERS,
            retry=Retry(5, backoff_ms=(100, 30_000)),
            commit_interval_ms=1_000,
        )
        workers.run(
            until=lambda: 0 < arguments.stop_after <= accounts.stored,
            signals=[signal.SIGTERM, signal.SIGINT],
        )
    print(f"stored {accounts.stored}")


if __name__ == "__main__":
    main()
