"""Retry a record that fails, write it to a dead-letter topic if it keeps failing, and continue.

A record counts as done when its dead letter is written. After a crash or a rebalance, a dead letter
may come twice; its headers name topic, partition and offset of the record.

    pip install tandem-kafka
    python dead_letters.py  # writes to orders.dead
"""

from __future__ import annotations

import json
import os
import signal

from tandem_kafka import ConsumerRecord, KafkaConsumer, KafkaProducer
from tandem_kafka.errors import CommitFailedError, KafkaTimeoutError
from tandem_kafka.workers import DeadLetters, KeyedWorkers, Retry

BOOTSTRAP_SERVERS = os.environ.get("BOOTSTRAP_SERVERS", "localhost:9092")
TOPIC = os.environ.get("TOPIC", "orders")


def process(record: ConsumerRecord) -> None:
    """Stand for the work. Decode in here: a value that is no JSON becomes a dead letter as well.

    Raises:
        ValueError: The value can never be processed.
    """
    order = json.loads(record.value)
    if order["amount"] == 0:
        raise ValueError(f"order {order['order']} has no amount")
    print(f"processed order {order['order']}")


def main() -> None:
    """Process until Ctrl-C or SIGTERM; failures become dead letters."""
    with (
        KafkaProducer(bootstrap_servers=BOOTSTRAP_SERVERS, acks="all") as producer,
        KafkaConsumer(
            TOPIC,
            bootstrap_servers=BOOTSTRAP_SERVERS,
            group_id=os.environ.get("GROUP", "example"),
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer,
    ):
        workers = KeyedWorkers(
            consumer,
            process,
            retry=Retry(3, backoff_ms=(100, 1_000)),
            exhausted=DeadLetters(producer, f"{TOPIC}.dead"),
            commit_interval_ms=1_000,
        )
        try:
            workers.run(signals=[signal.SIGTERM, signal.SIGINT])
        except (CommitFailedError, KafkaTimeoutError) as error:
            print(f"not committed at the end: {error}")  # these records are handled again


if __name__ == "__main__":
    main()
