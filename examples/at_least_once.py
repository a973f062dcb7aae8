"""Process every record at least once: commit after processing, never before.

Run it with Python 3.11 or newer, after `pip install tandem-kafka`:

    python examples/at_least_once.py --bootstrap localhost:9092 --topic numbers
"""

from __future__ import annotations

from arguments import parse
from stopping import Stop

from tandem_kafka import ConsumerRecord, KafkaConsumer
from tandem_kafka.errors import CommitFailedError


def process(record: ConsumerRecord) -> None:
    """Stand for the work."""
    print(f"{record.topic}-{record.partition} at {record.offset}: {record.value!r}")


def main() -> None:
    """Read, process, commit."""
    arguments = parse(__doc__)
    stop = Stop(arguments.stop_after)
    processed = 0
    with KafkaConsumer(
        arguments.topic,
        bootstrap_servers=arguments.bootstrap,
        group_id=arguments.group,
        group_protocol="auto",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        while not stop.due(processed):
            batch = consumer.poll(timeout_ms=1_000)
            for records in batch.values():
                for record in records:
                    process(record)
                    processed += 1
            if batch:
                commit(consumer)
    print(f"processed {processed}")


def commit(consumer: KafkaConsumer) -> None:
    """Commit what was processed. A crash before this repeats the batch and loses nothing."""
    try:
        consumer.commit_sync()
    except CommitFailedError as error:
        # A rebalance came first. Call poll() again: it keeps the partitions or gives them up, and
        # the records that were not committed are read again.
        print(f"not committed: {error}")


if __name__ == "__main__":
    main()
