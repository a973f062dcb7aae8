"""Process every record at least once: commit after processing, never before.

pip install tandem-kafka
python at_least_once.py
"""

from __future__ import annotations

import os
import signal
import threading

from tandem_kafka import ConsumerRecord, KafkaConsumer
from tandem_kafka.errors import CommitFailedError, KafkaTimeoutError

stopping = threading.Event()


def stop(number: int, _frame: object) -> None:
    """Let the loop finish its batch. A second signal ends the process at once."""
    stopping.set()
    signal.signal(number, signal.SIG_DFL)


def process(record: ConsumerRecord) -> None:
    """Stand for the work."""
    print(f"{record.topic}-{record.partition} at {record.offset}: {record.value!r}")


def main() -> None:
    """Read, process, commit, until Ctrl-C or SIGTERM."""
    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    with KafkaConsumer(
        os.environ.get("TOPIC", "orders"),
        bootstrap_servers=os.environ.get("BOOTSTRAP_SERVERS", "localhost:9092"),
        group_id=os.environ.get("GROUP", "example"),
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        while not stopping.is_set():
            for records in consumer.poll(timeout_ms=1_000).values():
                for record in records:
                    process(record)
            try:
                consumer.commit()
            except (CommitFailedError, KafkaTimeoutError) as error:
                # The next commit covers the partitions that this member keeps. Those that it lost
                # are read again, from their last commit, by their new owner.
                print(f"not committed: {error}")


if __name__ == "__main__":
    main()
