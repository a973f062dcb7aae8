"""The collector exports every finite metric with its labels."""

from __future__ import annotations

import pytest

from tandem_kafka.errors import InvalidArgumentError
from tandem_kafka.testing import Simulation, simulated_consumer
from tests.simulation.ledger import produce, topic

pytest.importorskip("prometheus_client")

from prometheus_client import CollectorRegistry, generate_latest

from tandem_kafka.prometheus import ConsumerCollector


def test_the_metrics_of_two_consumers_are_exported_together() -> None:
    with Simulation("prometheus") as simulation:
        for partition in topic(simulation, "orders", 2):
            produce(simulation, partition, 10)
        consumers = [
            simulation.consumer("orders", client_id=name, auto_offset_reset="earliest")
            for name in ("one", "two")
        ]
        for consumer in consumers:
            consumer.poll(2_000)
            consumer.poll(2_000)
        registry = CollectorRegistry()
        registry.register(ConsumerCollector(*consumers))
        text = generate_latest(registry).decode()
    lines = set(text.splitlines())
    assert (
        'kafka_consumer_topic_records_consumed_total{client_id="one",topic="orders"} 20.0' in lines
    )
    assert 'kafka_consumer_records_consumed_total{client_id="two"} 20.0' in lines
    lag = 'kafka_consumer_partition_records_lag{client_id="two",partition="1",topic="orders"} 0.0'
    assert lag in lines
    assert any(
        line.startswith('kafka_consumer_node_request_rate{client_id="one",node=') for line in lines
    )
    assert "Inf" not in text


def test_disabled_metrics_cannot_be_exported() -> None:
    consumer = simulated_consumer(metrics_enabled=False)
    with pytest.raises(InvalidArgumentError, match="metrics_enabled=True"):
        ConsumerCollector(consumer)
    with pytest.raises(InvalidArgumentError, match="at least one consumer"):
        ConsumerCollector()
    consumer.close()
