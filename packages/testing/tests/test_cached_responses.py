"""Responses whose bytes a simulated broker caches."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from packages.testing.tests.bare_client import Client
from tandem_kafka import TopicPartition
from tandem_kafka.wire.messages import (
    ConsumerGroupHeartbeatResponse,
    HeartbeatResponse,
    MetadataRequest,
    MetadataResponse,
)
from tandem_kafka_testing import Call, Simulation
from tandem_kafka_testing.clock import SimClock
from tandem_kafka_testing.cluster.apis.plain import Plain
from tandem_kafka_testing.network import SimNetwork
from tandem_kafka_testing.trace import Trace


def test_a_plain_response_has_the_bytes_of_its_message_even_if_changed() -> None:
    plain = Plain(HeartbeatResponse, throttle_time_ms=0, error_code=0)
    for version in range(HeartbeatResponse.max_version + 1):
        for code in (0, 27):
            plain.error_code = code
            message = HeartbeatResponse(throttle_time_ms=0, error_code=code)
            assert plain.encode(version=version) == bytes(message.encode(version=version))
            assert plain.flexible_version_q(version) == message.flexible_version_q(version)


def test_responses_that_differ_in_one_field_have_different_bytes() -> None:
    fields = {
        "throttle_time_ms": 0,
        "error_code": 0,
        "heartbeat_interval_ms": 5,
        "assignment": None,
    }
    bodies = {
        Plain(ConsumerGroupHeartbeatResponse, member_epoch=epoch, **fields).encode(version=0)
        for epoch in range(3)
    }
    assert len(bodies) == 3


@pytest.mark.parametrize("latency_ms", [(1, 5), (0, 0), (7, 8), (1, 1_000)])
def test_latencies_are_drawn_as_randint_draws_them(latency_ms: tuple[int, int]) -> None:
    seeded = random.Random(5)  # noqa: S311 - the draws themselves are compared
    clock = SimClock()
    network = SimNetwork(clock, seeded, Trace(clock))  # type: ignore[arg-type]
    network.conditions.latency_ms = latency_ms
    other = random.Random(5)  # noqa: S311
    for _ in range(500):
        assert network.arrival_ms(("h", 1)) == clock.now_ms() + other.randint(*latency_ms)


def test_reading_a_trace_does_not_change_its_digest() -> None:
    clock = SimClock()
    looked_at, left_alone = Trace(clock, keep=300), Trace(clock, keep=300)
    for number in range(1_000):
        clock.advance_to(clock.now_ms() + number % 3)
        for trace in (looked_at, left_alone):
            trace.note(f"line {number}")
        if number % 70 == 0:
            assert looked_at.lines[-1].endswith(f"line {number}")
            assert looked_at.digest
    assert looked_at.digest == left_alone.digest
    assert looked_at.lines == left_alone.lines
    assert len(left_alone.lines) == 300


def test_cached_metadata_is_current_and_tests_may_change_it() -> None:
    def changed(call: Call) -> Any:
        answer = call.default()
        answer.cluster_id = "another"
        answer.topics.clear()
        return answer

    def told() -> Any:
        frame = client.say(MetadataRequest(topics=None), 13)
        assert frame is not None
        return frame[5:], MetadataResponse.decode(frame[5:], version=13)

    tp = TopicPartition("orders", 1)
    with Simulation(brokers=3) as simulation:
        cluster, client = simulation.cluster, Client(simulation)
        cluster.create_topic("orders", 2)
        changes: list[Callable[[], object]] = [
            lambda: None,
            lambda: cluster.move_leader(tp, 3),
            lambda: cluster.stop(3),
            lambda: cluster.stop(2, elect=True),
            lambda: cluster.start(3),
            lambda: cluster.start(2),
            lambda: cluster.fall_behind(tp, 1),
            lambda: cluster.add_partitions("orders", 3),
            lambda: cluster.create_topic("payments"),
            lambda: cluster.delete_topic("orders"),
        ]
        answers = []
        for change in changes:
            change()
            kept, _ = told()
            assert told()[0] == kept
            cluster.script(MetadataRequest, lambda call: call.default(), changed)
            assert told()[0] == kept, "a new message has the same bytes"
            assert told()[1].cluster_id == "another"
            assert told()[0] == kept
            answers.append(kept)
        assert all(before != after for before, after in pairwise(answers))
        cluster.brokers[1].quotas.throttle(MetadataRequest, 700)
        assert told()[1].throttle_time_ms == 700
