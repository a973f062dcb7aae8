"""Count and measure records by columns, with pyarrow alone: no Python object for any record."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc
from arguments import parse

from tandem_kafka import KafkaConsumer


def main() -> None:
    """Add the bytes of the values up for each partition."""
    arguments = parse(main.__doc__ or "")
    counted, sizes = 0, Counter[int]()
    with KafkaConsumer(
        arguments.topic,
        bootstrap_servers=arguments.bootstrap,
        group_id=arguments.group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        while not 0 < arguments.stop_after <= counted:
            batch = consumer.poll_arrow(timeout_ms=1_000, columns=["partition", "value"])
            lengths = {"partition": batch["partition"], "bytes": pc.binary_length(batch["value"])}
            grouped = pa.table(lengths).group_by("partition")
            for row in grouped.aggregate([("bytes", "sum")]).to_pylist():
                sizes[row["partition"]] += row["bytes_sum"]
            counted += batch.num_rows
            consumer.commit()
    for partition, size in sorted(sizes.items()):
        print(f"partition {partition}: {size} bytes")
    print(f"counted {counted}")


if __name__ == "__main__":
    main()
