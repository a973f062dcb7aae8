"""`tandem-kafka serve`: a cluster to try things on, with a topic of records."""

from __future__ import annotations

import asyncio
import json
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import count

from tandem_kafka.testing.loopback import LoopbackCluster
from tandem_kafka.types import TopicPartition

_CUSTOMERS = 10
_FLUSH_TIMEOUT_S = 10.0
_IDLE_S = 3_600.0

#: Appends a record: value, key, and the partition if there is no key.
_Append = Callable[[bytes, bytes | None, int], object]


@dataclass(frozen=True, slots=True)
class Served:
    """The cluster and the topic that are served.

    Attributes:
        topic: Name of the topic.
        partitions: Number of its partitions.
        values: "orders" for JSON documents with keys, "numbers" for 0, 1, 2 ... without.
        records: Records that the topic holds before the address is printed.
        per_second: New records per second; 0 for none.
        simulated: Serve the simulated cluster instead of the one embedded in librdkafka.
        port: Port of the simulated cluster; 0 for a free one.
    """

    topic: str = "orders"
    partitions: int = 4
    values: str = "orders"
    records: int = 100
    per_second: int = 10
    simulated: bool = False
    port: int = 0


def serve(served: Served) -> None:
    """Run the cluster and write records to a topic until Ctrl-C.

    Raises:
        KeyboardInterrupt: Ctrl-C.
        ModuleNotFoundError: The embedded cluster needs confluent-kafka.
        OSError: The port is in use.
    """
    if served.simulated:
        asyncio.run(_serve_simulated(served))
    else:
        _serve_embedded(served)


def _serve_embedded(served: Served) -> None:
    from confluent_kafka import Producer

    from tandem_kafka.testing.served import ServedKafka

    kafka = ServedKafka()
    kafka.create_topic(served.topic, served.partitions)
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "log_level": 0})

    def append(value: bytes, key: bytes | None, partition: int) -> None:
        if key is None:
            producer.produce(served.topic, value, partition=partition)
        else:
            producer.produce(served.topic, value, key)
        producer.poll(0)

    numbers = count()
    _append_some(served, numbers, served.records, append)
    producer.flush(_FLUSH_TIMEOUT_S)
    _print_address(kafka.bootstrap, served)
    for _ in _ticks(served.per_second):
        _append_some(served, numbers, 1, append)


async def _serve_simulated(served: Served) -> None:
    async with LoopbackCluster(port=served.port) as loopback:
        cluster = loopback.cluster
        cluster.create_topic(served.topic, served.partitions)

        def append(value: bytes, key: bytes | None, partition: int) -> None:
            number = partition if key is None else zlib.crc32(key) % served.partitions
            keys = () if key is None else (key,)
            cluster.produce(TopicPartition(served.topic, number), value, keys=keys)

        numbers = count()
        _append_some(served, numbers, served.records, append)
        _print_address(loopback.bootstrap, served)
        while True:
            await asyncio.sleep(1 / served.per_second if served.per_second else _IDLE_S)
            if served.per_second:
                loopback.perform(partial(_append_some, served, numbers, 1, append))


def order(number: int) -> tuple[bytes, bytes]:
    """Return the key and the value of an order: a customer and a JSON document.

    Args:
        number: The order's number, from 0.
    """
    customer = f"customer-{number % _CUSTOMERS}"
    value = {"order": number, "customer": customer, "amount": 1.5 * (number % 40)}
    return customer.encode(), json.dumps(value).encode()


def _append_some(served: Served, numbers: Iterator[int], how_many: int, append: _Append) -> None:
    for _ in range(how_many):
        number = next(numbers)
        if served.values == "orders":
            key, value = order(number)
            append(value, key, 0)
        else:
            append(b"%d" % number, None, number % served.partitions)


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
