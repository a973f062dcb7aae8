"""Describe the numbers of a topic with pandas, batch by batch.

Run it with Python 3.11 or newer, after `pip install 'tandem-kafka[arrow]' pandas`:

    python examples/arrow_pandas.py --bootstrap localhost:9092 --topic numbers
"""

from __future__ import annotations

import pandas as pd
from arguments import parse
from stopping import Stop

from tandem_kafka import KafkaConsumer

#: How two summaries of a partition become one.
MERGE = {"count": "sum", "min": "min", "max": "max"}


def summary(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the count, the least and the greatest number of each partition."""
    frame["value"] = frame["value"].str.decode("ascii").astype("int64")
    return frame.groupby("partition")["value"].agg(["count", "min", "max"])


def main() -> None:
    """Read a topic and print what is known of it after each batch."""
    arguments = parse(__doc__)
    stop = Stop(arguments.stop_after)
    described = 0
    known = pd.DataFrame()
    with KafkaConsumer(
        arguments.topic,
        bootstrap_servers=arguments.bootstrap,
        group_id=arguments.group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        while not stop.due(described):
            batch = consumer.poll_arrow(timeout_ms=1_000, columns=["partition", "value"])
            if not batch.num_rows:
                continue
            # A frame of one batch is bounded by fetch_buffer_max_bytes; only the summary is kept.
            both = pd.concat([known, summary(batch.to_pandas())])
            known = both.groupby(level="partition").agg(MERGE)
            described += batch.num_rows
            print(known)
            consumer.commit()
    print(f"described {described}")


if __name__ == "__main__":
    main()
