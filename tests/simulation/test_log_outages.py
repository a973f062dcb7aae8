"""An outage of a minute gives a few lines, and one of them says that it is over."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from tandem_kafka import TopicPartition
from tandem_kafka.errors import KafkaError, TlsAuthenticationError
from tandem_kafka.network import resolver
from tandem_kafka.network.transport import ConnectionClosed
from tandem_kafka_testing import Simulation
from tandem_kafka_testing.network import SimConnection
from tests.scenarios.numbered_records import create_topic, produce
from tests.tier import sample

PROTOCOLS = pytest.mark.parametrize(
    "options", [{}, {"group_protocol": "consumer"}], ids=["classic", "consumer"]
)
PARTITIONS = [TopicPartition("orders", number) for number in range(4)]
#: The limit of the lines at the default level, WARNING; at INFO there may be twice as many.
LINES = 10

End = Callable[[], object]
Begin = Callable[[Simulation, pytest.MonkeyPatch], End]


def stopped(simulation: Simulation, _: pytest.MonkeyPatch) -> End:
    """Stop the processes of all brokers."""
    cluster = simulation.cluster
    for node_id in (1, 2):
        cluster.stop(node_id)
    return lambda: [cluster.start(node_id) for node_id in (1, 2)]


def one_stopped(simulation: Simulation, _: pytest.MonkeyPatch) -> End:
    """Stop the broker that is the coordinator; no partition moves."""
    simulation.cluster.stop(1)
    return lambda: simulation.cluster.start(1)


def refused(simulation: Simulation, _: pytest.MonkeyPatch) -> End:
    """Refuse all connections."""
    simulation.network.conditions.refuse = 1.0
    cut(simulation)
    return simulation.network.conditions.calm


def hanging(simulation: Simulation, _: pytest.MonkeyPatch) -> End:
    """Receive and send nothing, while connections stay open."""
    silent = simulation.network.silent
    silent.update(broker.address for broker in simulation.cluster.brokers.values())
    return silent.clear


def unresolved(simulation: Simulation, patch: pytest.MonkeyPatch) -> End:
    """Resolve no names."""

    def fail(*_: object) -> Any:
        raise socket.gaierror(-2, "Name or service not known")

    patch.setattr(resolver, "_numeric", lambda _host: None)
    patch.setattr(resolver, "_addresses", fail)
    cut(simulation)
    return patch.undo


def without_coordinator(simulation: Simulation, _: pytest.MonkeyPatch) -> End:
    """Leave the group without a coordinator; all brokers respond."""
    simulation.cluster.orphan("readers")
    return lambda: simulation.cluster.move_coordinator("readers", 2)


def unauthenticated(simulation: Simulation, patch: pytest.MonkeyPatch) -> End:
    """Reject the certificate at each attempt to connect."""

    def reject(self: SimConnection, _reason: str) -> None:
        self.open = False
        error = TlsAuthenticationError("the certificate has expired")
        self.transport.arrived(ConnectionClosed(self.number, error))

    cut(simulation)
    patch.setattr(SimConnection, "cut", reject)
    simulation.network.conditions.refuse = 1.0

    def end() -> None:
        patch.undo()
        simulation.network.conditions.calm()

    return end


def flapping(simulation: Simulation, _: pytest.MonkeyPatch) -> End:
    """Restart the brokers every two seconds."""
    cluster = simulation.cluster
    for second in range(1, 30, 2):
        for node_id in (1, 2):
            simulation.after(2_000 * second - 2_000, lambda n=node_id: cluster.stop(n))
            simulation.after(2_000 * second, lambda n=node_id: cluster.start(n))
    return lambda: None


def cut(simulation: Simulation) -> None:
    for broker in simulation.cluster.brokers.values():
        simulation.network.cut(broker.address)


def poll_for(simulation: Simulation, consumer: Any, duration_ms: int) -> None:
    """Poll as an application that logs errors and continues."""
    until_ms = simulation.clock.now_ms() + duration_ms
    while simulation.clock.now_ms() < until_ms:
        with suppress(KafkaError):
            consumer.poll(500)
        simulation.sleep(50)


def lines(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    ours = [record for record in caplog.records if record.name.startswith("tandem_kafka")]
    return [record.getMessage() for record in ours if record.levelno >= level]


@PROTOCOLS
@pytest.mark.parametrize(
    ("begin", "start", "end"),
    sample(
        [
            (stopped, "cannot use broker 1 ", "broker 1 (10.0.0.1:9092) is back after 6"),
            # 59 or 60 s: its outage begins with the first attempt that fails.
            (one_stopped, "cannot use broker 1 ", "broker 1 (10.0.0.1:9092) is back after "),
            (refused, "cannot use broker 1 ", "broker 1 (10.0.0.1:9092) is back after 6"),
            (hanging, "broker 1 (10.0.0.1:9092) has not responded for 3.", "is back after "),
            (unresolved, "cannot use broker 1 ", "broker 1 (10.0.0.1:9092) is back after 6"),
            (without_coordinator, "group readers: no coordinator for ", "a coordinator is found"),
            (unauthenticated, "cannot use broker 1 ", "broker 1 (10.0.0.1:9092) is back after 6"),
            (flapping, "cannot use broker 1 ", "broker 1 (10.0.0.1:9092) is back after "),
        ],
        3,
    ),
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_an_outage_of_a_minute_gives_at_most_ten_lines(
    begin: Begin,
    start: str,
    end: str,
    options: dict[str, Any],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level(logging.INFO, "tandem_kafka")
    with Simulation("outage", brokers=2) as simulation:
        for tp in create_topic(simulation, "orders", len(PARTITIONS)):
            simulation.cluster.move_leader(tp, 1 + tp.partition % 2)
            produce(simulation, tp, 10)
        consumer = simulation.consumer(
            "orders",
            group_id="readers",
            client_id="billing",
            auto_offset_reset="earliest",
            **options,
        )
        poll_for(simulation, consumer, 20_000)
        assert lines(caplog, logging.WARNING) == []
        caplog.clear()
        recover = begin(simulation, monkeypatch)
        poll_for(simulation, consumer, 60_000)
        recover()
        poll_for(simulation, consumer, 60_000)
        found = lines(caplog, logging.WARNING)
        assert any(start in line for line in found), found
        assert any(end in line for line in found), found
        assert len(found) <= LINES, "\n".join(found)
        informed = lines(caplog, logging.INFO)
        # Each restart is a change of state: a coordinator is lost and found.
        assert len(informed) <= 2 * LINES or begin is flapping, "\n".join(informed)
        assert all(line.startswith("[billing] ") for line in informed)
        for tp in PARTITIONS:
            produce(simulation, tp, 1)
        poll_for(simulation, consumer, 5_000)
        assert [consumer.position(tp) for tp in PARTITIONS] == [11] * len(PARTITIONS)
