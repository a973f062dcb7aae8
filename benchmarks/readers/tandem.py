"""This consumer."""

from __future__ import annotations

from benchmarks.readers.base import Source
from tandem_kafka import KafkaConsumer, TopicPartition

__all__ = ["Tandem"]


class Tandem:
    """`poll()` with the default of 500 records, or more."""

    def __init__(self, source: Source, max_records: int = 500) -> None:
        self._consumer = KafkaConsumer(
            bootstrap_servers=source.bootstrap,
            enable_auto_commit=False,
            max_poll_records=max_records,
        )
        partitions = [TopicPartition(source.topic, number) for number in range(source.partitions)]
        self._consumer.assign(partitions)
        if source.from_end:
            self._consumer.seek_to_end(*partitions)
        else:
            self._consumer.seek_to_beginning(*partitions)

    def values(self, timeout_s: float) -> list[bytes]:
        """Poll once."""
        batches = self._consumer.poll(timeout_ms=int(timeout_s * 1000))
        return [record.value for records in batches.values() for record in records]

    def close(self) -> None:
        """Close the client."""
        self._consumer.close()
