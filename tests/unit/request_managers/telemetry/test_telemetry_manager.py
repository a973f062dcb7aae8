"""When the subscription is requested, when metrics are pushed, and each error."""

from __future__ import annotations

import logging
from typing import Any
from uuid import UUID

import pytest

from tandem_kafka.errors import KafkaConnectionError
from tandem_kafka.network.request import ANY_NODE, ToNode, UnsentRequest
from tandem_kafka.request_managers.base import IDLE
from tandem_kafka.request_managers.telemetry.telemetry_request_manager import (
    DEFAULT_INTERVAL_MS,
    MOST_PREFIXES,
    SHORTEST_INTERVAL_MS,
    TRANSITIONS,
    State,
    TelemetryRequestManager,
)
from tandem_kafka.wire.messages import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
    PushTelemetryRequest,
    PushTelemetryResponse,
)
from tests.unit.request_managers.world import NODE_1, World

CLIENT = UUID(int=77)
INTERVAL_MS = 20_000


class Telemetry:
    """The manager of a world whose brokers receive metrics."""

    def __init__(self, **options: Any) -> None:
        self.world = World(**options)
        self.world.offered |= {71, 72}
        self.manager: TelemetryRequestManager = self.world.managers.telemetry

    def subscribe(self, unsent: UnsentRequest | None = None, **fields: Any) -> None:
        response = {
            "throttle_time_ms": 0,
            "error_code": 0,
            "client_instance_id": CLIENT,
            "subscription_id": 5,
            "accepted_compression_types": [],
            "push_interval_ms": INTERVAL_MS,
            "telemetry_max_bytes": 1_000_000,
            "delta_temporality": True,
            "requested_metrics": ["*"],
            **fields,
        }
        asked = unsent or self.world.sent(self.manager)
        assert isinstance(asked.message, GetTelemetrySubscriptionsRequest)
        self.world.respond(asked, GetTelemetrySubscriptionsResponse(**response))

    def push(self) -> tuple[int, UnsentRequest]:
        waited_ms, unsent = self.world.wait_and_send(self.manager)
        assert isinstance(unsent.message, PushTelemetryRequest)
        return waited_ms, unsent

    def respond(self, unsent: UnsentRequest, code: int = 0) -> None:
        response = PushTelemetryResponse(throttle_time_ms=0, error_code=code)
        self.world.respond(unsent, response)

    def asks_again_after_ms(self) -> int:
        waited_ms, unsent = self.world.wait_and_send(self.manager)
        assert isinstance(unsent.message, GetTelemetrySubscriptionsRequest)
        return waited_ms

    @property
    def ended(self) -> bool:
        return self.world.poll(self.manager, after_ms=10 * DEFAULT_INTERVAL_MS) == IDLE


@pytest.fixture
def telemetry() -> Telemetry:
    return Telemetry()


def test_subscription_then_pushes(telemetry: Telemetry) -> None:
    asked = telemetry.world.sent(telemetry.manager)
    assert asked.destination is ANY_NODE
    assert asked.message.client_instance_id == UUID(int=0)
    assert telemetry.world.poll(telemetry.manager, after_ms=60_000) == IDLE
    telemetry.subscribe(asked)
    for low, high in ((0.5, 1.5), (1, 1), (1, 1)):
        waited_ms, unsent = telemetry.push()
        assert low * INTERVAL_MS <= waited_ms <= high * INTERVAL_MS
        assert unsent.destination == ToNode(NODE_1)
        message = unsent.message
        assert (message.client_instance_id, message.subscription_id) == (CLIENT, 5)
        assert not message.terminating
        assert message.compression_type == 0
        assert b"org.apache.kafka.consumer.coordinator.commit.total" in bytes(message.metrics)
        telemetry.respond(unsent)


@pytest.mark.parametrize("asked_ms", [1, 100, 999])
def test_a_short_interval_is_made_longer(telemetry: Telemetry, asked_ms: int) -> None:
    telemetry.subscribe(push_interval_ms=asked_ms)
    telemetry.respond(telemetry.push()[1])
    for _ in range(3):
        waited_ms, unsent = telemetry.push()
        assert waited_ms == SHORTEST_INTERVAL_MS
        telemetry.respond(unsent)


