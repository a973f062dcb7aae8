"""The producer: it writes the orders at an even pace, up to a given share."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from confluent_kafka import KafkaError, Message, Producer

from pipeline.encoding import customer_value
from pipeline.orders import Customer, Entry

__all__ = ["Orders", "produce_customers"]

_TIMEOUT_S = 30.0


class Orders:
    """Writes the orders that are due.

    Attributes:
        written: The number of delivered orders.
        samples: Pairs of a time (seconds since the epoch) and the orders written by then.
    """

    def __init__(
        self,
        producer: Producer,
        topic: str,
        entries: Sequence[Entry],
        encode: Callable[[Entry], bytes],
        per_second: float,
    ) -> None:
        self.written = 0
        self.samples: list[tuple[float, int]] = []
        self._producer = producer
        self._topic = topic
        self._entries = entries
        self._encode = encode
        self._per_second = per_second
        self._due = 0.0
        self._last_s = time.monotonic()
        self._limit = len(entries)

    def up_to(self, share: float) -> None:
        """Continue up to this share of all orders."""
        self._limit = round(len(self._entries) * share)

    @property
    def limit(self) -> int:
        """The number of orders up to which it writes."""
        return self._limit

    @property
    def complete(self) -> bool:
        """Whether all are written."""
        return self.written == len(self._entries)

    def write(self) -> None:
        """Write the orders that are due, and wait for their delivery.

        This keeps the partitions in step.
        """
        now_s = time.monotonic()
        if not self._limit:
            self._last_s = now_s
            return
        self._due = min(self._due + (now_s - self._last_s) * self._per_second, self._limit)
        self._last_s = now_s
        for entry in self._entries[self.written : int(self._due)]:
            key = str(entry.order.id)
            value = self._encode(entry)
            self._producer.produce(self._topic, value, key, on_delivery=_check)
        _flush(self._producer)
        self.written = int(self._due)
        self.samples.append((time.time(), self.written))


def produce_customers(producer: Producer, topic: str, customers: Sequence[Customer]) -> None:
    """Write all customers."""
    for each in customers:
        producer.produce(topic, customer_value(each), each.id, on_delivery=_check)
    _flush(producer)


def _flush(producer: Producer) -> None:
    if producer.flush(_TIMEOUT_S):
        raise RuntimeError(f"not all records were delivered within {_TIMEOUT_S:.0f} s")


def _check(error: KafkaError | None, _message: Message) -> None:
    if error is not None:
        raise RuntimeError(f"a record was not delivered: {error}")
