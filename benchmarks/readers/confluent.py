"""confluent-kafka, with its defaults or tuned for throughput."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, Message, TopicPartition

from benchmarks.readers.base import Source

__all__ = ["FOR_THROUGHPUT", "Confluent"]

#: Fetch again immediately, with a large queue.
FOR_THROUGHPUT: Mapping[str, int] = {"fetch.queue.backoff.ms": 1, "queued.min.messages": 1_000_000}

_BATCH = 5000


class Confluent:
    """`consume(5000)`, or `poll()` for latency, because `consume` waits for a full batch."""

    def __init__(self, source: Source, options: Mapping[str, int] | None = None) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": source.bootstrap,
                "group.id": source.group or "unused",  # required by the client, but not joined
                "enable.auto.commit": False,
                **_tls(source),
                **(options or {}),
            }
        )
        self._eager = source.eager
        if source.group is not None:
            self._consumer.subscribe([source.topic])
            return
        start = OFFSET_END if source.from_end else OFFSET_BEGINNING
        self._consumer.assign(
            [TopicPartition(source.topic, number, start) for number in range(source.partitions)]
        )

    def values(self, timeout_s: float) -> list[bytes]:
        """Consume once."""
        if self._eager:
            message = self._consumer.poll(timeout_s)
            return [] if message is None else [_value(message)]
        return [_value(message) for message in self._consumer.consume(_BATCH, timeout_s)]

    def assigned(self) -> int:
        """Return the number of assigned partitions."""
        return len(self._consumer.assignment())

    def close(self) -> None:
        """Close the client."""
        self._consumer.close()


def _tls(source: Source) -> dict[str, str]:
    if source.authority is None:
        return {}
    return {"security.protocol": "SSL", "ssl.ca.location": source.authority}


def _value(message: Message) -> bytes:
    error = message.error()
    if error is not None:
        raise RuntimeError(f"error instead of a record: {error}")
    value = message.value()
    if not isinstance(value, bytes):
        raise TypeError("a record without a value")
    return value
