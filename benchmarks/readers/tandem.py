"""This consumer: records with `poll()` or iteration, or columns with `poll_arrow()`."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

from benchmarks.readers.base import Source
from tandem_kafka import KafkaConsumer, TopicPartition

__all__ = ["Tandem", "TandemArrow", "TandemLoop"]

#: A broker continues to load thousands of new partitions after they have leaders.
_LOADING_MS = 240_000
#: Iteration ends after this long without a record.
_SILENCE_MS = 1_000


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
            # Measure the steady state, which is reached after two seconds: all positions are known,
            # fetches are in flight, and idle partitions are separated from busy ones.
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
        """Return the number of assigned partitions."""
        return len(self._consumer.assignment())

    def close(self) -> None:
        """Close the client."""
        self._consumer.close()


class TandemLoop(Tandem):
    """`for record in consumer`, one record at a time."""

    def __init__(self, source: Source) -> None:
        super().__init__(source, {"consumer_timeout_ms": _SILENCE_MS})

    def values(self, timeout_s: float) -> list[bytes]:  # noqa: ARG002 - see `_SILENCE_MS`
        """Read one record."""
        return [record.value for record in islice(self._consumer, 1)]


class TandemArrow(Tandem):
    """`poll_arrow()` with its defaults and all columns, or with other arguments."""

    def __init__(self, source: Source, called_with: Mapping[str, Any] | None = None) -> None:
        super().__init__(source)
        self._called_with = called_with or {}

    def count(self, timeout_s: float) -> tuple[int, int]:
        """Poll once, and read only the lengths of the values."""
        batch = self._consumer.poll_arrow(timeout_ms=int(timeout_s * 1000), **self._called_with)
        return batch.num_rows, _bytes_in(batch.column("value"))


def _bytes_in(column: Any) -> int:
    """Return the bytes of all values of a column of type binary or binary_view."""
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
