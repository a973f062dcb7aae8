"""Brokers behind proxies that accept connections, and close them while their broker is away."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka.request_managers.membership.classic.membership import ClassicMembership
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.ports import free_ports
from tandem_kafka_testing.kafka.proxy import Proxy
from tandem_kafka_testing.kafka.security import PASSWORD
from tandem_kafka_testing.kafka.settings import BrokerAddress
from tests.integration.polling import Consume, poll_until

pytestmark = [pytest.mark.full("starts brokers of its own"), pytest.mark.timeout(300)]

LISTENER = "SASL_PLAINTEXT"
PROTOCOLS = ("classic", "consumer", "auto")
#: Many more attempts than could ever be taken for a proof.
OUTAGE_MS = 6_000


class Doorways:
    """A cluster of three, reached through proxies only."""

    def __init__(self) -> None:
        self.proxies: dict[int, Proxy] = {}
        self.targets: dict[int, str] = {}
        self.cluster = RealKafka(brokers=3, advertise=self._behind_a_proxy)

    def _behind_a_proxy(self, address: BrokerAddress) -> dict[str, int]:
        self.targets[address.node_id] = f"127.0.0.1:{address.ports[LISTENER]}"
        proxy = self.proxies[address.node_id] = Proxy(self.targets[address.node_id])
        return {LISTENER: proxy.port}

    @property
    def options(self) -> dict[str, Any]:
        return {
            "bootstrap_servers": ",".join(proxy.address for proxy in self.proxies.values()),
            "security_protocol": LISTENER,
            "sasl_mechanism": "PLAIN",
            "sasl_plain_username": "admin",
            "sasl_plain_password": PASSWORD,
        }

    def shut(self, *node_ids: int) -> None:
        """From now on, no server is behind the given proxies, or behind any."""
        (nowhere,) = free_ports(1)
        for node_id in node_ids or self.proxies:
            self.proxies[node_id].lead_to(f"127.0.0.1:{nowhere}")
            self.proxies[node_id].cut()

    def open(self) -> None:
        for node_id, proxy in self.proxies.items():
            proxy.lead_to(self.targets[node_id])

    def close(self) -> None:
        for proxy in self.proxies.values():
            proxy.close()
        self.cluster.close()


@pytest.fixture(scope="module")
def doorways() -> Iterator[Doorways]:
    doorways = Doorways()
    try:
        doorways.cluster.start()
        yield doorways
    finally:
        doorways.close()


@pytest.fixture
def topic(doorways: Doorways) -> Iterator[str]:
    yield doorways.cluster.admin.create_topic(f"doorway-{uuid.uuid4().hex[:8]}", 3, replicas=3)
    doorways.open()


def poll_for(consumer: KafkaConsumer, duration_ms: int) -> None:
    """No poll raises during the outage."""
    clock = consumer._core.clock
    until_ms = clock.now_ms() + duration_ms
    while clock.now_ms() < until_ms:
        consumer.poll(200)


def check_reads(doorways: Doorways, consumer: KafkaConsumer, topic: str) -> None:
    """A new record is read; after a lost membership, old records are read again before it."""
    value = uuid.uuid4().bytes
    doorways.cluster.admin.produce(topic, [value])
    end_ms = consumer._core.clock.now_ms() + 60_000
    values: set[bytes | None] = set()
    while value not in values:
        assert consumer._core.clock.now_ms() < end_ms, f"only {len(values)} others came"
        for records in consumer.poll(500).values():
            values.update(record.value for record in records)


def classic(consumer: KafkaConsumer) -> bool:
    membership = consumer._core.engine.loop._managers.group.membership
    chosen_broker = getattr(membership, "_membership", membership)
    return isinstance(chosen_broker, ClassicMembership)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_member_reads_again_after_an_outage(
    doorways: Doorways, consume: Consume, topic: str, protocol: str
) -> None:
    consumer = consume(topic, group_id=topic, group_protocol=protocol, **doorways.options)
    poll_until(consumer, consumer.assignment)
    check_reads(doorways, consumer, topic)
    doorways.shut()
    poll_for(consumer, OUTAGE_MS)
    doorways.open()
    check_reads(doorways, consumer, topic)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_member_created_during_an_outage_joins_after_it(
    doorways: Doorways, consume: Consume, topic: str, protocol: str
) -> None:
    doorways.shut()
    options = {**doorways.options, "bootstrap_timeout_ms": 0, "group_protocol": protocol}
    consumer = consume(topic, group_id=topic, **options)
    poll_for(consumer, OUTAGE_MS)
    doorways.open()
    poll_until(consumer, consumer.assignment)
    check_reads(doorways, consumer, topic)
    assert classic(consumer) is (protocol == "classic"), "'auto' still selects KIP-848"


def test_assigned_partitions_are_read_again(
    doorways: Doorways, consume: Consume, topic: str
) -> None:
    consumer = consume(**doorways.options)
    consumer.assign([TopicPartition(topic, number) for number in range(3)])
    check_reads(doorways, consumer, topic)
    doorways.shut()
    poll_for(consumer, OUTAGE_MS)
    doorways.open()
    check_reads(doorways, consumer, topic)


def test_the_constructor_waits_for_a_broker(
    doorways: Doorways, consume: Consume, topic: str
) -> None:
    doorways.shut()
    timer = threading.Timer(OUTAGE_MS / 1000, doorways.open)
    timer.start()
    consumer = consume(**doorways.options, bootstrap_timeout_ms=60_000)
    timer.join()
    assert topic in consumer.topics()
