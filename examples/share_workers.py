"""A queue: many processes take orders one by one, each on many threads, in no order.

Start it as often as there is work: there can be more processes than partitions. An order that
cannot be handled is tried again, at last by other processes, and rejected after that.

    pip install tandem-kafka
    python share_workers.py  # needs Kafka 4.2 with the feature share.version=1
"""

from __future__ import annotations

import json
import os
import signal

from tandem_kafka import ShareConsumer, ShareRecord
from tandem_kafka.workers import Retry, ShareWorkers


def handle(record: ShareRecord) -> None:
    """Stands for the work, which may take long. An exception is retried."""
    order = json.loads(record.value)
    print(f"handled order {order['order']} at delivery {record.delivery_count}", flush=True)


def main() -> None:
    """Handle records until Ctrl-C or SIGTERM."""
    with ShareConsumer(
        os.environ.get("TOPIC", "orders"),
        bootstrap_servers=os.environ.get("BOOTSTRAP_SERVERS", "localhost:9092"),
        group_id=os.environ.get("GROUP", "example"),
        acknowledgement="explicit",
    ) as consumer:
        retry = Retry(3, backoff_ms=(100, 5_000))
        workers = ShareWorkers(consumer, handle, workers=16, retry=retry, otherwise="release")
        workers.run(signals=[signal.SIGTERM, signal.SIGINT])


if __name__ == "__main__":
    main()
