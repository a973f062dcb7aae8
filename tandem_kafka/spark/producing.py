"""A worker's producer: one for each configuration, idempotent, every delivery waited for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import KafkaException, Producer

from tandem_kafka.errors import InvalidArgumentError, KafkaError
from tandem_kafka.runtime import MonotonicClock
from tandem_kafka.spark.client import producer_options
from tandem_kafka.spark.options import SinkOptions
from tandem_kafka.spark.rows import Row, rows_of

__all__ = ["DeliveryError", "deliver"]

#: So many failures are told of; the rest are counted.
_SHOWN: Final = 5


class DeliveryError(KafkaError):
    """Rows that the cluster did not take."""


@dataclass(slots=True)
class _Deliveries:
    """What became of a task's rows."""

    failed: int = 0
    shown: list[str] = field(default_factory=list)

    def note(self, error: Any, message: Any) -> None:
        """Take a delivery report."""
        if error is None:
            return
        self.failed += 1
        if len(self.shown) < _SHOWN:
            key = message.key()
            at = f"{message.topic()}-{message.partition()}"
            self.shown.append(f"{at} key {_shown(key)}: {error.str()}")

    def check(self) -> None:
        """Raise if a row was not taken."""
        if self.failed:
            raise DeliveryError(f"{self.failed} rows were not delivered: {'; '.join(self.shown)}")


def _shown(key: bytes | None) -> str:
    return "null" if key is None else repr(key[:64])


#: Of this process, given in the key.
_producers: dict[Any, Any] = {}


def deliver(batches: Iterator[Any], options: SinkOptions) -> None:
    """Produce all rows and wait for their delivery.

    Raises:
        DeliveryError: Rows were refused, or not delivered in time.
        InvalidArgumentError: A row has no topic.
    """
    config = producer_options(options.kafka)
    key = (os.getpid(), *sorted(config.items()))
    producer = _producers.get(key) or _new_producer(key, config)
    deliveries = _Deliveries()
    try:
        for batch in batches:
            for row in rows_of(batch, options.topic):
                _produce(producer, row, deliveries, options)
            deliveries.check()
        _flush(producer, options.flush_timeout_ms)
        deliveries.check()
    except BaseException:
        # What it still holds belongs to a task that failed.
        _producers.pop(key, None)
        producer.purge()
        raise


def _new_producer(key: Any, config: dict[str, Any]) -> Any:
    _producers.clear()  # of a parent process, or of a configuration that is not used any more
    producer = _producers[key] = Producer(config)
    return producer


def _produce(producer: Any, row: Row, deliveries: _Deliveries, options: SinkOptions) -> None:
    if row.topic is None:
        raise InvalidArgumentError(
            "a row has no topic: its column topic is null, and the option topic is not given"
        )
    chosen = {
        "partition": row.partition,
        "headers": row.headers,
        "timestamp": row.timestamp_ms,
    }
    more = {name: value for name, value in chosen.items() if value is not None}
    note = deliveries.note
    until_ms = MonotonicClock().now_ms() + options.flush_timeout_ms
    while True:
        try:
            producer.produce(row.topic, row.value, row.key, on_delivery=note, **more)
        except BufferError:
            if MonotonicClock().now_ms() >= until_ms:
                raise DeliveryError("the producer's buffer stays full") from None
            producer.poll(0.1)
        except KafkaException as error:
            at = "" if row.partition is None else f"-{row.partition}"
            raise DeliveryError(f"{row.topic}{at} key {_shown(row.key)}: {error}") from None
        else:
            producer.poll(0)
            return


def _flush(producer: Any, timeout_ms: int) -> None:
    left = producer.flush(timeout_ms / 1_000)
    if left:
        raise DeliveryError(f"{left} rows were not delivered within {timeout_ms} ms")
