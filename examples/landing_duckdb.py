"""Keep the sum of each customer's orders in a DuckDB file, each order counted once.

The statement and the offsets of the topic are one transaction.

    pip install 'tandem-kafka[arrow]' duckdb
    python landing_duckdb.py  # writes example.duckdb
"""

from __future__ import annotations

import os
import signal
from datetime import timedelta
from typing import Any

import duckdb
import pyarrow as pa

from tandem_kafka import KafkaConsumer
from tandem_kafka.tables import Database, Json, Landing

CREATE = """
    CREATE TABLE IF NOT EXISTS customers (
        customer VARCHAR PRIMARY KEY, orders BIGINT NOT NULL, amount DOUBLE NOT NULL
    )
"""
# DuckDB finds the table of Arrow by the name of the variable.
ADD = """
    INSERT INTO customers
    SELECT customer, count(*), sum(amount) FROM batch GROUP BY customer
    ON CONFLICT DO UPDATE SET orders = orders + excluded.orders, amount = amount + excluded.amount
"""
ORDER = Json(pa.schema([("customer", pa.string()), ("amount", pa.float64())]), flatten=True)


def add(connection: Any, batch: pa.Table) -> None:  # noqa: ARG001 - DuckDB uses the batch
    """Add orders to the sums."""
    connection.execute(ADD)


def main() -> None:
    """Count orders until Ctrl-C or SIGTERM, then print the sums."""
    with (
        duckdb.connect("example.duckdb") as database,
        KafkaConsumer(
            os.environ.get("TOPIC", "orders"),
            bootstrap_servers=os.environ.get("BOOTSTRAP_SERVERS", "localhost:9092"),
            group_id=os.environ.get("GROUP", "example"),
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
        ) as consumer,
    ):
        database.execute(CREATE)
        landing = Landing(
            consumer,
            Database(database, "customers", insert=add),
            every=timedelta(seconds=float(os.environ.get("FILE_SECONDS", "5"))),
            columns=["topic", "partition", "offset"],
            value=ORDER,
        )
        landing.run(signals=[signal.SIGTERM, signal.SIGINT])
        print(f"counted {landing.total} orders")
        for row in database.execute("FROM customers ORDER BY customer").fetchall():
            print("{}: {} orders, {}".format(*row))


if __name__ == "__main__":
    main()
