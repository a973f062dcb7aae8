"""`python -m tandem_kafka.testing serve`: a cluster to try things on, with a topic that grows."""

from __future__ import annotations

import json
import time
from itertools import count

from confluent_kafka import Producer

from tandem_kafka.testing.served import ServedKafka

__all__ = ["order", "serve"]

#: Records that the topic holds before the address is printed.
_FIRST_RECORDS = 100
_CUSTOMERS = 10
_FLUSH_TIMEOUT_S = 10.0


def serve(topic: str, partitions: int, per_second: int) -> None:
    """Run the embedded cluster and write JSON records to a topic until Ctrl-C.

    Args:
        topic: Name of the topic.
        partitions: Number of its partitions.
        per_second: New records per second.

    Raises:
        KeyboardInterrupt: Ctrl-C.
    """
    kafka = ServedKafka()
    kafka.create_topic(topic, partitions)
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
    for number in count():
        if number == _FIRST_RECORDS:
            producer.flush(_FLUSH_TIMEOUT_S)
            _print_address(kafka.bootstrap, topic, partitions, per_second)
        if number >= _FIRST_RECORDS:
            time.sleep(1 / per_second)
        key, value = order(number)
        producer.produce(topic, value, key)
        producer.poll(0)


def order(number: int) -> tuple[bytes, bytes]:
    """Return the key and the value of an order: a customer and a JSON document.

    Args:
        number: The order's number, from 0.
    """
    customer = f"customer-{number % _CUSTOMERS}"
    value = {"order": number, "customer": customer, "amount": 1.5 * (number % 40)}
    return customer.encode(), json.dumps(value).encode()


def _print_address(bootstrap: str, topic: str, partitions: int, per_second: int) -> None:
    print(bootstrap)
    print(
        f"topic {topic!r}: {partitions} partitions, {_FIRST_RECORDS} JSON records, "
        f"{per_second} more each second; Ctrl-C stops the cluster",
        flush=True,
    )
