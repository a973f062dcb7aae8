"""Subscriptions without a group: the consumer has all partitions, and keeps them."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from tandem_kafka import TopicPartition
from tandem_kafka.errors import RebalanceCallbackError
from tandem_kafka_testing import Simulation
from tests.histories.ledger import SimulatedLedger
from tests.scenarios.numbered_records import create_topic, produce
from tests.simulation.readers import Listener

PROMPT: dict[str, Any] = {"auto_offset_reset": "earliest", "metadata_max_age_ms": 1_000}


def settle(simulation: Simulation, consumer: Any, expected: set[TopicPartition]) -> None:
    until_ms = simulation.clock.now_ms() + 60_000
    while consumer.assignment() != expected:
        assert simulation.clock.now_ms() < until_ms, consumer.assignment()
        consumer.poll(100)


@pytest.mark.parametrize("seed", range(20))
def test_everything_is_read_while_brokers_restart(seed: int) -> None:
    """A broker that does not know the topic yet causes no loss of partitions or positions."""
    with Simulation(f"ungrouped {seed}", brokers=3) as simulation:
        tps = create_topic(simulation, "orders", 6)
        consumer = simulation.consumer("orders", **PROMPT)
        listener = Listener()
        consumer.subscribe(["orders"], listener=listener)
        ledger = SimulatedLedger(simulation, consumer, tps)
        for round_ in range(20):
            for tp in tps:
                produce(simulation, tp, simulation.random.randint(1, 4))
            if round_ % 4 == 1:
                node = simulation.random.choice(sorted(simulation.cluster.brokers))
                simulation.cluster.stop(node, elect=True)
                simulation.after(3_000, lambda node=node: simulation.cluster.start(node))
            ledger.poll(1_000)
        ledger.read_all()
        assert consumer.assignment() == set(tps)
        assert listener.calls == [("assigned", frozenset(tps))]
        assert not simulation.cluster.commit_log


def test_new_partitions_are_added_and_unsubscribed_topics_revoked() -> None:
    with Simulation() as simulation:
        first = create_topic(simulation, "orders", 2)
        second = create_topic(simulation, "returns", 1)
        listener = Listener()
        consumer = simulation.consumer(**PROMPT)
        consumer.subscribe(["orders"], listener=listener)
        settle(simulation, consumer, set(first))
        simulation.cluster.add_partitions("orders", 3)
        third = TopicPartition("orders", 2)
        settle(simulation, consumer, {*first, third})
        produce(simulation, third, 3)
        assert consumer.poll(5_000).count == 3
        consumer.subscribe(["returns"], listener=listener)
        settle(simulation, consumer, set(second))
        consumer.unsubscribe()
        assert (consumer.assignment(), consumer.subscription()) == (set(), None)
        assert consumer.poll(100) == {}
        assert listener.calls == [
            ("assigned", frozenset(first)),
            ("assigned", frozenset({third})),
            ("revoked", frozenset({*first, third})),
            ("assigned", frozenset(second)),
            ("revoked", frozenset(second)),
        ]


def test_topics_that_match_a_pattern_are_added() -> None:
    with Simulation() as simulation:
        first = create_topic(simulation, "orders-1", 1)
        create_topic(simulation, "returns", 1)
        consumer = simulation.consumer(**PROMPT)
        consumer.subscribe(pattern="orders-.*")
        settle(simulation, consumer, set(first))
        second = create_topic(simulation, "orders-2", 2)
        settle(simulation, consumer, {*first, *second})
        assert consumer.subscription() == {"orders-1", "orders-2"}


def test_a_topic_is_read_once_it_is_created() -> None:
    with Simulation() as simulation:
        consumer = simulation.consumer("later", allow_auto_create_topics=False, **PROMPT)
        assert consumer.poll(2_000) == {}
        tps = create_topic(simulation, "later", 1)
        produce(simulation, tps[0], 2)
        SimulatedLedger(simulation, consumer, tps).read_all()
        assert consumer.assignment() == set(tps)


def test_a_failed_listener_is_called_again_before_any_records() -> None:
    with Simulation() as simulation:
        tps = create_topic(simulation, "orders", 1)
        produce(simulation, tps[0], 2)

        class Fails(Listener):
            def on_partitions_assigned(self, partitions: Any) -> None:
                super().on_partitions_assigned(partitions)
                if len(self.calls) == 1:
                    raise FileNotFoundError(errno.ENOENT, "not yet", "state/orders-0")

        listener = Fails()
        consumer = simulation.consumer(**PROMPT)
        consumer.subscribe(["orders"], listener=listener)
        with pytest.raises(RebalanceCallbackError, match=r"FileNotFoundError: .*'state/orders-0'"):
            consumer.poll(10_000)
        read = 0
        while read < 2:
            read += consumer.poll(100).count
        assert listener.calls == [("assigned", frozenset(tps))] * 2
