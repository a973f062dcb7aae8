"""The collector exports every finite metric with its labels."""

from __future__ import annotations

import gc
import weakref
from collections import Counter

import pytest

from tandem_kafka.errors import InvalidArgumentError
from tandem_kafka_testing import Simulation, simulated_consumer
from tests.scenarios.numbered_records import create_topic, produce
from tests.simulation.sharing import sharing

pytest.importorskip("prometheus_client")

from prometheus_client import CollectorRegistry, generate_latest

from tandem_kafka.observability import ConsumerCollector


def test_the_metrics_of_two_consumers_are_exported_together() -> None:
    with Simulation("prometheus") as simulation:
        for partition in create_topic(simulation, "orders", 2):
            produce(simulation, partition, 10)
        consumers = [
            simulation.consumer(
                "orders", client_id=name, group_id=group, auto_offset_reset="earliest"
            )
            for name, group in (("one", None), ("two", "billing"))
        ]
        for consumer in consumers:
            consumer.poll(2_000)
            consumer.poll(2_000)
        registry = CollectorRegistry()
        registry.register(ConsumerCollector(*consumers))
        text = generate_latest(registry).decode()
    lines = set(text.splitlines())
    labels = 'client_id="one",group_id="",topic="orders"'
    assert f"kafka_consumer_topic_records_consumed_total{{{labels}}} 20.0" in lines
    assert 'kafka_consumer_records_consumed_total{client_id="two",group_id="billing"} 20.0' in lines
    labels = 'client_id="two",group_id="billing",partition="1",topic="orders"'
    assert f"kafka_consumer_partition_records_lag{{{labels}}} 0.0" in lines
    assert any(
        line.startswith('kafka_consumer_node_request_rate{client_id="one",group_id="",node=')
        for line in lines
    )
    assert "Inf" not in text


def test_disabled_metrics_cannot_be_exported() -> None:
    consumer = simulated_consumer(metrics_enabled=False)
    with pytest.raises(InvalidArgumentError, match="metrics_enabled=True"):
        ConsumerCollector(consumer)
    with pytest.raises(InvalidArgumentError, match="at least one consumer"):
        ConsumerCollector()
    consumer.close()


@pytest.fixture
def registry() -> CollectorRegistry:
    """Return a registry that rejects names of its own, as the global one."""
    return CollectorRegistry(auto_describe=True)


def exported(registry: CollectorRegistry) -> set[str]:
    """Return the client ids of all samples, none of which comes twice."""
    samples = [each for family in registry.collect() for each in family.samples]
    counts = Counter((each.name, *sorted(each.labels.items())) for each in samples)
    assert set(counts.values()) <= {1}
    return {each.labels["client_id"] for each in samples}


def test_each_consumer_may_have_a_collector(registry: CollectorRegistry) -> None:
    first, second = (simulated_consumer(client_id=name) for name in ("first", "second"))
    registry.register(ConsumerCollector(first))
    registry.register(ConsumerCollector(second))
    assert exported(registry) == {"first", "second"}
    registry.register(ConsumerCollector(second))
    assert exported(registry) == {"first", "second"}
    first.close()
    assert exported(registry) == {"second"}
    second.close()


def test_a_registry_takes_no_consumer_twice(registry: CollectorRegistry) -> None:
    """Its samples were exported twice, so that Prometheus rejects the whole scrape."""
    first, second, third = (simulated_consumer(client_id=name) for name in ("1", "2", "3"))
    both = ConsumerCollector(first, second)
    registry.register(both)
    for others in ((second,), (second, third), (first, second, third)):
        with pytest.raises(ValueError, match="ConsumerCollector of this registry: unregister"):
            registry.register(ConsumerCollector(*others))
        assert exported(registry) == {"1", "2"}
    registry.register(ConsumerCollector(third))
    assert exported(registry) == {"1", "2", "3"}
    other = CollectorRegistry()
    other.register(ConsumerCollector(second))
    assert exported(other) == {"2"}
    registry.unregister(both)
    registry.register(ConsumerCollector(second))
    assert exported(registry) == {"2", "3"}
    for each in (first, second, third):
        each.close()


def test_a_consumer_that_is_made_again_is_exported_again(registry: CollectorRegistry) -> None:
    for _ in range(3):
        consumer = simulated_consumer(client_id="one")
        registry.register(ConsumerCollector(consumer))
        assert exported(registry) == {"one"}
        consumer.close()
        assert exported(registry) == set()


def test_of_samples_with_one_client_id_that_of_the_last_consumer_is_exported(
    registry: CollectorRegistry,
) -> None:
    with Simulation("one name") as simulation:
        create_topic(simulation, "orders", 1)
        first, second = (simulation.consumer(client_id="one") for _ in range(2))
        first.subscribe(["orders"])
        first.poll(2_000)
        registry.register(ConsumerCollector(first, second))
        assert exported(registry) == {"one"}
        requests = registry.get_sample_value(
            "kafka_consumer_request_total", {"client_id": "one", "group_id": ""}
        )
        assert requests == second.metrics()["consumer-metrics"]["request-total"]
        second.close()
        assert exported(registry) == {"one"}


def test_a_share_consumer_with_the_client_id_of_another_consumer_is_exported(
    registry: CollectorRegistry,
) -> None:
    with sharing("kinds") as (simulation, start):
        share, other = start(client_id="one"), simulation.consumer(client_id="one")
        registry.register(ConsumerCollector(share, other))
        exported(registry)
        for kind, group in (("", ""), ("share_", "g")):
            name = f"kafka_consumer_{kind}request_total"
            labels = {"client_id": "one", "group_id": group}
            assert registry.get_sample_value(name, labels) is not None


def test_no_collector_keeps_a_consumer_alive(registry: CollectorRegistry) -> None:
    consumer = simulated_consumer()
    gone = weakref.ref(consumer)
    registry.register(ConsumerCollector(consumer))
    exported(registry)
    consumer.close()
    del consumer
    gc.collect()
    assert gone() is None
    assert exported(registry) == set()
