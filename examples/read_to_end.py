"""Read a topic from its beginning to its present end, then stop: a job, not a service.

It joins no group and commits nothing.

    pip install tandem-kafka
    python read_to_end.py
"""

from __future__ import annotations

import os
import signal

from tandem_kafka import KafkaConsumer, TopicPartition

TOPIC = os.environ.get("TOPIC", "orders")


def main() -> None:
    """Count the records and the bytes of a topic."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C needs no clean end: nothing is open
    read = size = 0
    with KafkaConsumer(
        bootstrap_servers=os.environ.get("BOOTSTRAP_SERVERS", "localhost:9092"),
        auto_offset_reset="earliest",
    ) as consumer:
        numbers = consumer.partitions_for_topic(TOPIC)
        if not numbers:
            raise SystemExit(f"there is no topic {TOPIC!r}")
        partitions = [TopicPartition(TOPIC, number) for number in sorted(numbers)]
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)  # what is written from now on does not count
        for partition, end in ends.items():
            consumer.stop_at(partition, end)  # fetch nothing after it
        # Positions are compared, not the offset of the last record: the last offsets may hold
        # markers of transactions, which are never returned.
        while any((consumer.position(tp) or 0) < end for tp, end in ends.items()):
            for partition, records in consumer.poll(timeout_ms=1_000).items():
                for record in records:
                    if record.offset < ends[partition]:  # a fetch may return more
                        read += 1
                        size += len(record.value or b"")
    print(f"{read} records, {size} bytes of values")


if __name__ == "__main__":
    main()
