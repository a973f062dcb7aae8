"""Aggregate records with polars, batch by batch, without a copy in between.

Run it with Python 3.11 or newer, after `pip install 'tandem-kafka[arrow]' polars`:

    python examples/arrow_polars.py --bootstrap localhost:9092 --topic numbers
"""

from __future__ import annotations

import polars as pl
from arguments import parse
from stopping import Stop

from tandem_kafka import KafkaConsumer


def totals(batch: pl.DataFrame) -> pl.DataFrame:
    """Add up the numbers of a batch by their last digit."""
    number = pl.col("value").cast(pl.String).cast(pl.Int64)
    digits = batch.select(digit=number % 10, number=number)
    return digits.group_by("digit").agg(
        pl.len().cast(pl.Int64).alias("records"), pl.col("number").sum()
    )


def main() -> None:
    """Add up the numbers of a topic by their last digit."""
    arguments = parse(__doc__)
    stop = Stop(arguments.stop_after)
    added = 0
    total = pl.DataFrame(schema={"digit": pl.Int64, "records": pl.Int64, "number": pl.Int64})
    with KafkaConsumer(
        arguments.topic,
        bootstrap_servers=arguments.bootstrap,
        group_id=arguments.group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        while not stop.due(added):
            batch = consumer.poll_arrow(timeout_ms=1_000, columns=["value"], binary_view=True)
            if not batch.num_rows:
                continue
            # Only the totals are kept: ten rows, however long the topic is.
            total = pl.concat([total, totals(pl.DataFrame(batch))]).group_by("digit").sum()
            added += batch.num_rows
            print(total.sort("digit"))
            consumer.commit()
    print(f"added up {added}")


if __name__ == "__main__":
    main()
