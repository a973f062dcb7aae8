"""A consumer for a container: it finishes its batch at SIGTERM, and answers probes.

pip install tandem-kafka
python consume.py
"""

from __future__ import annotations

import logging
import os
import signal
import threading

from tandem_kafka import ConsumerRecord, KafkaConsumer
from tandem_kafka.errors import CommitFailedError, KafkaTimeoutError
from tandem_kafka.observability import Probe

log = logging.getLogger("consume")
stopping = threading.Event()


def stop(number: int, _frame: object) -> None:
    """Let the loop finish its batch. A second signal ends the process at once."""
    stopping.set()
    signal.signal(number, signal.SIG_DFL)


def process(record: ConsumerRecord) -> None:
    """Stand for the work."""
    log.debug("%s-%d at %d", record.topic, record.partition, record.offset)


def main() -> None:
    """Read until a signal arrives."""
    # The first process of a container ignores SIGTERM unless a handler is installed.
    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    with (
        KafkaConsumer(
            os.environ.get("TOPIC", "orders"),
            bootstrap_servers=os.environ.get("BOOTSTRAP_SERVERS", "localhost:9092"),
            group_id=os.environ.get("GROUP", "example"),
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer,
        # The kubelet connects from outside of the container.
        Probe(consumer, port=int(os.environ.get("PROBE_PORT", "8080")), host="0.0.0.0"),  # noqa: S104
    ):
        while not stopping.is_set():
            for records in consumer.poll(timeout_ms=1_000).values():
                for record in records:
                    process(record)
            try:
                consumer.commit()
            except (CommitFailedError, KafkaTimeoutError) as error:
                log.warning("not committed, so records may be handled again: %s", error)
    log.info("stopped cleanly")


if __name__ == "__main__":
    main()