def test_too_many_prefixes_are_cut(telemetry: Telemetry, caplog: pytest.LogCaptureFixture) -> None:
    """Each push would compare each metric with a million of them, on the network thread."""
    prefixes = [f"none.{number}" for number in range(2 * MOST_PREFIXES)]
    telemetry.subscribe(requested_metrics=[*prefixes, "org.apache.kafka."])
    assert telemetry.push()[1].message.metrics.count(b"org.apache.kafka.") == 0
    assert "requests metrics with 2001 prefixes; only the first 1000 are used" in caplog.text


def test_a_subscription_that_arrives_during_close_is_ignored(
    telemetry: Telemetry, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    asked = telemetry.world.sent(telemetry.manager)
    assert telemetry.manager.close(telemetry.world.now_ms) == IDLE
    telemetry.subscribe(asked)
    assert telemetry.ended
    assert caplog.messages == []


def test_the_first_pushes_are_spread() -> None:
    waits_ms = set()
    for seed in range(20):
        telemetry = Telemetry(seed=seed)
        telemetry.subscribe()
        waits_ms.add(telemetry.push()[0])
    assert min(waits_ms) < 0.8 * INTERVAL_MS
    assert max(waits_ms) > 1.2 * INTERVAL_MS


@pytest.mark.parametrize(
    "options", [{"enable_metrics_push": False}, {"metrics_enabled": False}], ids=str
)
def test_switched_off(options: dict[str, Any]) -> None:
    telemetry = Telemetry(**options)
    assert telemetry.ended
    assert telemetry.manager.close(telemetry.world.now_ms) == IDLE


def test_without_a_receiver_nothing_is_sent(telemetry: Telemetry) -> None:
    telemetry.world.offered.clear()
    assert telemetry.ended
    telemetry.world.offered.add(71)
    telemetry.subscribe()


def test_before_the_first_metadata_nothing_is_sent() -> None:
    telemetry = Telemetry(leaders=())
    assert telemetry.ended
    telemetry.world.lead(1, 1, 2)
    telemetry.subscribe()


def test_without_requested_metrics_it_asks_again_with_its_id(telemetry: Telemetry) -> None:
    telemetry.subscribe(requested_metrics=[])
    waited_ms, unsent = telemetry.world.wait_and_send(telemetry.manager)
    assert waited_ms == INTERVAL_MS
    assert unsent.message.client_instance_id == CLIENT
    telemetry.subscribe(unsent, requested_metrics=["org.apache.kafka.consumer.connection"])
    data = bytes(telemetry.push()[1].message.metrics)
    assert b"connection.creation.rate" in data
    assert b"coordinator" not in data


def test_an_invalid_interval_is_five_minutes(telemetry: Telemetry) -> None:
    telemetry.subscribe(push_interval_ms=0, requested_metrics=[])
    assert telemetry.asks_again_after_ms() == DEFAULT_INTERVAL_MS


def test_without_an_id_it_asks_again(telemetry: Telemetry) -> None:
    telemetry.subscribe(client_instance_id=UUID(int=0))
    assert telemetry.asks_again_after_ms() == DEFAULT_INTERVAL_MS


@pytest.mark.parametrize("code", [117, 76])
def test_an_outdated_push_is_followed_by_a_new_subscription(
    telemetry: Telemetry, code: int
) -> None:
    telemetry.subscribe()
    telemetry.respond(telemetry.push()[1], code)
    waited_ms, unsent = telemetry.world.wait_and_send(telemetry.manager)
    assert 0 < waited_ms <= 100
    telemetry.subscribe(unsent, subscription_id=6)
    assert telemetry.push()[1].message.subscription_id == 6


@pytest.mark.parametrize("code", [118, 89])
def test_after_a_temporary_error_it_asks_at_the_interval(telemetry: Telemetry, code: int) -> None:
    telemetry.subscribe()
    telemetry.respond(telemetry.push()[1], code)
    assert telemetry.asks_again_after_ms() == INTERVAL_MS


def test_a_throttled_first_request_waits_for_five_minutes(telemetry: Telemetry) -> None:
    telemetry.subscribe(error_code=89)
    assert telemetry.asks_again_after_ms() == DEFAULT_INTERVAL_MS


@pytest.mark.parametrize("code", [42, 87, 35, 31, 9_999])
@pytest.mark.parametrize("pushed", [False, True])
def test_a_final_error_ends_it(
    telemetry: Telemetry, code: int, pushed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    if pushed:
        telemetry.subscribe()
        telemetry.respond(telemetry.push()[1], code)
    else:
        telemetry.subscribe(error_code=code)
    assert telemetry.ended
    assert telemetry.manager.close(telemetry.world.now_ms) == IDLE
    lines = [each.message for each in caplog.records if each.levelno == logging.WARNING]
    assert len(lines) == 1
    assert "not pushed any more" in lines[0]
    assert not telemetry.world.raised()


@pytest.mark.parametrize("pushed", [False, True])
def test_a_lost_broker_is_followed_by_a_new_subscription(
    telemetry: Telemetry, pushed: bool
) -> None:
    if pushed:
        telemetry.subscribe()
        unsent = telemetry.push()[1]
    else:
        unsent = telemetry.world.sent(telemetry.manager)
    unsent.future.fail(KafkaConnectionError("lost"))
    assert telemetry.asks_again_after_ms() == DEFAULT_INTERVAL_MS
    assert not telemetry.world.raised()


@pytest.mark.parametrize("in_flight", [False, True])
def test_close_pushes_once_more(telemetry: Telemetry, in_flight: bool) -> None:
    telemetry.subscribe()
    before = telemetry.push()[1] if in_flight else None
    (last,) = telemetry.manager.close(telemetry.world.now_ms).unsent
    assert last.message.terminating
    assert last.message.metrics
    assert telemetry.manager.close(telemetry.world.now_ms) == IDLE
    for unsent in (before, last):
        if unsent is not None:
            telemetry.respond(unsent)
    assert telemetry.ended


def test_close_without_a_subscription_sends_nothing(telemetry: Telemetry) -> None:
    asked = telemetry.world.sent(telemetry.manager)
    assert telemetry.manager.close(telemetry.world.now_ms) == IDLE
    telemetry.subscribe(asked)
    assert telemetry.ended


def test_a_change_of_temporality_begins_anew(telemetry: Telemetry) -> None:
    telemetry.subscribe()
    metrics = telemetry.world.context.metrics
    metrics.record("records", 3)
    telemetry.respond(telemetry.push()[1], 117)
    measured = telemetry.manager._measurements
    assert measured._last
    telemetry.subscribe(
        telemetry.world.wait_and_send(telemetry.manager)[1], delta_temporality=False
    )
    assert not measured._last


def test_labels_of_the_resource() -> None:
    telemetry = Telemetry(group_id="readers", group_instance_id="one", client_rack="r1")
    telemetry.world.identity.joined(1, "member-9")
    telemetry.subscribe()
    telemetry.world.poll(telemetry.manager)
    telemetry.world.identity.left()
    data = bytes(telemetry.push()[1].message.metrics)
    for label in (b"readers", b"one", b"r1", b"member-9"):
        assert label in data


def test_the_table() -> None:
    assert not TRANSITIONS[State.TERMINATED]
    assert all(State.TERMINATED in TRANSITIONS[state] for state in set(State) - {State.TERMINATED})
    for needed, in_progress in (
        (State.SUBSCRIPTION_NEEDED, State.SUBSCRIPTION_IN_PROGRESS),
        (State.PUSH_NEEDED, State.PUSH_IN_PROGRESS),
    ):
        assert TRANSITIONS[needed] == {in_progress, State.TERMINATED}
        assert TRANSITIONS[in_progress] == {
            State.SUBSCRIPTION_NEEDED,
            State.PUSH_NEEDED,
            State.TERMINATED,
        }
