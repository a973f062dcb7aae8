"""What agents and monitors read of kafka-python's private attributes."""

from __future__ import annotations

from typing import Any

from tandem_kafka_testing import Simulation
from tests.scenarios.numbered_records import create_topic


def member(simulation: Simulation) -> Any:
    create_topic(simulation, "orders", 2)
    consumer = simulation.consumer("orders", group_id="readers")
    while not consumer.assignment():
        consumer.poll(500)
    return consumer


def test_an_agent_names_a_span_after_the_topics() -> None:
    """As Elastic's APM agent does in each poll()."""
    with Simulation("agent") as simulation:
        consumer = member(simulation)
        assert sorted(consumer._subscription.subscription) == ["orders"]
        assert consumer._subscription.assignment == consumer.assignment()
        consumer.unsubscribe()
        assert consumer._subscription.subscription is None


def test_a_probe_looks_for_a_stable_group_and_connections() -> None:
    with Simulation("probe", brokers=2) as simulation:
        consumer = member(simulation)
        coordinator, group = consumer._coordinator, consumer.group_metadata()
        assert coordinator.group_id == "readers"
        assert coordinator.coordinator_id in simulation.cluster.brokers
        assert not coordinator.rejoining
        assert coordinator._generation.generation_id == group.generation_id > 0
        assert coordinator.generation().member_id == group.member_id
        client = consumer._client
        assert client.cluster.cluster_id == "simulated"
        assert client.cluster.topics() == {"orders"}
        assert {node.node_id for node in client.cluster.brokers()} == {1, 2}
        assert all(connection.connected() for connection in client._conns.values())
        assert not consumer._closed
        for node_id in (1, 2):
            simulation.cluster.stop(node_id)
        consumer.poll(5_000)
        assert not any(each.connected() for each in consumer._client._conns.values())
