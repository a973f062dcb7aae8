"""Count and measure records by columns with pyarrow: no Python object is made for a record.

Run it with Python 3.11 or newer, after `pip install 'tandem-kafka[arrow]'`:

    python examples/arrow_compute.py --bootstrap localhost:9092 --topic numbers
"""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc
from arguments import parse
from stopping import Stop

from tandem_kafka import KafkaConsumer


def main() -> None:
    """Add up the bytes of the values of each partition."""
    arguments = parse(__doc__)
    stop = Stop(arguments.stop_after)
    counted, sizes = 0, Counter[int]()
    with KafkaConsumer(
        arguments.topic,
        bootstrap_servers=arguments.bootstrap,
        group_id=arguments.group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        while not stop.due(counted):
            batch = consumer.poll_arrow(timeout_ms=1_000, columns=["partition", "value"])
            if not batch.num_rows:
                continue
            lengths = {"partition": batch["partition"], "bytes": pc.binary_length(batch["value"])}
            grouped = pa.table(lengths).group_by("partition")
            for row in grouped.aggregate([("bytes", "sum")]).to_pylist():
                sizes[row["partition"]] += row["bytes_sum"] or 0
            counted += batch.num_rows
            print(dict(sorted(sizes.items())))
            consumer.commit()  # after the totals are printed: this program keeps them nowhere else
    for partition, size in sorted(sizes.items()):
        print(f"partition {partition}: {size} bytes")
    print(f"counted {counted}")


if __name__ == "__main__":
    main()
