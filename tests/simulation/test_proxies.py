"""Brokers behind proxies: the proxy of a stopped broker accepts connections and closes them.

This says nothing about the versions that the broker supports.
"""

from __future__ import annotations

import pytest

from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka.errors import KafkaTimeoutError
from tandem_kafka_testing import Simulation
from tests.simulation.ledger import produce, topic

TP = TopicPartition("orders", 0)
PROTOCOLS = ("classic", "consumer", "auto")
#: Longer than any series of attempts that could be mistaken for proof.
OUTAGE_MS = 25_000


def proxied(seed: object) -> Simulation:
    simulation = Simulation(seed, brokers=3, trace_lines=400)
    network = simulation.network
    network.proxied = {broker.address for broker in simulation.cluster.brokers.values()}
    topic(simulation, "orders", 3)
    return simulation


def stop_all(simulation: Simulation) -> None:
    for node_id in simulation.cluster.brokers:
        simulation.cluster.stop(node_id)


def start_all(simulation: Simulation) -> None:
    for node_id in simulation.cluster.brokers:
        simulation.cluster.start(node_id)


def read(consumer: KafkaConsumer, within_ms: int) -> int:
    """Return how long it took to get a record; errors of poll() fail the test."""
    began_ms = consumer._core.clock.now_ms()
    assert consumer.poll(within_ms).count > 0, "nothing came"
    return consumer._core.clock.now_ms() - began_ms


def poll_for(consumer: KafkaConsumer, duration_ms: int) -> None:
    until_ms = consumer._core.clock.now_ms() + duration_ms
    while consumer._core.clock.now_ms() < until_ms:
        consumer.poll(1_000)


def protocol_of(simulation: Simulation) -> set[str]:
    """Return the protocol of the heartbeats that arrived."""
    kinds = ("HeartbeatRequest", "ConsumerGroupHeartbeatRequest")
    brokers = simulation.cluster.brokers.values()
    return {kind for kind in kinds if any(broker.requests.get(kind) for broker in brokers)}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_member_reads_again_after_an_outage(protocol: str, seed: int) -> None:
    with proxied(f"outage {protocol} {seed}") as simulation:
        consumer = simulation.consumer(
            "orders", group_id="readers", group_protocol=protocol, auto_offset_reset="earliest"
        )
        produce(simulation, TP, 1)
        read(consumer, 20_000)
        stop_all(simulation)
        poll_for(consumer, OUTAGE_MS)
        start_all(simulation)
        produce(simulation, TP, 1)
        assert read(consumer, 60_000) < 10_000


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_member_joins_although_all_brokers_were_down_at_first(protocol: str, seed: int) -> None:
    """The consumer does not fail, and 'auto' does not select the older protocol."""
    with proxied(f"start {protocol} {seed}") as simulation:
        stop_all(simulation)
        consumer = simulation.consumer(
            "orders",
            group_id="readers",
            group_protocol=protocol,
            auto_offset_reset="earliest",
            bootstrap_timeout_ms=0,
        )
        poll_for(consumer, OUTAGE_MS)
        start_all(simulation)
        produce(simulation, TP, 1)
        assert read(consumer, 60_000) < 10_000
        poll_for(consumer, 5_000)
        classic = protocol == "classic"
        assert protocol_of(simulation) == {
            "HeartbeatRequest" if classic else "ConsumerGroupHeartbeatRequest"
        }


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_member_joins_after_its_coordinator_was_down(protocol: str, seed: int) -> None:
    with proxied(f"coordinator {protocol} {seed}") as simulation:
        cluster = simulation.cluster
        cluster.move_coordinator("readers", 3)
        for partition in range(3):
            cluster.move_leader(TopicPartition("orders", partition), 1)
        cluster.stop(3)
        consumer = simulation.consumer(
            "orders", group_id="readers", group_protocol=protocol, auto_offset_reset="earliest"
        )
        poll_for(consumer, OUTAGE_MS)
        cluster.start(3)
        produce(simulation, TP, 1)
        assert read(consumer, 60_000) < 10_000


@pytest.mark.parametrize("seed", range(4))
def test_assigned_partitions_are_read_again(seed: int) -> None:
    with proxied(f"assign {seed}") as simulation:
        consumer = simulation.consumer(auto_offset_reset="earliest")
        consumer.assign([TP])
        produce(simulation, TP, 1)
        read(consumer, 20_000)
        stop_all(simulation)
        poll_for(consumer, OUTAGE_MS)
        start_all(simulation)
        produce(simulation, TP, 1)
        assert read(consumer, 60_000) < 10_000


@pytest.mark.parametrize("timeout_ms", [500, 5_000, 20_000])
def test_the_constructor_waits_until_its_timeout(timeout_ms: int) -> None:
    simulation = proxied("constructor")
    stop_all(simulation)
    began_ms = simulation.clock.now_ms()
    with pytest.raises(KafkaTimeoutError):
        simulation.consumer(bootstrap_timeout_ms=timeout_ms)
    assert timeout_ms <= simulation.clock.now_ms() - began_ms <= timeout_ms + 200


def test_the_constructor_ends_when_a_broker_is_up() -> None:
    with proxied("constructor") as simulation:
        stop_all(simulation)
        simulation.after(8_000, lambda: simulation.cluster.start(2))
        began_ms = simulation.clock.now_ms()
        simulation.consumer(bootstrap_timeout_ms=30_000)
        assert 8_000 <= simulation.clock.now_ms() - began_ms <= 11_000
