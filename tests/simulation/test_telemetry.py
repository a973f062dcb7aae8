"""Metrics pushed to simulated brokers that subscribe to them (KIP-714)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import pytest
from kafka import errors

from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka.errors import IllegalStateError, KafkaTimeoutError
from tandem_kafka.network import connection
from tandem_kafka.request_managers.telemetry import telemetry_request_manager
from tandem_kafka.request_managers.telemetry.telemetry_request_manager import MOST_BYTES
from tandem_kafka.wire.framing import decode_message
from tandem_kafka.wire.messages import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
    PushTelemetryRequest,
    PushTelemetryResponse,
)
from tandem_kafka_testing import CUT, Call, Simulation
from tandem_kafka_testing.cluster.telemetry import TelemetryReceiver
from tests.scenarios.numbered_records import create_topic, produce

TP = TopicPartition("orders", 0)
INTERVAL_MS = 10_000
ASKS, PUSHES = "GetTelemetrySubscriptionsRequest", "PushTelemetryRequest"


@contextmanager
def subscribed(
    seed: str, receiver: TelemetryReceiver | None, brokers: int = 1, **options: Any
) -> Iterator[tuple[Simulation, KafkaConsumer]]:
    with Simulation(seed, brokers=brokers, trace_lines=None) as simulation:
        simulation.cluster.telemetry = receiver
        create_topic(simulation, "orders", 1)
        produce(simulation, TP, 7)
        with simulation.consumer(auto_offset_reset="earliest", **options) as consumer:
            consumer.assign([TP])
            yield simulation, consumer


def poll_for(simulation: Simulation, consumer: KafkaConsumer, duration_ms: int) -> None:
    end_ms = simulation.clock.now_ms() + duration_ms
    while simulation.clock.now_ms() < end_ms:
        consumer.poll(1_000)


def count(simulation: Simulation, request: str) -> int:
    return sum(f"< {request} " in line for line in simulation.trace.lines)


@pytest.mark.parametrize("switched_off", [False, True])
def test_nothing_is_sent_without_a_receiver_or_when_switched_off(switched_off: bool) -> None:
    receiver = TelemetryReceiver() if switched_off else None
    options = {"enable_metrics_push": False} if switched_off else {}
    with subscribed("nobody", receiver, **options) as (simulation, consumer):
        poll_for(simulation, consumer, 20 * INTERVAL_MS)
    assert count(simulation, ASKS) == count(simulation, PUSHES) == 0


def test_pushes_at_the_interval_and_at_close() -> None:
    receiver = TelemetryReceiver(accepted=())
    with subscribed("interval", receiver) as (simulation, consumer):
        poll_for(simulation, consumer, 6 * INTERVAL_MS)
        regular = list(receiver.pushes)
    assert count(simulation, ASKS) == 1
    assert 5 <= len(regular) <= 6
    times = [each.at_ms for each in regular]
    gaps = {later - former for former, later in pairwise(times)}
    assert all(INTERVAL_MS <= gap < INTERVAL_MS + 100 for gap in gaps)
    assert not any(each.terminating for each in regular)
    assert [each.terminating for each in receiver.pushes[len(regular) :]] == [True]
    assert len({each.client_instance_id for each in receiver.pushes}) == 1
    assert b"fetch.manager.records.consumed.total" in receiver.pushes[-1].metrics


def test_the_client_instance_id() -> None:
    receiver = TelemetryReceiver()
    with subscribed("id", receiver) as (simulation, consumer):
        given = consumer.client_instance_id(timeout_ms=5_000)
        assert consumer.client_instance_id(timeout_ms=0) == given
        poll_for(simulation, consumer, 3 * INTERVAL_MS)
    assert {each.client_instance_id for each in receiver.pushes} == {given}


def test_without_a_receiver_no_broker_gives_an_id() -> None:
    with (
        subscribed("no id", None) as (_, consumer),
        pytest.raises(KafkaTimeoutError, match=r"client_instance_id\(\)"),
    ):
        consumer.client_instance_id(timeout_ms=5_000)


@pytest.mark.parametrize("option", ["enable_metrics_push", "metrics_enabled"])
def test_there_is_no_id_when_switched_off(option: str) -> None:
    options: dict[str, Any] = {option: False}
    with (
        subscribed("off", TelemetryReceiver(), **options) as (_, consumer),
        pytest.raises(IllegalStateError, match=f"requires {option}=True"),
    ):
        consumer.client_instance_id(timeout_ms=5_000)


def test_a_changed_subscription_is_requested_again() -> None:
    receiver = TelemetryReceiver(prefixes=("org.apache.kafka.consumer.coordinator",), accepted=())
    with subscribed("change", receiver) as (simulation, consumer):
        poll_for(simulation, consumer, 3 * INTERVAL_MS)
        before = len(receiver.pushes)
        receiver.prefixes = ("org.apache.kafka.consumer.connection",)
        poll_for(simulation, consumer, 4 * INTERVAL_MS)
    assert count(simulation, ASKS) == 2
    assert {b"coordinator" in each.metrics for each in receiver.pushes[:before]} == {True}
    assert {b"coordinator" in each.metrics for each in receiver.pushes[before:]} == {False}
    assert {b"connection.count" in each.metrics for each in receiver.pushes[before:]} == {True}


def test_without_requested_metrics_one_request_per_interval() -> None:
    receiver = TelemetryReceiver(prefixes=())
    with subscribed("none", receiver) as (simulation, consumer):
        poll_for(simulation, consumer, 10 * INTERVAL_MS)
    assert 10 <= count(simulation, ASKS) <= 11
    assert not receiver.pushes


@pytest.mark.parametrize(
    ("error", "asks", "pushes"),
    [
        (errors.UnknownSubscriptionIdError, 2, True),
        (errors.UnsupportedCompressionTypeError, 2, True),
        (errors.TelemetryTooLargeError, 2, True),
        (errors.ThrottlingQuotaExceededError, 2, True),
        (errors.InvalidRequestError, 1, False),
    ],
)
def test_errors(error: Any, asks: int, pushes: bool) -> None:
    receiver = TelemetryReceiver()
    with subscribed(f"error {error.errno}", receiver) as (simulation, consumer):
        rejection = PushTelemetryResponse(throttle_time_ms=0, error_code=error.errno)
        simulation.cluster.script(PushTelemetryRequest, rejection)
        poll_for(simulation, consumer, 5 * INTERVAL_MS)
        assert consumer.position(TP) == 7
    assert count(simulation, ASKS) == asks
    assert bool(receiver.pushes) == pushes


def test_a_push_that_is_too_large_is_not_repeated_at_once() -> None:
    receiver = TelemetryReceiver(max_bytes=10)
    with subscribed("large", receiver) as (simulation, consumer):
        poll_for(simulation, consumer, 10 * INTERVAL_MS)
    assert 2 <= count(simulation, PUSHES) <= 8
    assert not receiver.pushes


def test_a_lost_connection_is_followed_by_a_new_subscription() -> None:
    receiver = TelemetryReceiver()

    def cut(_: Call) -> Any:
        return CUT

    with subscribed("cut", receiver) as (simulation, consumer):
        simulation.cluster.script(GetTelemetrySubscriptionsRequest, cut)
        poll_for(simulation, consumer, 4 * INTERVAL_MS)
        assert consumer.position(TP) == 7
        poll_for(simulation, consumer, 360_000)
    assert receiver.pushes


def test_a_subscription_that_is_too_large_is_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[int] = []

    def decode(kind: Any, version: int, body: memoryview) -> Any:
        if kind is GetTelemetrySubscriptionsResponse:
            decoded.append(len(body))
        return decode_message(kind, version, body)

    for module in (connection, telemetry_request_manager):
        monkeypatch.setattr(module, "decode_message", decode)
    receiver = TelemetryReceiver(prefixes=("x" * 9,) * 100_000)
    with subscribed("flood", receiver) as (simulation, consumer):
        poll_for(simulation, consumer, 2 * INTERVAL_MS)
        assert consumer.position(TP) == 7
        assert not decoded
        assert count(simulation, ASKS) == 1
        receiver.prefixes = ("*",)
        poll_for(simulation, consumer, 360_000)
        assert max(decoded) < MOST_BYTES
    assert receiver.pushes


def test_the_pushes_of_a_lost_broker_go_to_another() -> None:
    receiver = TelemetryReceiver()
    with subscribed("lost", receiver, brokers=3) as (simulation, consumer):
        poll_for(simulation, consumer, 3 * INTERVAL_MS)
        first = {each.node_id for each in receiver.pushes}
        assert len(first) == 1
        simulation.cluster.stop(*first, elect=True)
        poll_for(simulation, consumer, 400_000)
        assert {each.node_id for each in receiver.pushes} > first
        assert len({each.client_instance_id for each in receiver.pushes}) == 1


def test_close_does_not_wait_long_for_a_broker_that_hangs() -> None:
    receiver = TelemetryReceiver()
    with subscribed("hangs", receiver) as (simulation, consumer):
        poll_for(simulation, consumer, 3 * INTERVAL_MS)
        simulation.cluster.pause(1)
        began_ms = simulation.clock.now_ms()
        consumer.close(timeout_ms=10_000)
        assert simulation.clock.now_ms() - began_ms <= 1_500
    assert not any(each.terminating for each in receiver.pushes)
