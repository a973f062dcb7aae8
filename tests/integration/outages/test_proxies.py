"""Brokers behind proxies that accept connections, and close them while their broker is away.

This says nothing about the versions that the broker supports.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka.errors import KafkaTimeoutError
from tandem_kafka.request_managers.membership.classic.membership import ClassicMembership
from tandem_kafka_testing import Simulation
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.ports import free_ports
from tandem_kafka_testing.kafka.proxy import Proxy
from tandem_kafka_testing.kafka.security import PASSWORD
from tandem_kafka_testing.kafka.settings import BrokerAddress
from tests.integration.polling import Consume
from tests.scenarios.numbered_records import create_topic

LISTENER = "SASL_PLAINTEXT"
TOPIC = "orders"

#: With other seeds, which are made of the names of the tests.
SIMULATED = [pytest.param("simulated", id=f"simulated-{number}") for number in range(4)]
REAL = pytest.param(
    "real", marks=[pytest.mark.full("starts brokers of its own"), pytest.mark.timeout(300)]
)
on_simulated_cluster = pytest.mark.parametrize("kafka", SIMULATED, indirect=True)
on_both_clusters = pytest.mark.parametrize("kafka", [*SIMULATED, REAL], indirect=True)
by_each_protocol = pytest.mark.parametrize("protocol", ["classic", "consumer", "auto"])


class SimulatedDoorways:
    """A simulated cluster of three, reached through proxies only.

    Attributes:
        outage_ms: Longer than any series of attempts that could be taken for a proof.
        soon_ms: Within that time, a record is read after an outage.
        contact_ms: Within that time, a broker that is back is found.
    """

    outage_ms, soon_ms, contact_ms = 25_000, 10_000, 3_000
    topic = TOPIC

    def __init__(self, seed: object) -> None:
        self.simulation = simulation = Simulation(seed, brokers=3, trace_lines=400)
        self.cluster = cluster = simulation.cluster
        simulation.network.proxied = {broker.address for broker in cluster.brokers.values()}
        create_topic(simulation, TOPIC, 3)
        self.after = simulation.after
        self.consumer: Callable[..., KafkaConsumer] = simulation.consumer

    def now_ms(self) -> int:
        return self.simulation.clock.now_ms()

    def produce(self, value: bytes) -> None:
        self.cluster.produce(TopicPartition(TOPIC, 0), value)

    def shut(self) -> None:
        for node_id in self.cluster.brokers:
            self.cluster.stop(node_id)

    def open(self, *node_ids: int) -> None:
        for node_id in node_ids or self.cluster.brokers:
            self.cluster.start(node_id)

    def is_classic(self, _: KafkaConsumer) -> bool:
        """Tell which heartbeats have arrived, all of one protocol."""
        kinds = ("HeartbeatRequest", "ConsumerGroupHeartbeatRequest")
        brokers = self.cluster.brokers.values()
        [found] = [kind for kind in kinds if any(each.requests.get(kind) for each in brokers)]
        return found == "HeartbeatRequest"


class Doorways:
    """A real cluster of three, reached through proxies only."""

    outage_ms, soon_ms, contact_ms = 6_000, 60_000, 60_000
    topic: str
    consume: Consume

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

    def consumer(self, *topics: str, **options: Any) -> KafkaConsumer:
        return self.consume(*topics, **{**self.options, **options})

    def now_ms(self) -> int:
        return int(time.monotonic() * 1_000)

    def after(self, delay_ms: int, action: Callable[[], None]) -> None:
        threading.Timer(delay_ms / 1_000, action).start()

    def produce(self, value: bytes) -> None:
        self.cluster.admin.produce(self.topic, [value])

    def shut(self) -> None:
        """From now on, no server is behind the proxies."""
        (nowhere,) = free_ports(1)
        for proxy in self.proxies.values():
            proxy.lead_to(f"127.0.0.1:{nowhere}")
            proxy.cut()

    def open(self, *node_ids: int) -> None:
        for node_id in node_ids or self.proxies:
            self.proxies[node_id].lead_to(self.targets[node_id])

    def is_classic(self, consumer: KafkaConsumer) -> bool:
        membership = consumer._core.engine.loop._managers.group.membership
        return isinstance(getattr(membership, "_membership", membership), ClassicMembership)

    def close(self) -> None:
        for proxy in self.proxies.values():
            proxy.close()
        self.cluster.close()


@pytest.fixture(scope="module")
def real_doorways() -> Iterator[Doorways]:
    doorways = Doorways()
    try:
        doorways.cluster.start()
        yield doorways
    finally:
        doorways.close()


@pytest.fixture
def kafka(request: pytest.FixtureRequest) -> Iterator[Any]:
    """The cluster that `on_both_clusters` names."""
    if request.param == "simulated":
        doorways = SimulatedDoorways(request.node.name)
        with doorways.simulation:
            yield doorways
        return
    found: Doorways = request.getfixturevalue("real_doorways")
    found.consume = request.getfixturevalue("consume")
    name = f"doorway-{uuid.uuid4().hex[:8]}"
    found.topic = found.cluster.admin.create_topic(name, 3, replicas=3)
    yield found
    found.open()


def poll_for(consumer: KafkaConsumer, duration_ms: int) -> None:
    """No poll raises during the outage."""
    clock = consumer._core.clock
    until_ms = clock.now_ms() + duration_ms
    while clock.now_ms() < until_ms:
        consumer.poll(200)


def check_reads(doorways: Any, consumer: KafkaConsumer) -> None:
    """A new record is read; after a lost membership, old records are read again before it."""
    value = uuid.uuid4().bytes
    doorways.produce(value)
    end_ms = doorways.now_ms() + doorways.soon_ms
    values: set[bytes | None] = set()
    while value not in values:
        assert doorways.now_ms() < end_ms, f"only {len(values)} others came"
        for records in consumer.poll(500).values():
            values.update(record.value for record in records)


def member(doorways: Any, protocol: str, **options: Any) -> KafkaConsumer:
    how = {"group_id": doorways.topic, "group_protocol": protocol, **options}
    made: KafkaConsumer = doorways.consumer(doorways.topic, auto_offset_reset="earliest", **how)
    return made


@on_both_clusters
@by_each_protocol
def test_a_member_reads_again_after_an_outage(kafka: Any, protocol: str) -> None:
    consumer = member(kafka, protocol)
    check_reads(kafka, consumer)
    kafka.shut()
    poll_for(consumer, kafka.outage_ms)
    kafka.open()
    check_reads(kafka, consumer)


@on_both_clusters
@by_each_protocol
def test_a_member_created_during_an_outage_joins_after_it(kafka: Any, protocol: str) -> None:
    """The consumer does not fail, and 'auto' does not select the older protocol."""
    kafka.shut()
    consumer = member(kafka, protocol, bootstrap_timeout_ms=0)
    poll_for(consumer, kafka.outage_ms)
    kafka.open()
    check_reads(kafka, consumer)
    poll_for(consumer, 5_000)
    assert kafka.is_classic(consumer) is (protocol == "classic"), "'auto' still selects KIP-848"


@on_simulated_cluster
@by_each_protocol
def test_a_member_joins_after_its_coordinator_was_down(
    kafka: SimulatedDoorways, protocol: str
) -> None:
    kafka.cluster.move_coordinator(TOPIC, 3)
    for partition in range(3):
        kafka.cluster.move_leader(TopicPartition(TOPIC, partition), 1)
    kafka.cluster.stop(3)
    consumer = member(kafka, protocol)
    poll_for(consumer, kafka.outage_ms)
    kafka.open(3)
    check_reads(kafka, consumer)


@on_both_clusters
def test_assigned_partitions_are_read_again(kafka: Any) -> None:
    consumer = kafka.consumer(auto_offset_reset="earliest")
    consumer.assign([TopicPartition(kafka.topic, number) for number in range(3)])
    check_reads(kafka, consumer)
    kafka.shut()
    poll_for(consumer, kafka.outage_ms)
    kafka.open()
    check_reads(kafka, consumer)


@pytest.mark.parametrize("timeout_ms", [500, 5_000, 20_000])
@pytest.mark.parametrize("kafka", ["simulated"], indirect=True)
def test_the_constructor_waits_until_its_timeout(kafka: SimulatedDoorways, timeout_ms: int) -> None:
    kafka.shut()
    began_ms = kafka.now_ms()
    with pytest.raises(KafkaTimeoutError):
        kafka.consumer(bootstrap_timeout_ms=timeout_ms)
    assert timeout_ms <= kafka.now_ms() - began_ms <= timeout_ms + 200


@on_both_clusters
def test_the_constructor_waits_for_a_broker(kafka: Any) -> None:
    kafka.shut()
    kafka.after(8_000, lambda: kafka.open(2))
    began_ms = kafka.now_ms()
    consumer = kafka.consumer(bootstrap_timeout_ms=60_000)
    assert 8_000 <= kafka.now_ms() - began_ms <= 8_000 + kafka.contact_ms
    assert kafka.topic in consumer.topics()
