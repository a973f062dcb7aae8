"""Ask a topic questions in SQL: DuckDB reads the batches where they are."""

from __future__ import annotations

import duckdb
from arguments import parse

from tandem_kafka import KafkaConsumer

INSERT = """
    INSERT INTO numbers
    SELECT "partition", "offset", "timestamp", CAST(decode("value") AS BIGINT) FROM batch
"""
QUESTION = """
    SELECT "partition", count(*), min(number), max(number)
    FROM numbers GROUP BY "partition" ORDER BY "partition"
"""


def main() -> None:
    """Read numbers into a table, then ask about them."""
    arguments = parse(main.__doc__ or "")
    stored = 0
    database = duckdb.connect()  # in memory; give it a file to keep the table
    database.execute(
        'CREATE TABLE numbers ("partition" INT, "offset" BIGINT, "at" TIMESTAMPTZ, number BIGINT)'
    )
    with KafkaConsumer(
        arguments.topic,
        bootstrap_servers=arguments.bootstrap,
        group_id=arguments.group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        while not 0 < arguments.stop_after <= stored:
            batch = consumer.poll_arrow(timeout_ms=1_000)
            database.register("batch", batch)
            database.execute(INSERT)
            stored += batch.num_rows
            consumer.commit()
    for partition, count, least, most in database.execute(QUESTION).fetchall():
        print(f"partition {partition}: {count} numbers from {least} to {most}")
    print(f"stored {stored}")


if __name__ == "__main__":
    main()
