"""A consumer for a container: it shuts down cleanly at SIGTERM, and shows that it is alive.

Settings come from the environment: BOOTSTRAP_SERVERS, TOPIC, GROUP and ALIVE_FILE. The image has
Python 3.13 and tandem-kafka. Outside of it, run `python consume.py` with Python 3.11 or newer.
"""

from __future__ import annotations

import logging
import os
import signal
from pathlib import Path
from types import FrameType

from tandem_kafka import ConsumerRecord, KafkaConsumer
from tandem_kafka.errors import CommitFailedError

log = logging.getLogger("consume")


class Stop:
    """Set by the first SIGTERM or Ctrl-C; the second one ends the process without waiting."""

    def __init__(self) -> None:
        self.requested = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._request)

    def _request(self, number: int, _frame: FrameType | None) -> None:
        if self.requested:
            raise SystemExit(128 + number)
        self.requested = True


def process(record: ConsumerRecord) -> None:
    """Stand for the work."""
    log.debug("%s-%d at %d", record.topic, record.partition, record.offset)


def main() -> None:
    """Read until a signal arrives."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    stop = Stop()
    alive = Path(os.environ.get("ALIVE_FILE", "alive"))
    alive.touch()
    processed = 0
    with KafkaConsumer(
        os.environ.get("TOPIC", "numbers"),
        bootstrap_servers=os.environ.get("BOOTSTRAP_SERVERS", "localhost:9092"),
        group_id=os.environ.get("GROUP", "container"),
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        while not stop.requested:
            batch = consumer.poll(timeout_ms=1_000)
            for records in batch.values():
                for record in records:
                    process(record)
            if batch:
                commit(consumer)
                processed += batch.count
            alive.touch()
    log.info("stopped cleanly after %d records", processed)


def commit(consumer: KafkaConsumer) -> None:
    """Commit what was processed; after a rebalance the records may be read again."""
    try:
        consumer.commit_sync()
    except CommitFailedError as error:
        log.warning("not committed: %s", error)


if __name__ == "__main__":
    main()
