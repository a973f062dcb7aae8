"""`cluster()` looks topics up in the cluster, all or those that are named."""

from __future__ import annotations

import pytest

from tandem_kafka.errors import InvalidArgumentError
from tandem_kafka_testing import Simulation
from tests.scenarios.numbered_records import create_topic


def test_the_named_topics_are_described_as_they_are_now() -> None:
    with Simulation("descriptions", brokers=2) as simulation:
        create_topic(simulation, "orders", 2)
        create_topic(simulation, "users", 1)
        consumer = simulation.consumer()
        found = consumer.cluster(topics=["orders", "ordres"])
        assert {name: len(each.partitions) for name, each in found.topics.items()} == {"orders": 2}
        assert sorted(found.nodes) == sorted(simulation.cluster.brokers)
        create_topic(simulation, "ordres", 3)
        found = consumer.cluster(topics=["ordres"])
        assert {name: len(each.partitions) for name, each in found.topics.items()} == {"ordres": 3}
        assert set(consumer.cluster().topics) == {"orders", "users", "ordres"}
        assert consumer.cluster(topics=[]).topics == {}


def test_looking_a_topic_up_does_not_create_it() -> None:
    with Simulation("no creation") as simulation:
        consumer = simulation.consumer()
        assert consumer.cluster(topics=["orders"]).topics == {}
        assert "orders" not in simulation.cluster.topics


def test_wrong_names_are_rejected() -> None:
    with Simulation("names") as simulation:
        consumer = simulation.consumer()
        with pytest.raises(TypeError, match="topics must be a collection of names, got 'orders'"):
            consumer.cluster(topics="orders")
        with pytest.raises(InvalidArgumentError, match="a topic must be a non-empty str, got ' '"):
            consumer.cluster(topics=[" "])
