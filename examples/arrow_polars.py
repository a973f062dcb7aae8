"""Aggregate records with polars, a batch at a time, without a copy in between."""

from __future__ import annotations

import polars as pl
from arguments import parse

from tandem_kafka import KafkaConsumer


def totals(frame: pl.DataFrame) -> pl.DataFrame:
    """Add numbers up by the last digit."""
    number = pl.col("value").cast(pl.String).cast(pl.Int64)
    digits = frame.select(digit=number % 10, number=number)
    return digits.group_by("digit").agg(pl.len().alias("records"), pl.col("number").sum())


def main() -> None:
    """Read numbers and add them up by their last digit."""
    arguments = parse(main.__doc__ or "")
    counted, parts = 0, []
    with KafkaConsumer(
        arguments.topic,
        bootstrap_servers=arguments.bootstrap,
        group_id=arguments.group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        while not 0 < arguments.stop_after <= counted:
            batch = consumer.poll_arrow(timeout_ms=1_000, columns=["value"], binary_view=True)
            parts.append(totals(pl.DataFrame(batch)))
            counted += batch.num_rows
            consumer.commit()
    print(pl.concat(parts).group_by("digit").sum().sort("digit"))
    print(f"added up {counted}")


if __name__ == "__main__":
    main()
