"""Brokers that throttle: delayed and unaffected requests."""

from __future__ import annotations

import re

import pytest

from tandem_kafka import TopicPartition
from tandem_kafka.errors import KafkaTimeoutError
from tandem_kafka.wire.messages import (
    ConsumerGroupHeartbeatRequest,
    FetchRequest,
    HeartbeatRequest,
    OffsetCommitRequest,
)
from tandem_kafka_testing import Call, Simulation
from tests.histories.ledger import SimulatedLedger
from tests.scenarios.numbered_records import create_topic, produce
from tests.simulation.readers import OPTIONS

TP = TopicPartition("orders", 0)
#: There and back.
ROUND_TRIP_MS = 12


def sent(simulation: Simulation, request: str) -> list[tuple[int, str]]:
    """Return times and connections of the requests of a kind."""
    pattern = re.compile(rf" *(\d+) (#\d+) broker \d+ < {request} ")
    found = map(pattern.match, simulation.trace.lines)
    return [(int(match[1]), match[2]) for match in found if match]


def throttled(simulation: Simulation) -> list[tuple[int, str, int]]:
    """Return time, connection and duration of each throttling."""
    pattern = re.compile(r" *(\d+) (#\d+) is throttled for (\d+) ms")
    found = map(pattern.match, simulation.trace.lines)
    return [(int(match[1]), match[2], int(match[3])) for match in found if match]


def check_nothing_was_sent_while_throttled(simulation: Simulation) -> None:
    requests = sent(simulation, r"\w+")
    for since_ms, connection, duration_ms in throttled(simulation):
        learnt_ms = since_ms + ROUND_TRIP_MS
        early = [
            when_ms
            for when_ms, where in requests
            if where == connection and learnt_ms < when_ms < since_ms + duration_ms
        ]
        assert not early, f"{connection} throttled at {since_ms} for {duration_ms} ms: {early}"


@pytest.mark.parametrize("kafka", ["2.8", "4.3"])
def test_a_client_above_its_quota_reads_at_its_rate(kafka: str) -> None:
    with Simulation(f"rate {kafka}", brokers=2, kafka=kafka, trace_lines=None) as simulation:
        tps = create_topic(simulation, "orders", 2)
        consumer = simulation.consumer(auto_offset_reset="earliest", client_id="greedy")
        consumer.assign(tps)
        slow, _free = sorted(simulation.cluster.brokers)
        simulation.cluster.brokers[slow].quotas.limit_fetches("greedy", 100)
        for tp in tps:
            for _ in range(40):
                produce(simulation, tp, 2)
        ledger = SimulatedLedger(simulation, consumer, tps)
        began_ms = simulation.clock.now_ms()
        (limited,) = (tp for tp in tps if simulation.cluster.at(tp).leader == slow)
        (other,) = set(tps) - {limited}
        while ledger.next[other] < 80:
            ledger.poll(100)
        assert simulation.clock.now_ms() - began_ms < 2_000, "the other broker asks nothing"
        ledger.read_all()
        took_ms = simulation.clock.now_ms() - began_ms
        log = simulation.cluster.at(limited).log
        size = sum(len(batch.data) for batch in log.read(0, 10**9))
        assert size > 3_000
        assert took_ms >= (size - 1_000) * 1_000 // 100 - 10_000, "a window may be used up at once"
        assert throttled(simulation)
        check_nothing_was_sent_while_throttled(simulation)


@pytest.mark.parametrize(
    ("protocol", "heartbeat"),
    [("classic", HeartbeatRequest), ("consumer", ConsumerGroupHeartbeatRequest)],
)
def test_heartbeats_continue_while_fetches_are_throttled(protocol: str, heartbeat: type) -> None:
    """The coordinator has its own connection, as in the Java client."""
    with Simulation(f"fetches {protocol}", trace_lines=None) as simulation:
        create_topic(simulation, "orders", 1)
        options = dict(OPTIONS, group_protocol=protocol)
        if protocol == "consumer":
            del options["session_timeout_ms"], options["heartbeat_interval_ms"]
        consumer = simulation.consumer("orders", **options)
        while not consumer.assignment():
            consumer.poll(100)
        broker = simulation.cluster.brokers[1]
        broker.quotas.throttle(FetchRequest, 20_000)
        produce(simulation, TP, 3)
        began_ms, fetches = simulation.clock.now_ms(), broker.requests.get("FetchRequest", 0)
        before = broker.requests.get(heartbeat.__name__, 0)
        assert consumer.poll(60_000).count == 3
        assert simulation.clock.now_ms() - began_ms >= 19_000
        assert broker.requests["FetchRequest"] - fetches <= 3
        received = broker.requests[heartbeat.__name__] - before
        assert received >= 19_000 // (500 + ROUND_TRIP_MS) - 1
        check_nothing_was_sent_while_throttled(simulation)


