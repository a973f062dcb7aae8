"""Export the consumer's metrics to Prometheus.

pip install 'tandem-kafka[prometheus]'
PORT=9100 python prometheus.py
"""

from __future__ import annotations

import os
import signal
import threading

from prometheus_client import REGISTRY, start_http_server

from tandem_kafka import ConsumerRecord, KafkaConsumer
from tandem_kafka.observability import ConsumerCollector

stopping = threading.Event()


def stop(number: int, _frame: object) -> None:
    """Let the loop finish its batch. A second signal ends the process at once."""
    stopping.set()
    signal.signal(number, signal.SIG_DFL)


def process(record: ConsumerRecord) -> None:
    """Stand for the work."""


def main() -> None:
    """Read, while a thread of prometheus_client answers requests."""
    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    with KafkaConsumer(
        os.environ.get("TOPIC", "orders"),
        bootstrap_servers=os.environ.get("BOOTSTRAP_SERVERS", "localhost:9092"),
        group_id=os.environ.get("GROUP", "example"),
        auto_offset_reset="earliest",
    ) as consumer:
        REGISTRY.register(ConsumerCollector(consumer))
        # On all addresses: Prometheus comes from outside of the container.
        server, _ = start_http_server(int(os.environ.get("PORT", "9100")))
        print(f"http://localhost:{server.server_port}/metrics", flush=True)
        while not stopping.is_set():
            # Commits in the background what earlier calls have returned; the end of the block
            # commits the rest.
            for records in consumer.poll(timeout_ms=1_000).values():
                for record in records:
                    process(record)


if __name__ == "__main__":
    main()
