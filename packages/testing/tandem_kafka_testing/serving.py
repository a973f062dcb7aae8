"""`tandem-kafka serve`: a cluster to try things on, with a topic of records."""

from __future__ import annotations

import json
import os
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count, islice

from tandem_kafka.types import TopicPartition
from tandem_kafka_testing.cluster import SimCluster
from tandem_kafka_testing.cluster.topics import is_valid_name
from tandem_kafka_testing.fault_plan import FaultPlan
from tandem_kafka_testing.served import ServedKafka

#: The port in the examples of the manual.
KAFKA_PORT = 9092
_CUSTOMERS = 10
_IDLE_S = 3_600.0


@dataclass(frozen=True, slots=True)
class Served:
    """The cluster and the topic that are served.

    Attributes:
        topic: Name of the topic.
        partitions: Number of its partitions.
        values: "orders" for JSON documents with keys, "numbers" for 0, 1, 2 ... without.
        records: Records that the topic holds before the address is printed.
        per_second: New records per second; 0 for none.
        brokers: Number of brokers.
        release: The release that the brokers simulate; None for all that is simulated.
        users: Passwords by user, if clients must log in.
        port: Port of the first broker, 0 for free ports; None for 9092 if it is free.
        faults: The faults that clients meet; None for none.
        seed: Determines what the faults leave open.
        real: The version of a real Kafka to run instead of the simulation; None for none.

    Raises:
        ValueError: A real Kafka cannot do what is wanted, or a topic cannot have the name.
    """

    topic: str = "orders"
    partitions: int = 4
    values: str = "orders"
    records: int = 100
    per_second: int = 10
    brokers: int = 1
    release: str | None = None
    users: Mapping[str, str] = field(default_factory=dict)
    port: int | None = None
    faults: FaultPlan | None = None
    seed: int = 0
    real: str | None = None

    def __post_init__(self) -> None:
        if not is_valid_name(self.topic):
            raise ValueError(
                f"--topic {self.topic!r}: a name has ASCII letters, digits, '.', '_' and '-'"
            )
        if self.real is None:
            return
        simulated = {"release": self.release, "user": self.users, "port": self.port}
        for name, given in {**simulated, "faults": self.faults}.items():
            if given:
                raise ValueError(f"--{name} is for the simulated cluster; leave it or --kafka out")


def serve(served: Served) -> None:
    """Run the cluster and write records to a topic until Ctrl-C.

    Raises:
        KeyboardInterrupt: Ctrl-C.
        OSError: The port is in use.
    """
    if served.real is not None:
        _serve_real(served, served.real)
        return
    begin_s = time.monotonic()

    def report(fault: str) -> None:
        print(f"{time.monotonic() - begin_s:8.1f} s  {fault}", file=sys.stderr, flush=True)

    with _opened(served, report) as kafka:
        kafka.create_topic(served.topic, served.partitions)
        numbers = count()
        kafka.perform(lambda cluster: _append_some(cluster, served, numbers, served.records))
        _print_address(kafka.bootstrap, served)
        _keep_up(served, lambda: kafka.perform(lambda each: _append_some(each, served, numbers, 1)))


def _opened(served: Served, report: Callable[[str], None]) -> ServedKafka:
    def opened(port: int) -> ServedKafka:
        return ServedKafka(
            brokers=served.brokers,
            seed=served.seed,
            kafka=served.release,
            users=served.users,
            port=port,
            faults=served.faults,
            on_fault=report,
        )

    if served.port is not None:
        return opened(served.port)
    try:
        return opened(KAFKA_PORT)
    except OSError as error:
        why = os.strerror(error.errno or 0)
        print(f"port {KAFKA_PORT} cannot be used: {why}; connect to:", file=sys.stderr, flush=True)
        return opened(0)


def _serve_real(served: Served, version: str) -> None:
    from confluent_kafka import Producer

    from tandem_kafka_testing.kafka import RealKafka

    numbers = count()
    with RealKafka(served.brokers, version=version) as kafka:
        kafka.admin.create_topic(served.topic, served.partitions)
        producer = Producer({"bootstrap.servers": kafka.bootstrap(), "log_level": 0})

        def append(how_many: int) -> None:
            for number in islice(numbers, how_many):
                partition, key, value = _record(served, number)
                producer.produce(served.topic, value, key, partition)
                producer.poll(0)
            producer.flush()

        append(served.records)
        _print_address(kafka.bootstrap(), served)
        _keep_up(served, lambda: append(1))


def _keep_up(served: Served, append_one: Callable[[], object]) -> None:
    while True:
        time.sleep(1 / served.per_second if served.per_second else _IDLE_S)
        if served.per_second:
            append_one()


def order(number: int) -> tuple[bytes, bytes]:
    """Return the key and the value of an order: a customer and a JSON document.

    Args:
        number: The order's number, from 0.
    """
    customer = f"customer-{number % _CUSTOMERS}"
    value = {"order": number, "customer": customer, "amount": 1.5 * (number % 40)}
    return customer.encode(), json.dumps(value).encode()


def _record(served: Served, number: int) -> tuple[int, bytes | None, bytes]:
    """Return the partition, the key and the value of a record."""
    if served.values == "orders":
        key, value = order(number)
        return zlib.crc32(key) % served.partitions, key, value
    return number % served.partitions, None, b"%d" % number


def _append_some(
    cluster: SimCluster, served: Served, numbers: Iterator[int], how_many: int
) -> None:
    for number in islice(numbers, how_many):
        partition, key, value = _record(served, number)
        cluster.produce(TopicPartition(served.topic, partition), value, keys=(key,) if key else ())


def _print_address(bootstrap: str, served: Served) -> None:
    print(bootstrap)
    print(
        f"topic {served.topic!r}: {served.partitions} partitions, {served.records} records "
        f"({served.values}), {served.per_second} more each second; Ctrl-C stops the cluster",
        flush=True,
    )
