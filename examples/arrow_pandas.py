"""Read a topic into one pandas frame."""

from __future__ import annotations

import pandas as pd
import pyarrow as pa
from arguments import parse

from tandem_kafka import KafkaConsumer


def main() -> None:
    """Collect batches, make one frame of them, describe it."""
    arguments = parse(main.__doc__ or "")
    collected, batches = 0, []
    with KafkaConsumer(
        arguments.topic,
        bootstrap_servers=arguments.bootstrap,
        group_id=arguments.group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        while not 0 < arguments.stop_after <= collected:
            batch = consumer.poll_arrow(
                timeout_ms=1_000, columns=["partition", "offset", "timestamp", "value"]
            )
            batches.append(batch)
            collected += batch.num_rows
    frame: pd.DataFrame = pa.Table.from_batches(batches).to_pandas()
    frame["value"] = frame["value"].str.decode("ascii").astype("int64")
    print(frame.groupby("partition")["value"].agg(["count", "min", "max"]))
    print(f"collected {collected}")


if __name__ == "__main__":
    main()
