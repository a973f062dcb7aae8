"""Sum up a topic of JSON with polars, from its beginning to its present end.

The totals are in memory only, so that the job joins no group and commits nothing: each run reads
all. To store what is read and to continue later, see landing_parquet.py and
landing_duckdb.py.

    pip install 'tandem-kafka[arrow]' polars
    python arrow_polars.py
"""

from __future__ import annotations

import os
import signal

import polars as pl
import pyarrow as pa

from tandem_kafka import read
from tandem_kafka.tables import Json

TOPIC = os.environ.get("TOPIC", "orders")
ORDER = Json(pa.schema([("customer", pa.string()), ("amount", pa.float64())]), flatten=True)


def totals(batch: pl.DataFrame) -> pl.DataFrame:
    """Return the number of orders and their amount for each customer."""
    return batch.group_by("customer").agg(orders=pl.len(), amount=pl.col("amount").sum())


def main() -> None:
    """Print the totals of a topic."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C needs no clean end: nothing is open
    servers = os.environ.get("BOOTSTRAP_SERVERS", "localhost:9092")
    with read(TOPIC, bootstrap_servers=servers, columns=[], value=ORDER) as reader:
        # Only the totals of each batch are kept, so memory does not grow with the topic.
        parts = [totals(pl.DataFrame(batch)) for batch in reader]
    if not parts:
        raise SystemExit(f"the topic {TOPIC!r} is empty")
    print(pl.concat(parts).group_by("customer").sum().sort("customer"))


if __name__ == "__main__":
    main()
