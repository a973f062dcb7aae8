"""Read a topic from its beginning to its present end, then stop: a job, not a service.

Run it with Python 3.11 or newer, after `pip install tandem-kafka`. It joins no group and commits
nothing:

    python examples/read_to_end.py --bootstrap localhost:9092 --topic numbers
"""

from __future__ import annotations

from collections.abc import Mapping

from arguments import parse
from stopping import Stop

from tandem_kafka import KafkaConsumer, TopicPartition


def unfinished(consumer: KafkaConsumer, ends: Mapping[TopicPartition, int]) -> bool:
    """Return whether a partition has records left before its end.

    The position is compared, not the offset of the last record: the last offsets may hold markers
    of transactions, which are never returned.
    """
    return any((consumer.position(tp) or 0) < end for tp, end in ends.items())


def main() -> None:
    """Count the records and the bytes of a topic."""
    arguments = parse(__doc__)
    stop = Stop(arguments.stop_after)
    read = size = 0
    with KafkaConsumer(
        bootstrap_servers=arguments.bootstrap, auto_offset_reset="earliest"
    ) as consumer:
        numbers = sorted(consumer.partitions_for_topic(arguments.topic))
        if not numbers:
            raise SystemExit(f"there is no topic {arguments.topic!r}")
        partitions = [TopicPartition(arguments.topic, number) for number in numbers]
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)  # what is written from now on does not count
        for partition, end in ends.items():
            consumer.stop_at(partition, end)  # fetch nothing after it
        while not stop.due(read) and unfinished(consumer, ends):
            for partition, records in consumer.poll(timeout_ms=1_000).items():
                for record in records:
                    if record.offset < ends[partition]:
                        read += 1
                        size += len(record.value or b"")
    print(f"{size} bytes of values")
    print(f"read {read}")


if __name__ == "__main__":
    main()
