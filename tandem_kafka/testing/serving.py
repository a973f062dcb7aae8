"""`python -m tandem_kafka.testing serve`: a cluster to try things on, with a topic of records."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Final

from confluent_kafka import Producer

from tandem_kafka.testing.served import ServedKafka

__all__ = ["Served", "order", "serve"]

_CUSTOMERS = 10
_FLUSH_TIMEOUT_S = 10.0
_IDLE_S = 3_600.0


@dataclass(frozen=True, slots=True)
class Served:
    """The topic that is served.

    Attributes:
        topic: Name of the topic.
        partitions: Number of its partitions.
        values: "orders" for JSON documents with keys, "numbers" for 0, 1, 2 ... without.
        records: Records that the topic holds before the address is printed.
        per_second: New records per second; 0 for none.
    """

    topic: str = "orders"
    partitions: int = 4
    values: str = "orders"
    records: int = 100
    per_second: int = 10


def serve(served: Served) -> None:
    """Run the embedded cluster and write records to a topic until Ctrl-C.

    Raises:
        KeyboardInterrupt: Ctrl-C.
    """
    kafka = ServedKafka()
    kafka.create_topic(served.topic, served.partitions)
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
    numbers, write = count(), _WRITERS[served.values]
    for _ in range(served.records):
        write(producer, served, next(numbers))
    producer.flush(_FLUSH_TIMEOUT_S)
    _print_address(kafka.bootstrap, served)
    for _ in _ticks(served.per_second):
        write(producer, served, next(numbers))


def order(number: int) -> tuple[bytes, bytes]:
    """Return the key and the value of an order: a customer and a JSON document.

    Args:
        number: The order's number, from 0.
    """
    customer = f"customer-{number % _CUSTOMERS}"
    value = {"order": number, "customer": customer, "amount": 1.5 * (number % 40)}
    return customer.encode(), json.dumps(value).encode()


def _write_order(producer: Producer, served: Served, number: int) -> None:
    key, value = order(number)
    producer.produce(served.topic, value, key)
    producer.poll(0)


def _write_number(producer: Producer, served: Served, number: int) -> None:
    producer.produce(served.topic, b"%d" % number, partition=number % served.partitions)
    producer.poll(0)


_WRITERS: Final[dict[str, Callable[[Producer, Served, int], None]]] = {
    "orders": _write_order,
    "numbers": _write_number,
}


def _ticks(per_second: int) -> Iterator[None]:
    while True:
        time.sleep(1 / per_second if per_second else _IDLE_S)
        if per_second:
            yield


def _print_address(bootstrap: str, served: Served) -> None:
    print(bootstrap)
    print(
        f"topic {served.topic!r}: {served.partitions} partitions, {served.records} records "
        f"({served.values}), {served.per_second} more each second; Ctrl-C stops the cluster",
        flush=True,
    )
