"""The scenarios of the consumer rewrite design (documents 000 and 004), by their sections."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from kafka import errors

from tandem_kafka import KafkaConsumer
from tandem_kafka.wire.messages import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatRequest,
    HeartbeatResponse,
)
from tandem_kafka_testing import Call, Simulation
from tandem_kafka_testing.coordinator.classic import ClassicGroup
from tandem_kafka_testing.coordinator.classic_group_member import ClassicGroupState
from tandem_kafka_testing.coordinator.kip848 import ConsumerGroup
from tandem_kafka_testing.coordinator.members import MemberState
from tests.simulation.readers import Listener, Readers, filled

CONSUMER = {"group_protocol": "consumer"}
BOTH = pytest.mark.parametrize("protocol", [{}, CONSUMER], ids=["classic", "consumer"])


def settled(simulation: Simulation, members: int = 1, **options: Any) -> Readers:
    readers = Readers(simulation, filled(simulation))
    for _ in range(members):
        readers.join(Listener(), **options)
    readers.settle()
    return readers


def listener_calls(member: KafkaConsumer) -> list[str]:
    return [kind for kind, partitions in member._parts.listener.listener.calls if partitions]  # type: ignore[union-attr]


def kill(readers: Readers, member: KafkaConsumer) -> None:
    """Kill the process of a member."""
    stop(member, 10**9)
    readers.members.remove(member)
    member._core.closed = True  # nobody closes it


def stop(member: KafkaConsumer, until_ms: int) -> None:
    member._core.driver.parked.stalled_until_ms = until_ms  # type: ignore[attr-defined]


def rebalance_until(
    readers: Readers, group: ClassicGroup, phase: Callable[[ClassicGroup], bool]
) -> None:
    """Poll, the newest member first and the leader last, until the rebalance is in a phase."""
    for turn in range(20_000):
        if group.state is not ClassicGroupState.STABLE and phase(group):
            return
        if group.state is ClassicGroupState.SYNCING:
            for member in readers.members:
                if member.group_metadata().member_id == group.leader:
                    stop(member, readers.simulation.clock.now_ms() + 100)
            readers.simulation.sleep(1)
        else:
            readers.members[-1 - turn % len(readers.members)].poll(1)
    raise AssertionError("the rebalance did not get there")


def requests(simulation: Simulation, name: str) -> int:
    return sum(broker.requests.get(name, 0) for broker in simulation.cluster.brokers.values())


# --- 000 "Co-ordinator failover or connection loss to the co-ordinator" --------------------------


@pytest.mark.design("000", "Co-ordinator 3", "Co-ordinator failover 1")
def test_a_member_waits_for_a_coordinator_that_still_loads() -> None:
    with Simulation(brokers=2) as simulation:
        readers = settled(simulation)
        loading = HeartbeatResponse(
            throttle_time_ms=0, error_code=errors.CoordinatorLoadInProgressError.errno
        )
        simulation.cluster.script(HeartbeatRequest, loading, loading, loading)
        readers.poll(20)
        assert listener_calls(readers.members[0]) == ["assigned"]
        assert simulation.cluster.group("readers").members, "it is a member still"


@pytest.mark.design("000", "Co-ordinator failover 2")
@BOTH
def test_a_broker_that_does_not_know_the_coordinator_is_asked_again(protocol: Any) -> None:
    with Simulation(brokers=2) as simulation:
        readers = settled(simulation, **protocol)
        simulation.cluster.move_coordinator("readers", 2)

        def stale(call: Call) -> Any:
            answer = call.default()
            answer.coordinators[0].node_id = 1
            answer.coordinators[0].host = simulation.cluster.brokers[1].host
            return answer

        simulation.cluster.script(FindCoordinatorRequest, stale, stale)
        asked = requests(simulation, "FindCoordinatorRequest")
        readers.poll(30)
        assert requests(simulation, "FindCoordinatorRequest") - asked == 3
        assert listener_calls(readers.members[0]) == ["assigned"]


@pytest.mark.design("000", "Consumer 1")
def test_the_coordinator_is_looked_up_until_there_is_one() -> None:
    with Simulation() as simulation:
        readers = Readers(simulation, filled(simulation))
        entry = FindCoordinatorResponse.Coordinator
        nobody = FindCoordinatorResponse(
            throttle_time_ms=0,
            coordinators=[
                entry(
                    key="readers",
                    node_id=-1,
                    host="",
                    port=-1,
                    error_code=errors.CoordinatorNotAvailableError.errno,
                    error_message=None,
                )
            ],
        )
        simulation.cluster.script(FindCoordinatorRequest, *[nobody] * 5)
        readers.join()
        readers.settle()
        assert requests(simulation, "FindCoordinatorRequest") == 6


# --- 000 "Co-ordinator failure during rebalance" -------------------------------------------------


def notified(_: ClassicGroup) -> bool:
    return True


def rebalance_announced(group: ClassicGroup) -> bool:
    return requests_told(group) > 0


def requests_told(group: ClassicGroup) -> int:
    return sum(member.joining is not None for member in group.members.values())


def joined_by_some(group: ClassicGroup) -> bool:
    return 2 <= requests_told(group) < len(group.members)


def generation_written(group: ClassicGroup) -> bool:
    return group.state is ClassicGroupState.SYNCING


def answered_in_part(group: ClassicGroup) -> bool:
    waiting = [member for member in group.members.values() if member.syncing is not None]
    return group.state is ClassicGroupState.SYNCING and bool(waiting)


@pytest.mark.design("000", "Co-ordinator failure during rebalance 1-5")
@pytest.mark.parametrize(
    "phase", [notified, rebalance_announced, joined_by_some, generation_written, answered_in_part]
)
@pytest.mark.parametrize("lost", [0, 2], ids=["", "commits lost"])
def test_the_coordinator_fails_in_each_phase(
    phase: Callable[[ClassicGroup], bool], lost: int
) -> None:
    with Simulation(phase.__name__, brokers=2) as simulation:
        readers = settled(simulation, members=3)
        group = simulation.cluster.group("readers")
        readers.join(Listener())
        rebalance_until(readers, group, phase)
        simulation.cluster.fail_over("readers", 2, lost)
        readers.settle()
        assert len(group.members) == 4


@pytest.mark.design("000", "Co-ordinator failure during rebalance 1-5")
@pytest.mark.parametrize("state", [MemberState.UNREVOKED, MemberState.UNRELEASED])
def test_the_coordinator_fails_while_a_target_is_reconciled(state: MemberState) -> None:
    with Simulation(state.name, brokers=2) as simulation:
        readers = settled(simulation, members=2, **CONSUMER)
        group = simulation.cluster.consumer_group("readers")
        readers.join(Listener(), **CONSUMER)
        for _ in range(2_000):
            if any(member.state is state for member in group.members.values()):
                break
            readers.poll(timeout_ms=1)
        simulation.cluster.fail_over("readers", 2)
        readers.settle()
        assert all(listener_calls(m).count("lost") == 0 for m in readers.members), (
            "no member lost its partitions"
        )


# --- 000 "Heartbeats during rebalance" -----------------------------------------------------------


@pytest.mark.design("000", "Heartbeats during rebalance 4")
def test_a_heartbeat_has_the_new_generation() -> None:
    with Simulation() as simulation:
        readers = settled(simulation)
        readers.join(Listener())
        readers.settle()
        named: list[int] = []

        def look(call: Call) -> Any:
            named.append(call.request.generation_id)
            return call.default()

        simulation.cluster.script(HeartbeatRequest, look, look)
        readers.poll(10)
        assert named == [simulation.cluster.group("readers").generation] * 2


# --- 000 "Slow consumers", "Failure detection protocol" ------------------------------------------


@pytest.mark.design("000", "Slow consumers 7, consumer failures")
@pytest.mark.design("002", "Phase 2, case 3", "Failure Scenarios 1")
@pytest.mark.parametrize(
    "phase", [rebalance_announced, joined_by_some, generation_written, answered_in_part]
)
@pytest.mark.parametrize("victim", [0, 2], ids=["leader", "other"])
def test_a_consumer_fails_in_each_phase(phase: Callable[[ClassicGroup], bool], victim: int) -> None:
    """The first member leads the group: 002's failed leader (its synchronizer) is among these."""
    with Simulation(phase.__name__, brokers=2) as simulation:
        readers = settled(simulation, members=3, max_poll_interval_ms=15_000)
        group = simulation.cluster.group("readers")
        readers.join(Listener(), max_poll_interval_ms=15_000)
        rebalance_until(readers, group, phase)
        kill(readers, readers.members[victim])
        readers.settle()
        assert len(group.members) == 3


