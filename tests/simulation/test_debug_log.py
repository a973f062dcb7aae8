"""The log at DEBUG tells the whole journey of a member, and nothing of it appears at INFO."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Any

import pytest

from tandem_kafka import TopicPartition
from tandem_kafka.errors import KafkaError
from tandem_kafka_testing import Simulation
from tests.scenarios.numbered_records import create_topic, produce

TP = TopicPartition("orders", 0)


@pytest.fixture
def simulation() -> Any:
    with Simulation("debug", brokers=2) as simulation:
        create_topic(simulation, "orders", 2)
        yield simulation


def journey(simulation: Simulation, protocol: str) -> None:
    options = {"group_id": "readers", "group_protocol": protocol, "enable_auto_commit": False}
    consumer = simulation.consumer("orders", auto_offset_reset="earliest", **options)
    produce(simulation, TP, 4)
    while not consumer.poll(1_000):
        pass
    consumer.seek(TP, 1)
    consumer.commit()
    other = simulation.consumer("orders", **options)
    while not (other.assignment() and len(consumer.assignment()) == 1):
        consumer.poll(200)
        other.poll(200)
    other.close()
    simulation.cluster.stop(1)
    for _ in range(10):
        with suppress(KafkaError):
            consumer.poll(500)
    simulation.cluster.start(1)
    for _ in range(10):
        consumer.poll(500)
    consumer.close()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_each_step_has_its_line(
    simulation: Simulation, caplog: pytest.LogCaptureFixture, protocol: str
) -> None:
    caplog.set_level(logging.DEBUG, "tandem_kafka")
    journey(simulation, protocol)
    text = "\n".join(record.getMessage() for record in caplog.records)
    joining = "JoinGroupRequest" if protocol == "classic" else "ConsumerGroupHeartbeatRequest"
    for step in (
        "broker 1 (10.0.0.1:9092): connection opened",
        "metadata: the brokers are broker 1 (10.0.0.1:9092), broker 2 (10.0.0.2:9092)",
        "metadata: leaders of orders: {0: ",
        f": {joining} v",
        "FetchRequest v",
        "orders-0: seek to offset 1",
        "OffsetCommitRequest v",
        "committed orders-0 at 1",
        "sent",
        "response after ",
        "no response: ",
        "connection to broker 1 (10.0.0.1:9092) lost: ",
    ):
        assert step in text, step


def test_requests_have_fields_for_structured_loggers(
    simulation: Simulation, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "tandem_kafka")
    journey(simulation, "classic")
    sent: dict[tuple[object, ...], str] = {}
    for record in caplog.records:
        if hasattr(record, "correlation_id"):
            step = record.getMessage().rpartition(": ")[2]
            key = record.client_id, record.api, record.correlation_id, record.node_id  # type: ignore[attr-defined]
            sent.setdefault(key, step)
    assert {step.split()[0] for step in sent.values()} == {"sent"}, "before its outcome"


def test_at_info_no_request_is_logged(
    simulation: Simulation, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "tandem_kafka")
    journey(simulation, "classic")
    assert not [record for record in caplog.records if hasattr(record, "correlation_id")]
