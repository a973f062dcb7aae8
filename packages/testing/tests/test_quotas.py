"""Throttled responses of a simulated broker, and muted connections."""

from __future__ import annotations

from typing import Any

import pytest

from packages.testing.tests.bare_client import Client, fetch, fetched
from tandem_kafka import TopicPartition
from tandem_kafka.wire.messages import (
    FetchRequest,
    FetchResponse,
    HeartbeatRequest,
    HeartbeatResponse,
)
from tandem_kafka_testing import Simulation
from tandem_kafka_testing.clock import SimClock
from tandem_kafka_testing.cluster.quotas import Quotas

TP = TopicPartition("orders", 0)
FETCH = FetchRequest.API_KEY


def heartbeat() -> Any:
    return HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


def test_a_throttled_response_is_sent_at_once_and_the_connection_is_muted() -> None:
    with Simulation(kafka="2.8") as simulation:
        simulation.cluster.brokers[1].quotas.throttle(HeartbeatRequest, 700)
        client, other = Client(simulation), Client(simulation)
        began_ms = simulation.clock.now_ms()
        frame = client.say(heartbeat(), 3)
        assert frame is not None
        answer = HeartbeatResponse.decode(frame[4:], version=3)
        assert answer.throttle_time_ms == 700
        assert simulation.clock.now_ms() - began_ms < 20
        assert other.say(heartbeat(), 3) is not None
        assert simulation.clock.now_ms() - began_ms < 40, "the other connection is read"
        client.say(heartbeat(), 3)
        assert 700 <= simulation.clock.now_ms() - began_ms < 720


def test_before_2_0_throttled_responses_are_delayed() -> None:
    with Simulation(kafka="0.11") as simulation:
        simulation.cluster.create_topic("orders")
        simulation.cluster.produce(TP, b"one")
        simulation.cluster.brokers[1].quotas.throttle(FetchRequest, 700)
        client = Client(simulation)
        began_ms = simulation.clock.now_ms()
        answer = fetched(client.say(fetch(simulation), 5), 5)
        assert 700 <= simulation.clock.now_ms() - began_ms < 720
        assert answer.throttle_time_ms == 700
        assert answer.responses[0].partitions[0].records, "and brings what was asked for"


def test_a_throttled_fetch_returns_nothing_and_opens_no_session() -> None:
    with Simulation(kafka="2.8") as simulation:
        simulation.cluster.create_topic("orders")
        simulation.cluster.produce(TP, b"one")
        quotas, client = simulation.cluster.brokers[1].quotas, Client(simulation)
        quotas.throttle(FetchRequest, 100)
        throttled = fetched(client.say(fetch(simulation), 12))
        assert (throttled.session_id, throttled.responses) == (0, [])
        assert len(simulation.cluster.brokers[1].sessions) == 0
        opened = fetched(client.say(fetch(simulation), 12))
        assert opened.responses[0].partitions[0].records
        quotas.throttle(FetchRequest, 100)
        again = fetched(client.say(fetch(simulation, opened.session_id, 1), 12))
        assert (again.session_id, again.responses) == (opened.session_id, [])
        last = fetched(client.say(fetch(simulation, opened.session_id, 2), 12))
        assert last.responses[0].partitions[0].records


def test_a_client_above_its_rate_waits_until_it_is_below() -> None:
    clock = SimClock()
    quotas = Quotas(clock)
    quotas.limit_fetches("greedy", 100)
    assert quotas.throttle_ms(FETCH, "greedy", 600) == 0
    assert quotas.throttle_ms(FETCH, "greedy", 500) == 1_000, "a tenth too much of ten seconds"
    assert quotas.throttle_ms(FETCH, "greedy", 400) == 0, "dropped records do not count"
    assert quotas.throttle_ms(FETCH, "other", 10**9) == 0
    assert quotas.throttle_ms(HeartbeatRequest.API_KEY, "greedy", 0) == 0
    clock.advance_to(clock.now_ms() + 10_000)
    assert quotas.throttle_ms(FETCH, "greedy", 1_000) == 0
    assert quotas.most_fetched("greedy") == 1_000
    assert quotas.most_fetched("other") is None


def test_delayed_records_count_for_the_rate() -> None:
    quotas = Quotas(SimClock())
    quotas.limit_fetches("greedy", 100)
    assert quotas.throttle_ms(FETCH, "greedy", 1_100, delivered=True) == 1_000
    assert quotas.throttle_ms(FETCH, "greedy", 0, delivered=True) == 1_000


@pytest.mark.parametrize("api", [FetchRequest, FetchResponse])
def test_a_message_of_either_direction_names_the_api(api: Any) -> None:
    quotas = Quotas(SimClock())
    quotas.throttle(api, 5, 7)
    assert [quotas.throttle_ms(FETCH, "c", 0) for _ in range(3)] == [5, 7, 0]