@pytest.mark.design("000", "Slow consumers 7, consumer failures")
def test_a_consumer_fails_while_it_revokes_partitions() -> None:
    with Simulation() as simulation:
        readers = settled(simulation, members=2, max_poll_interval_ms=10_000, **CONSUMER)
        group = simulation.cluster.consumer_group("readers")
        readers.join(Listener(), **CONSUMER)
        for _ in range(2_000):
            if any(m.state is MemberState.UNREVOKED for m in group.members.values()):
                break
            readers.members[-1].poll(1)
        victim = next(m for m in group.members.values() if m.state is MemberState.UNREVOKED)
        kill(
            readers,
            next(m for m in readers.members if m.group_metadata().member_id == victim.member_id),
        )
        readers.settle()
        assert len(group.members) == 2


# --- 001 "Records" -------------------------------------------------------------------------------


@pytest.mark.design("001", "Records")
@pytest.mark.parametrize("seed", range(10))
def test_a_new_coordinator_knows_exactly_the_written_records(seed: int) -> None:
    with Simulation(f"written {seed}", brokers=2) as simulation:
        readers = Readers(simulation, filled(simulation))
        group = simulation.cluster.consumer_group("readers")
        for step in range(30):
            if simulation.random.random() < 0.2 and len(readers.members) < 5:
                readers.join(**CONSUMER)
            if simulation.random.random() < 0.1 and len(readers.members) > 1:
                readers.leave(readers.members[0])
            readers.poll(timeout_ms=simulation.random.choice([1, 10, 200]))
            before = known_of(group)
            simulation.cluster.fail_over("readers", 1 + step % 2)
            assert known_of(group) == before
        readers.settle()


def known_of(group: ConsumerGroup) -> Any:
    members = {m.member_id: dataclasses.replace(m, expires_ms=0) for m in group.members.values()}
    described = {name: dataclasses.astuple(member) for name, member in members.items()}
    targets = {name: tps for name, tps in group.target.items() if name in members}
    return group.epoch, described, targets