@pytest.mark.parametrize(
    ("protocol", "heartbeat"),
    [("classic", HeartbeatRequest), ("consumer", ConsumerGroupHeartbeatRequest)],
)
def test_heartbeats_wait_while_their_coordinator_throttles(protocol: str, heartbeat: type) -> None:
    """The member stays in the group if its session timeout is longer."""
    with Simulation(f"heartbeats {protocol}", trace_lines=None) as simulation:
        create_topic(simulation, "orders", 1)
        options = dict(OPTIONS, group_protocol=protocol, session_timeout_ms=6_000)
        if protocol == "consumer":
            del options["session_timeout_ms"], options["heartbeat_interval_ms"]
        consumer = simulation.consumer("orders", **options)
        while not consumer.assignment():
            consumer.poll(100)
        generation = consumer.group_metadata().generation_id
        broker = simulation.cluster.brokers[1]
        duration_ms = 4_000
        assert not throttled(simulation)
        broker.quotas.throttle(heartbeat, duration_ms)
        while not throttled(simulation):
            consumer.poll(100)
        ((since_ms, _, _),) = throttled(simulation)
        produce(simulation, TP, 2)
        assert consumer.poll(5_000).count == 2, "fetches go on"
        for _ in range(20):
            consumer.poll(1_000)
        after = [at for at, _ in sent(simulation, heartbeat.__name__) if at > since_ms]
        assert duration_ms <= after[0] - since_ms < duration_ms + 2 * ROUND_TRIP_MS
        check_nothing_was_sent_while_throttled(simulation)
        assert consumer.group_metadata().generation_id == generation
        assert consumer.assignment() == {TP}


def test_a_commit_waits_for_the_end_of_throttling_or_its_timeout() -> None:
    with Simulation("commits") as simulation:
        create_topic(simulation, "orders", 1)
        produce(simulation, TP, 3)
        consumer = simulation.consumer(group_id="readers", auto_offset_reset="earliest")
        consumer.assign([TP])
        assert consumer.poll(5_000).count == 3
        quotas = simulation.cluster.brokers[1].quotas
        quotas.throttle(OffsetCommitRequest, 5_000)
        consumer.commit()
        began_ms = simulation.clock.now_ms()
        with pytest.raises(KafkaTimeoutError):
            consumer.commit(timeout_ms=1_000)
        assert simulation.clock.now_ms() - began_ms < 1_020
        consumer.commit(timeout_ms=60_000)
        assert 4_900 <= simulation.clock.now_ms() - began_ms < 5_100


def test_throttling_beyond_the_request_timeout_keeps_the_connection() -> None:
    with Simulation("long", trace_lines=None) as simulation:
        create_topic(simulation, "orders", 1)
        options = dict(OPTIONS, session_timeout_ms=40_000, request_timeout_ms=3_000)
        consumer = simulation.consumer("orders", enable_auto_commit=False, **options)
        produce(simulation, TP, 1)
        assert consumer.poll(5_000).count == 1

        def late(call: Call) -> object:
            call.delay_ms = 100
            return call.default()

        broker = simulation.cluster.brokers[1]
        broker.quotas.throttle(HeartbeatRequest, 10_000)
        simulation.cluster.script(HeartbeatRequest, late)
        while not throttled(simulation):
            consumer.poll(5)
        consumer.commit_async()  # in flight when the client learns of the throttling
        connections = len(sent(simulation, "ApiVersionsRequest"))
        for _ in range(15):
            consumer.poll(1_000)
        assert simulation.cluster.committed("readers", TP) == 1
        assert broker.requests["OffsetCommitRequest"] == 1
        assert len(sent(simulation, "ApiVersionsRequest")) == connections


def test_before_2_0_the_broker_waits_instead_of_the_client() -> None:
    with Simulation("0.11", kafka="0.11", trace_lines=None) as simulation:
        create_topic(simulation, "orders", 1)
        consumer = simulation.consumer(auto_offset_reset="earliest")
        consumer.assign([TP])
        simulation.cluster.brokers[1].quotas.throttle(FetchRequest, 3_000)
        produce(simulation, TP, 3)
        began_ms = simulation.clock.now_ms()
        assert consumer.poll(30_000).count == 3
        assert 3_000 <= simulation.clock.now_ms() - began_ms < 3_200
        produce(simulation, TP, 3)
        assert consumer.poll(30_000).count == 3
        assert simulation.clock.now_ms() - began_ms < 3_400
