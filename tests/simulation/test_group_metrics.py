"""The metrics of listener calls and rebalances."""

from __future__ import annotations

from typing import Any

import pytest

from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka_testing import Simulation
from tests.histories.ledger import LATE_MS
from tests.scenarios.numbered_records import create_topic

CLASSIC = {"heartbeat_interval_ms": 500, "session_timeout_ms": 6_000}
CONSUMER = {"group_protocol": "consumer"}


class Slow:
    """A slow listener that counts its calls."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self.calls = 0

    def on_partitions_assigned(self, _partitions: set[TopicPartition]) -> None:
        self.calls += 1
        self._simulation.sleep(300)

    def on_partitions_revoked(self, _partitions: set[TopicPartition]) -> None:
        self._simulation.sleep(700)

    def on_partitions_lost(self, _partitions: set[TopicPartition]) -> None:
        self._simulation.sleep(1_100)


def metrics(member: KafkaConsumer) -> dict[str, float]:
    found: dict[str, float] = member.metrics()["consumer-coordinator-metrics"]
    return found


@pytest.mark.parametrize("options", [CLASSIC, CONSUMER], ids=["classic", "consumer"])
def test_metrics_have_the_times_of_listeners_and_rebalances(options: dict[str, Any]) -> None:
    with Simulation("slow") as simulation:
        create_topic(simulation, "orders", 4)
        member = simulation.consumer(group_id="readers", max_poll_interval_ms=20_000, **options)
        listener = Slow(simulation)
        member.subscribe(["orders"], listener=listener)
        while len(member.assignment()) < 4:
            member.poll(500)
        assert metrics(member)["partition-assigned-latency-max"] == 300
        assert metrics(member)["rebalance-total"] == 1
        assert 300 <= metrics(member)["rebalance-latency-max"] <= 1_000
        other = simulation.consumer("orders", group_id="readers", **options)
        while len(other.assignment()) < 2 or len(member.assignment()) != 2:
            other.poll(200)
            member.poll(200)
        seen = metrics(member)
        assert seen["partition-revoked-latency-max"] == 700
        assert seen["rebalance-total"] == listener.calls
        assert 1_000 <= seen["rebalance-latency-max"] <= 1_000 + 10 * 200 + LATE_MS
        assert seen["assigned-partitions"] == 2
        assert 0 <= seen["last-rebalance-seconds-ago"] <= 2
        assert seen["heartbeat-total"] > 0
        simulation.sleep(30_000)
        member.poll(500)
        assert metrics(member)["partition-lost-latency-max"] == 1_100
        assert metrics(member)["failed-rebalance-total"] == 0


def test_the_time_since_the_last_poll_grows_while_the_application_is_busy() -> None:
    with Simulation("polls") as simulation:
        create_topic(simulation, "orders", 1)
        member = simulation.consumer("orders", group_id="readers")

        def since_s() -> float:
            found: float = member.metrics()["consumer-metrics"]["last-poll-seconds-ago"]
            return found

        assert since_s() == -1
        member.poll(2_000)
        assert since_s() < 1
        simulation.sleep(7_000)
        assert 7 <= since_s() < 8
