"""A broker that advertises something else than a host is not connected to; the others are."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from tandem_kafka_testing import Simulation
from tests.scenarios.numbered_records import create_topic, produce

INJECTED = "x:1 HTTP/1.1\r\nHost: x\r\n\r\nGET http://internal/ HTTP/1.1\r\nX: y"
PROXIES = ["socks5h://10.9.9.9:1080", "http://alice:secret@10.9.9.9:3128", None]


def name(simulation: Simulation, host: str, port: int) -> None:
    """Have the second broker advertise that address."""
    broker = simulation.cluster.brokers[2]
    broker.host, broker.port = host, port


def read_for(simulation: Simulation, consumer: Any, duration_ms: int) -> set[int]:
    """Poll; return the partitions with records."""
    until_ms = simulation.clock.now_ms() + duration_ms
    found = set()
    while simulation.clock.now_ms() < until_ms:
        found |= {tp.partition for tp in consumer.poll(500)}
    return found


@pytest.mark.parametrize("proxy_url", PROXIES)
@pytest.mark.parametrize(
    "address", [(INJECTED, 9092), ("b" * 70 + ".example", 9092), ("a b", 1), ("10.0.0.2", 70_000)]
)
def test_other_brokers_are_used(
    address: tuple[str, int], proxy_url: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    with Simulation("hosts", brokers=2) as simulation:
        name(simulation, *address)
        for tp in create_topic(simulation, "orders", 2):
            simulation.cluster.move_leader(tp, 1 + tp.partition)
            produce(simulation, tp, 10)
        simulation.cluster.move_coordinator("readers", 1)
        consumer = simulation.consumer(
            "orders",
            group_id="readers",
            auto_offset_reset="earliest",
            bootstrap_servers="10.0.0.1:9092",
            proxy_url=proxy_url,
        )
        assert read_for(simulation, consumer, 20_000) == {0}
        warned = [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]
        assert any("check bootstrap_servers, and advertised.listeners" in line for line in warned)
        assert all(line.isprintable() for line in warned)
        assert "broker 2 (" in str(consumer.health().troubles)


def test_a_coordinator_is_checked_too(caplog: pytest.LogCaptureFixture) -> None:
    with Simulation("hosts", brokers=2) as simulation:
        name(simulation, INJECTED, 1)
        (tp,) = create_topic(simulation, "orders", 1)
        simulation.cluster.move_leader(tp, 1)
        simulation.cluster.move_coordinator("readers", 2)
        produce(simulation, tp, 10)
        consumer = simulation.consumer(
            "orders",
            group_id="readers",
            auto_offset_reset="earliest",
            bootstrap_servers="10.0.0.1:9092",
        )
        assert read_for(simulation, consumer, 20_000) == set()
        assert "the host is not a valid name or address" in caplog.text
        simulation.cluster.move_coordinator("readers", 1)
        assert read_for(simulation, consumer, 60_000) == {0}
