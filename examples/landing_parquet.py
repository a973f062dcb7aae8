"""Write a topic of JSON to Parquet files, each order once, whatever ends the program.

    pip install 'tandem-kafka[arrow]'
    FOLDER=orders python landing_parquet.py

Manifests beside the files say which records count. To ask about them, also while this runs:

    tandem_kafka.tables.ParquetDirectory("orders").dataset().to_table().to_pandas()
"""

from __future__ import annotations

import os
import signal
from datetime import timedelta

import pyarrow as pa

from tandem_kafka import KafkaConsumer
from tandem_kafka.tables import Json, Landing, ParquetDirectory

#: A document that is no order becomes a row without values, and the column `error` says why.
ORDER = Json(
    pa.schema([("order", pa.int64()), ("customer", pa.string()), ("amount", pa.float64())]),
    flatten=True,
    errors="null",
)


def main() -> None:
    """Write files until Ctrl-C or SIGTERM."""
    with KafkaConsumer(
        os.environ.get("TOPIC", "orders"),
        bootstrap_servers=os.environ.get("BOOTSTRAP_SERVERS", "localhost:9092"),
        group_id=os.environ.get("GROUP", "example"),
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level="read_committed",
    ) as consumer:
        landing = Landing(
            consumer,
            ParquetDirectory(os.environ.get("FOLDER", "files")),
            every=timedelta(seconds=float(os.environ.get("FILE_SECONDS", "5"))),
            columns=["topic", "partition", "offset", "timestamp"],
            value=ORDER,
        )
        landing.run(signals=[signal.SIGTERM, signal.SIGINT])
    print(f"wrote {landing.total} orders")


if __name__ == "__main__":
    main()
