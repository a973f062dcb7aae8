"""Five seconds after a broker changes, health, probe, log and diagnosis tell the truth."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest

from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka.observability import Probe
from tandem_kafka_testing import Simulation
from tests.scenarios.numbered_records import create_topic, produce

TRUTH_MS = 5_000
TP = TopicPartition("orders", 0)
PROTOCOLS = pytest.mark.parametrize(
    "options", [{}, {"group_protocol": "consumer"}], ids=["classic", "consumer"]
)

Begin = Callable[[Simulation], Callable[[], object]]


def stopped(simulation: Simulation) -> Callable[[], object]:
    simulation.cluster.stop(1)
    return lambda: simulation.cluster.start(1)


def hanging(simulation: Simulation) -> Callable[[], object]:
    silent, address = simulation.network.silent, simulation.cluster.brokers[1].address
    silent.add(address)

    def end() -> None:
        silent.discard(address)
        simulation.network.cut(address)  # the broker's process was killed and started again

    return end


def refused(simulation: Simulation) -> Callable[[], object]:
    simulation.network.conditions.refuse = 1.0
    simulation.network.cut(simulation.cluster.brokers[1].address)
    return simulation.network.conditions.calm


def slow(simulation: Simulation) -> Callable[[], object]:
    simulation.network.slow[simulation.cluster.brokers[1].address] = 1_000
    return simulation.network.slow.clear


def asked(probe: Probe, path: str) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{probe.port}{path}") as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def poll_for(simulation: Simulation, consumer: KafkaConsumer, duration_ms: int) -> None:
    until_ms = simulation.clock.now_ms() + duration_ms
    while simulation.clock.now_ms() < until_ms:
        consumer.poll(100)
        simulation.sleep(100)


@pytest.fixture
def world(options: dict[str, Any]) -> Any:
    with Simulation("health") as simulation:
        create_topic(simulation, "orders", 1)
        produce(simulation, TP, 10)
        consumer = simulation.consumer(
            "orders", group_id="readers", auto_offset_reset="earliest", client_id="one", **options
        )
        poll_for(simulation, consumer, 10_000)
        with Probe(consumer, port=0, host="127.0.0.1") as probe:
            yield simulation, consumer, probe


@PROTOCOLS
@pytest.mark.parametrize(
    ("begin", "trouble"),
    [
        (stopped, "has been unusable"),
        (hanging, "has not responded for"),
        (refused, "has been unusable"),
    ],
    ids=["stopped", "hanging", "refused"],
)
def test_an_outage_and_its_end_are_known_within_five_seconds(
    world: Any, begin: Begin, trouble: str, caplog: pytest.LogCaptureFixture
) -> None:
    simulation, consumer, probe = world
    assert asked(probe, "/ready")[0] == 200
    recover = begin(simulation)
    poll_for(simulation, consumer, TRUTH_MS)
    health = consumer.health()
    assert health.alive
    assert not health.ready
    assert any(trouble in reason for reason in health.not_ready), health.not_ready
    assert any(trouble in each for each in health.troubles), health.troubles
    assert asked(probe, "/live")[0] == 200
    status, body = asked(probe, "/ready")
    assert (status, body["ok"]) == (503, False)
    assert any(trouble in reason for reason in body["reasons"]["one"])
    diagnosis = consumer.diagnose()
    assert "ready: NO, " in diagnosis
    assert trouble in diagnosis
    assert any(
        "cannot use broker 1" in line or "broker 1 (10.0.0.1:9092) has not responded" in line
        for line in caplog.messages
    )
    recover()
    poll_for(simulation, consumer, TRUTH_MS)
    health = consumer.health()
    assert health.ready, health.not_ready
    assert health.troubles == ()
    assert asked(probe, "/ready") == (200, {"ok": True, "reasons": {"one": []}})
    assert "ready: yes" in consumer.diagnose()
    assert any("is back after" in line for line in caplog.messages)


@PROTOCOLS
def test_a_slow_broker_is_named_within_five_seconds(
    world: Any, caplog: pytest.LogCaptureFixture
) -> None:
    simulation, consumer, probe = world
    recover = slow(simulation)
    poll_for(simulation, consumer, TRUTH_MS)
    health = consumer.health()
    assert any("broker 1" in each and "is slow" in each for each in health.troubles)
    assert "is slow" in consumer.diagnose()
    assert asked(probe, "/live")[0] == 200
    assert any("broker 1" in line and "is slow" in line for line in caplog.messages)
    recover()
    poll_for(simulation, consumer, TRUTH_MS)
    assert consumer.health().troubles == ()
    assert consumer.health().ready


def test_a_broker_that_is_no_longer_needed_is_no_trouble() -> None:
    with Simulation("unneeded", brokers=2) as simulation:
        create_topic(simulation, "orders", 2)
        simulation.cluster.move_leader(TP, 1)
        simulation.cluster.move_leader(TopicPartition("orders", 1), 2)
        produce(simulation, TP, 10)
        consumer = simulation.consumer(auto_offset_reset="earliest")
        consumer.assign([TP, TopicPartition("orders", 1)])
        poll_for(simulation, consumer, 5_000)
        recover = refused(simulation)
        poll_for(simulation, consumer, TRUTH_MS)
        [reason] = consumer.health().not_ready
        assert "assigned partitions that cannot be read: 1; " in reason
        simulation.cluster.move_leader(TP, 2)
        poll_for(simulation, consumer, 2 * TRUTH_MS)
        recover()
        poll_for(simulation, consumer, TRUTH_MS)
        assert consumer.health().ready
        assert consumer.health().troubles == ()
