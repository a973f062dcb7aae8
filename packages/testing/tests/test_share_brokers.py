"""Share groups of a simulated cluster: leaders that move or crash, coordinators, limits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kafka.protocol.admin import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)

from tandem_kafka.types import TopicPartition
from tandem_kafka.wire.messages import (
    ShareAcknowledgeRequest,
    ShareFetchRequest,
    ShareFetchResponse,
    ShareGroupHeartbeatRequest,
)
from tandem_kafka_testing import Simulation
from tandem_kafka_testing.cluster.releases import release_named
from tests.integration.connections import SimulatedConnection
from tests.integration.share.sharing import Fetched, RawShareMember, Shared

TP = TopicPartition("orders", 0)
ACCEPT, RELEASE = 1, 2
NOT_LEADER, UNKNOWN_TOPIC_OR_PARTITION, NOT_COORDINATOR = 6, 3, 16
NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND = 68, 69
SHARE_SESSION_NOT_FOUND, SHARE_SESSION_LIMIT_REACHED = 122, 133


class Cluster:
    """Two brokers, and a topic of one partition, which the first one leads."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.cluster = simulation.cluster
        self.cluster.create_topic("orders", 1)
        self.cluster.configure_group("g", share_auto_offset_reset="earliest")
        self._connections: list[Any] = []

    def member(self, broker: int = 1, member_id: str | None = None) -> RawShareMember:
        """Return a member at a broker; a new one has joined at the coordinator."""
        connection = SimulatedConnection(self.simulation, len(self._connections), broker)
        self._connections.append(connection)
        topic_id = self.cluster.topics["orders"].topic_id
        member = RawShareMember(connection, "g", "orders", topic_id)
        if member_id is None:
            member.join()
        else:
            member.member_id = member_id
        return member

    def produce(self, count: int) -> None:
        self.cluster.produce(TP, *[b"x"] * count)

    def crash(self) -> None:
        """Restart the leader, which closes all connections to it."""
        self.cluster.stop(1)
        broker: Any = self.cluster.brokers[1]
        for connection in self._connections:
            broker.closed(connection)
        self.cluster.start(1)


@pytest.fixture
def world() -> Iterator[Cluster]:
    with Simulation("share", brokers=2) as simulation:
        yield Cluster(simulation)


def acquired(fetched: Fetched) -> tuple[tuple[int, int, int], ...]:
    return fetched.partitions.get(0, Shared()).acquired


def test_a_broker_that_does_not_lead_names_the_leader(world: Cluster) -> None:
    other = world.member(2, world.member().member_id)
    other.send_fetch(0, [0])
    response: Any = other.receive(ShareFetchResponse, 2)
    (topic,) = response.responses
    (partition,) = topic.partitions
    assert partition.error_code == NOT_LEADER
    assert partition.current_leader.leader_id == 1
    assert [node.node_id for node in response.node_endpoints] == [1]
    accepted = other.acknowledge(1, {0: [(0, 0, [ACCEPT])]})
    assert accepted == (0, {0: UNKNOWN_TOPIC_OR_PARTITION})


def test_another_leader_continues_with_what_was_written(world: Cluster) -> None:
    member = world.member()
    world.produce(6)
    assert acquired(member.fetch(0, [0])) == ((0, 5, 1),)
    member.acknowledge(1, {0: [(0, 1, [ACCEPT]), (3, 3, [RELEASE])]})
    world.cluster.move_leader(TP, 2)
    assert member.fetch(2).partitions[0].error == NOT_LEADER
    assert member.acknowledge(3, {0: [(2, 2, [ACCEPT])]}) == (0, {0: UNKNOWN_TOPIC_OR_PARTITION})
    moved = world.member(2, member.member_id)
    # The lock of the other records is gone; the released one keeps its count.
    assert acquired(moved.fetch(0, [0])) == ((2, 2, 1), (3, 3, 2), (4, 5, 1))


def test_a_crash_loses_locks_and_sessions_but_no_acknowledgement(world: Cluster) -> None:
    member = world.member()
    world.produce(4)
    member.fetch(0, [0])
    assert member.acknowledge(1, {0: [(0, 0, [ACCEPT]), (2, 2, [ACCEPT])]}) == (0, {0: 0})
    world.crash()
    again = world.member(1, member.member_id)
    assert again.fetch(2).error == SHARE_SESSION_NOT_FOUND
    assert acquired(again.fetch(0, [0])) == ((1, 1, 1), (3, 3, 1))


