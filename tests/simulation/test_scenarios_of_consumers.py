"""Scenarios of documents 000 and 003 for the consumer, by section."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from kafka import errors

from tandem_kafka.wire.messages import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatRequest,
    JoinGroupRequest,
    OffsetCommitRequest,
    SyncGroupRequest,
)
from tandem_kafka_testing import DROP, Call, Simulation
from tandem_kafka_testing.coordinator.classic import ClassicGroup
from tests.histories.ledger import LATE_MS
from tests.scenarios.numbered_records import produce
from tests.simulation.readers import Listener, Readers, filled

CONSUMER = {"group_protocol": "consumer"}
BOTH = pytest.mark.parametrize("protocol", [{}, CONSUMER], ids=["classic", "consumer"])
WATCHED = 200


def watch(simulation: Simulation, api: Any, seen: Callable[[Call], object]) -> None:
    """Call `seen` for the next calls of an API, which get their usual responses."""

    def look(call: Call) -> Any:
        seen(call)
        return call.default()

    simulation.cluster.script(api, *[look] * WATCHED)


# --- 000 "Consumer" ------------------------------------------------------------------------------


@pytest.mark.design("000", "Consumer 2")
def test_a_rebalance_makes_a_member_commit_join_and_continue_reading() -> None:
    with Simulation() as simulation:
        readers = Readers(simulation, filled(simulation))
        first = readers.join(Listener(), auto_commit_interval_ms=600_000)
        readers.settle()
        steps: list[str] = []
        when_joining: list[tuple[int, int]] = []

        def step(call: Call) -> None:
            if call.client_id != "simulated-1":
                return
            steps.append(call.request.name)
            if call.request.name == "JoinGroupRequest":
                offsets = [simulation.cluster.committed("readers", tp) for tp in readers.partitions]
                when_joining.append((sum(map(int, filter(None, offsets))), len(readers.read)))

        for api in (HeartbeatRequest, OffsetCommitRequest, JoinGroupRequest, SyncGroupRequest):
            watch(simulation, api, step)
        for tp in readers.partitions:
            produce(simulation, tp, 3)
        readers.poll(1)
        readers.join(Listener())
        readers.settle()
        committed_at = steps.index("OffsetCommitRequest")
        assert set(steps[:committed_at]) == {"HeartbeatRequest"}, "a heartbeat response reports it"
        then = [name for name in steps[committed_at + 1 :] if name != "HeartbeatRequest"]
        assert then[:2] == ["JoinGroupRequest", "SyncGroupRequest"]
        committed, read = when_joining[0]
        assert committed == read == 4 * 23, "it stopped, and all that it handed out is committed"
        assert len(first.assignment()) == 2
        for tp in first.assignment():
            produce(simulation, tp, 1)
        readers.settle()
        assert set(readers.read.values()) == {1}, "nothing is read twice"


@pytest.mark.design("000", "Consumer 3")
@BOTH
def test_a_member_without_an_error_keeps_its_partitions(protocol: Any) -> None:
    with Simulation(brokers=2) as simulation:
        readers = Readers(simulation, filled(simulation))
        listener = Listener()
        member = readers.join(listener, **protocol)
        readers.settle()
        had, identity = member.assignment(), member.group_metadata()
        simulation.cluster.fail_over("readers", 2)
        joins: list[Call] = []
        watch(simulation, JoinGroupRequest, joins.append)
        for tp in readers.partitions:
            produce(simulation, tp, 3)
        readers.poll(30)
        assert readers.all_read()
        assert (member.assignment(), member.group_metadata()) == (had, identity)
        assert [kind for kind, _ in listener.calls] == ["assigned"]
        assert not joins
        asked = simulation.cluster.brokers[2].requests
        beats = [asked.get(n, 0) for n in ("HeartbeatRequest", "ConsumerGroupHeartbeatRequest")]
        assert sum(beats) > 5


# --- 000 "Failure detection protocol", "Heartbeats during rebalance" -----------------------------


@pytest.mark.design("000", "Failure detection protocol 1")
@pytest.mark.parametrize("interval_ms", [500, 2_000])
def test_a_heartbeat_is_sent_every_interval(interval_ms: int) -> None:
    with Simulation() as simulation:
        readers = Readers(simulation, filled(simulation))
        readers.join(heartbeat_interval_ms=interval_ms)
        readers.settle()
        moments: list[int] = []
        watch(simulation, HeartbeatRequest, lambda _: moments.append(simulation.clock.now_ms()))
        readers.poll(100)
        gaps = [after - before for before, after in itertools.pairwise(moments)]
        assert len(gaps) >= 20_000 // interval_ms - 3
        assert {round(gap / 100) * 100 for gap in gaps} == {interval_ms}


@pytest.mark.design("000", "Heartbeats during rebalance 1")
def test_no_heartbeat_is_sent_while_a_join_is_in_flight() -> None:
    with Simulation() as simulation:
        readers = Readers(simulation, filled(simulation))
        for _ in range(2):
            readers.join(Listener())
        readers.settle()
        group = simulation.cluster.group("readers")
        early, late = readers.members
        identity = early.group_metadata().member_id
        beats: list[tuple[str, bool]] = []
        watch(
            simulation,
            HeartbeatRequest,
            lambda call: beats.append((call.request.member_id, is_joining(group, identity))),
        )
        new_member = readers.join(Listener())
        for _ in range(20):  # `late` does not poll, so that the round stays open
            early.poll(100)
            new_member.poll(100)
        assert is_joining(group, identity)
        beats_of_member = [joining for member_id, joining in beats if member_id == identity]
        assert beats_of_member, "the heartbeat that reports the rebalance"
        assert not any(beats_of_member)
        others = [member_id for member_id, joining in beats if joining]
        assert set(others) == {late.group_metadata().member_id}
        readers.settle()
        assert identity in group.members


def is_joining(group: ClassicGroup, member_id: str) -> bool:
    return member_id in group.members and group.members[member_id].joining is not None


@pytest.mark.design("000", "Heartbeats during rebalance 2")
@pytest.mark.parametrize("interval_ms", [100, 500, 2_500])
def test_a_member_learns_of_a_rebalance_within_an_interval(interval_ms: int) -> None:
    with Simulation() as simulation:
        readers = Readers(simulation, filled(simulation))
        first = readers.join(Listener(), heartbeat_interval_ms=interval_ms)
        readers.settle()
        joined: dict[str, int] = {}
        watch(
            simulation,
            JoinGroupRequest,
            lambda call: joined.__setitem__(call.client_id, simulation.clock.now_ms()),
        )
        new_member = readers.join(Listener())
        for _ in range(2 * interval_ms // 10 + 50):
            new_member.poll(5)
            first.poll(5)
        waited_ms = joined["simulated-1"] - joined["simulated-2"]
        assert 0 < waited_ms <= interval_ms + 50
        readers.settle()


# --- 003 "Assign", "Subscribe" -------------------------------------------------------------------


# --- 003 "Timeout Policy" ------------------------------------------------------------------------


def nobody(error: Any = errors.CoordinatorNotAvailableError) -> FindCoordinatorResponse:
    entry = FindCoordinatorResponse.Coordinator(
        key="readers", node_id=-1, host="", port=-1, error_code=error.errno, error_message=None
    )
    return FindCoordinatorResponse(throttle_time_ms=0, coordinators=[entry])


@pytest.mark.design("003", "Timeout Policy, coordinator rediscovery backoff")
@BOTH
def test_the_coordinator_lookup_is_retried_after_a_backoff(protocol: Any) -> None:
    with Simulation() as simulation:
        readers = Readers(simulation, filled(simulation))
        moments: list[int] = []

        def refuse(_: Call) -> Any:
            moments.append(simulation.clock.now_ms())
            return nobody()

        simulation.cluster.script(FindCoordinatorRequest, *[refuse] * 8)
        readers.join(retry_backoff_ms=200, retry_backoff_max_ms=1_000, **protocol)
        readers.settle()
        gaps = [after - before for before, after in itertools.pairwise(moments)]
        assert len(gaps) == 7
        assert gaps[0] >= 160, "a fifth less than retry_backoff_ms at least"
        assert max(gaps) <= 1_250, "a fifth more than retry_backoff_max_ms at most"
        assert gaps[-1] > 2 * gaps[0], "it grows"


@pytest.mark.design("003", "Timeout Policy, coordinator discovery timeout")
@BOTH
def test_a_coordinator_lookup_without_a_response_ends_after_request_timeout_ms(
    protocol: Any,
) -> None:
    with Simulation() as simulation:
        readers = Readers(simulation, filled(simulation))
        moments: list[int] = []

        def ignore(_: Call) -> Any:
            moments.append(simulation.clock.now_ms())
            return DROP

        simulation.cluster.script(FindCoordinatorRequest, ignore, ignore)
        member = readers.join(request_timeout_ms=5_000, **protocol)
        clock = simulation.clock
        while len(moments) < 2:
            began_ms = clock.now_ms()
            member.poll(300)
            assert clock.now_ms() - began_ms <= 300 + LATE_MS, "poll keeps to its own time"
            assert clock.now_ms() < 60_000
        assert 5_000 <= moments[1] - moments[0] <= 6_500, "and a backoff"
        readers.settle()
