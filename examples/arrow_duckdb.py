"""Read a topic into a DuckDB file and ask questions in SQL.

DuckDB reads the Arrow batches where they are. Run it with Python 3.11 or newer, after
`pip install 'tandem-kafka[arrow]' duckdb`. It writes `<group>.duckdb` into the current folder:

    python examples/arrow_duckdb.py --bootstrap localhost:9092 --topic numbers
"""

from __future__ import annotations

import duckdb
from arguments import parse
from stopping import Stop

from tandem_kafka import KafkaConsumer

CREATE = """
    SET memory_limit = '512MB';
    CREATE TABLE IF NOT EXISTS numbers (
        "partition" INT, "offset" BIGINT, "at" TIMESTAMPTZ, number BIGINT,
        PRIMARY KEY ("partition", "offset")
    )
"""
# A batch whose commit did not succeed comes again: the rows that are there already stay.
INSERT = """
    INSERT OR IGNORE INTO numbers
    SELECT "partition", "offset", "timestamp", CAST(decode("value") AS BIGINT) FROM batch
"""
QUESTION = """
    SELECT "partition", count(*), min(number), max(number)
    FROM numbers GROUP BY "partition" ORDER BY "partition"
"""


def main() -> None:
    """Store the numbers of a topic, then ask about them."""
    arguments = parse(__doc__)
    stop = Stop(arguments.stop_after)
    stored = 0
    with (
        duckdb.connect(f"{arguments.group}.duckdb") as database,
        KafkaConsumer(
            arguments.topic,
            bootstrap_servers=arguments.bootstrap,
            group_id=arguments.group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer,
    ):
        database.execute(CREATE)
        while not stop.due(stored):
            batch = consumer.poll_arrow(
                timeout_ms=1_000, columns=["partition", "offset", "timestamp", "value"]
            )
            if not batch.num_rows:
                continue
            database.register("batch", batch)
            database.execute(INSERT)  # DuckDB commits this to the file ...
            database.unregister("batch")
            consumer.commit()  # ... and only then the offsets are committed
            stored += batch.num_rows
        for partition, count, least, most in database.execute(QUESTION).fetchall():
            print(f"partition {partition}: {count} numbers from {least} to {most}")
    print(f"stored {stored}")


if __name__ == "__main__":
    main()