def test_a_crash_during_a_fetch_loses_its_acknowledgements(world: Cluster) -> None:
    member = world.member()
    world.produce(2)
    member.fetch(0, [0])
    member.send_fetch(1, {0: [(0, 1, [ACCEPT])]})
    world.crash()
    assert acquired(world.member(1, member.member_id).fetch(0, [0])) == ((0, 1, 1),)


def test_a_paused_leader_releases_records_when_it_continues(world: Cluster) -> None:
    member = world.member()
    world.produce(2)
    member.fetch(0, [0])
    member.send_fetch(1, max_wait_ms=60_000)
    world.cluster.pause(1)
    world.simulation.sleep(40_000)
    world.cluster.resume(1)
    assert acquired(member.receive_fetch()) == ((0, 1, 2),)


def test_a_paused_broker_responds_late(world: Cluster) -> None:
    member = world.member()
    member.fetch(0, [0], max_wait_ms=100)
    member.send_fetch(1, max_wait_ms=1_000)
    world.cluster.pause(1)
    world.simulation.sleep(5_000)
    assert not member.has_response(0.0)
    world.cluster.resume(1)
    assert member.receive_fetch() == Fetched(0, {})


def test_another_coordinator_knows_the_members(world: Cluster) -> None:
    member = world.member()
    epoch = member.beat(0).epoch
    world.cluster.fail_over("g", 2)
    assert member.beat(epoch).error == NOT_COORDINATOR
    moved = world.member(2, member.member_id)
    assert moved.beat(epoch).epoch == epoch
    assert moved.beat(0).assigned == (0,)


def test_a_silent_member_is_removed(world: Cluster) -> None:
    member, other = world.member(), world.member()
    epoch = member.beat(0).epoch
    for _ in range(10):
        world.simulation.sleep(5_000)
        other.beat(0)
    assert member.beat(epoch).error == 25


def test_a_broker_has_a_limit_of_sessions(world: Cluster) -> None:
    world.cluster.brokers[1].share_sessions.limit = 1
    first, second = world.member(), world.member()
    assert first.fetch(0, [0], max_wait_ms=100).error == 0
    before_ms = world.simulation.clock.now_ms()
    assert second.fetch(0, [0], max_wait_ms=500).error == SHARE_SESSION_LIMIT_REACHED
    assert world.simulation.clock.now_ms() - before_ms >= 500
    assert first.fetch(-1).error == 0
    assert second.fetch(0, [0], max_wait_ms=100).error == 0


@pytest.mark.parametrize(("ago_ms", "first"), [(1_000, 4), (60_000, 2), (3_600_000, 0)])
def test_a_group_may_begin_at_a_time(world: Cluster, ago_ms: int, first: int) -> None:
    for _ in range(2):
        world.produce(2)
        world.simulation.sleep(40_000)
    duration = f"by_duration:PT{ago_ms // 1_000}S"
    world.cluster.configure_group("g", share_auto_offset_reset=duration)
    member = world.member()
    member.fetch(0, [0], max_wait_ms=100)
    world.produce(1)
    world.simulation.sleep(31_000)
    (partition,) = world.cluster.brokers[1].share_partitions.values()
    assert partition.share.start_offset == first


def test_a_deleted_group_begins_anew(world: Cluster) -> None:
    member = world.member()
    world.produce(2)
    member.fetch(0, [0])
    member.acknowledge(-1, {0: [(0, 1, [ACCEPT])]})
    assert _delete(member) == NON_EMPTY_GROUP
    member.beat(-1)
    assert _delete(member) == 0
    assert _delete(member) == GROUP_ID_NOT_FOUND
    assert acquired(world.member().fetch(0, [0])) == ((0, 1, 1),)


def test_a_share_group_is_listed_with_its_type(world: Cluster) -> None:
    member = world.member()
    request = ListGroupsRequest(states_filter=[], types_filter=[])
    (listed,) = member.exchange(request, ListGroupsResponse, 5).groups
    assert (listed.group_id, listed.group_type, listed.group_state) == ("g", "share", "Stable")


def _delete(member: RawShareMember) -> int:
    response = member.exchange(DeleteGroupsRequest(groups_names=["g"]), DeleteGroupsResponse, 2)
    return int(response.results[0].error_code)


def test_an_unknown_reset_strategy_is_an_error(world: Cluster) -> None:
    with pytest.raises(ValueError, match="share_auto_offset_reset='newest': must be latest"):
        world.cluster.configure_group("g", share_auto_offset_reset="newest")


def test_only_new_releases_have_share_groups() -> None:
    share = (ShareGroupHeartbeatRequest, ShareFetchRequest, ShareAcknowledgeRequest)
    keys = {request.API_KEY for request in share}
    assert not keys & release_named("3.9").versions.keys()
    assert keys <= release_named("4.3").versions.keys()
