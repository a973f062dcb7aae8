"""kafka-python, as installed by `pip install kafka-python`, or with the crc32c package."""

from __future__ import annotations

import sys

from benchmarks.readers.base import Source

__all__ = ["KafkaPython"]


class KafkaPython:
    """`poll()` with the default of 500 records."""

    def __init__(self, source: Source, crc32c: bool = True) -> None:
        if not crc32c:
            sys.modules["crc32c"] = None  # type: ignore[assignment]  # importing it now fails
        from kafka import KafkaConsumer, TopicPartition  # noqa: PLC0415 - after the line above

        self._consumer = KafkaConsumer(bootstrap_servers=source.bootstrap, enable_auto_commit=False)
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
