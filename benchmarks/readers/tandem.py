"""This consumer: records by `poll()`, or columns by `poll_arrow()`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.readers.base import Source
from tandem_kafka import KafkaConsumer, TopicPartition

__all__ = ["Tandem", "TandemArrow"]

#: A broker goes on loading thousands of new partitions when they have their leaders.
_LOADING_MS = 240_000


class Tandem:
    """`poll()` with the defaults, or with other options."""

    def __init__(self, source: Source, options: Mapping[str, Any] | None = None) -> None:
        self._consumer = KafkaConsumer(
            bootstrap_servers=source.bootstrap,
            group_id=source.group,
            enable_auto_commit=False,
            **_tls(source),
            **(options or {}),
        )
        if source.group is None:
            self._assign(source)
        else:
            self._consumer.subscribe([source.topic])

    def _assign(self, source: Source) -> None:
        count = source.partitions + source.beside
        partitions = [TopicPartition(source.topic, number) for number in range(count)]
        self._consumer.assign(partitions)
        if source.from_end or source.beside:
            self._consumer.seek_to_end(*partitions)
        if source.beside:
            # What follows is measured with all positions known, the fetches going, and those that
            # are quiet sorted out, as they are after two seconds.
            for partition in partitions:
                self._consumer.position(partition, timeout_ms=_LOADING_MS)
            for _ in range(3):
                self._consumer.poll(timeout_ms=1000)
        if not source.from_end:
            self._consumer.seek_to_beginning(*partitions[: source.partitions])

    def values(self, timeout_s: float) -> list[bytes]:
        """Poll once."""
        batches = self._consumer.poll(timeout_ms=int(timeout_s * 1000))
        return [record.value for records in batches.values() for record in records]

    def assigned(self) -> int:
        """How many partitions it has."""
        return len(self._consumer.assignment())

    def close(self) -> None:
        """Close the client."""
        self._consumer.close()


class TandemArrow(Tandem):
    """`poll_arrow()` with all columns and its defaults, or called with something else."""

    def __init__(self, source: Source, called_with: Mapping[str, Any] | None = None) -> None:
        super().__init__(source)
        self._called_with = called_with or {}

    def count(self, timeout_s: float) -> tuple[int, int]:
        """Poll once; of the values only the lengths are looked at."""
        batch = self._consumer.poll_arrow(timeout_ms=int(timeout_s * 1000), **self._called_with)
        return batch.num_rows, _bytes_in(batch.column("value"))


def _bytes_in(column: Any) -> int:
    """The bytes of all values of a new column, of the type binary or binary_view."""
    if not len(column):
        return 0
    lengths = memoryview(column.buffers()[1]).cast("i")
    if str(column.type) == "binary_view":
        return sum(lengths[: 4 * len(column) : 4])
    return int(lengths[len(column)] - lengths[0])


def _tls(source: Source) -> dict[str, Any]:
    if source.authority is None:
        return {}
    return {"security_protocol": "SSL", "ssl_cafile": source.authority}
