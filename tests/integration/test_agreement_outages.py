"""The same scripts with three real brokers and three simulated ones that fail: who coordinates.

Each script has a group of every protocol, all of one coordinator, so that one outage serves all.
Scenarios are named by document and section. `--broker=real` or `--broker=simulated` runs one world.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tandem_kafka.errors import KafkaTimeoutError
from tests.integration.hosts import Host
from tests.integration.teams import Member, Scene, Team, check_commits, scene_of, seen_by
from tests.kafka.broker import KafkaCluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

STATIC = {"group_instance_id": "second"}


@pytest.fixture(scope="module")
def three() -> Iterator[KafkaCluster]:
    # Nothing moves but because of an outage.
    with KafkaCluster(brokers=3, config={"auto.leader.rebalance.enable": "false"}) as cluster:
        yield cluster


@pytest.fixture(params=["simulated", "real"])
def scene(request: pytest.FixtureRequest) -> Iterator[Scene]:
    yield from scene_of(request, "three")


def at_rest(scene: Scene, *, replicas: int, host: Host | None = None, **options: Any) -> list[Team]:
    """Teams of two members that have shared out, read and committed what there is.

    The first member of each lives in the `host`, if there is one; the second one is static.
    """
    teams = scene.teams(**options)
    for team in teams:
        team.create_topic(6, replicas)
        team.join(host)
        team.join(**STATIC)
    scene.settle(*teams)
    scene.read_more(*teams)
    check_commits(teams)
    return teams


@pytest.mark.design(
    "000", "Consumer 3", "Co-ordinator failover 2", "Co-ordinator failure during rebalance 1-5"
)
@pytest.mark.design("002", "Phase 1: Joining the Group")
def test_another_coordinator_continues_the_group(
    scene: Scene,
) -> None:
    """The coordinator of nine groups is stopped; three of them are at rest: nobody joins again.

    In three a new member has begun a rebalance, in three another member has done its part as well;
    one of each is stopped, so that it does not end before the coordinator does.
    """
    calm = at_rest(scene, replicas=3)
    gone = scene.coordinator_of(calm[0])
    host = scene.cluster.host()
    options = {"host": host, "coordinator": gone, "session_timeout_ms": 20_000}
    told, joined = at_rest(scene, replicas=3, **options), at_rest(scene, replicas=3, **options)
    before = seen_by(calm)
    host.stop()
    for team in told + joined:
        early = team.members[1]
        newcomer = team.join()
        team.poll_until(partial(scene.is_rebalancing, team), newcomer.consumer)
        if team in joined:
            team.poll_until(partial(has_begun, team, early), newcomer.consumer, early.consumer)
    scene.stop(gone)
    assert scene.coordinator_of(calm[0], besides=gone) != gone
    moved_s = scene.cluster.now_s()
    assert {team.committed for team in calm} == {6 * 5}
    scene.read_more(*calm)
    host.resume()
    scene.settle(*told, *joined)
    scene.read_more(*told, *joined)
    check_commits(told + joined)
    members = [member for team in told + joined for member in team.members]
    assert not [member for member in members if "lost" in member.heard]
    scene.start()
    # Longer than a session: it is the other one that the heartbeats go to.
    scene.poll_until(lambda _: scene.cluster.now_s() > moved_s + 7, *calm)
    check_commits(calm)
    assert seen_by(calm) == before
    for team in calm:
        restarted = team.members.pop().consumer
        had = restarted.assignment()
        restarted.close()
        again = team.join(**STATIC).consumer
        scene.poll_until(lambda team: team.members[1].consumer.assignment(), team)
        assert again.assignment() == had, "the other one knows who it was"
    scene.read_more(*calm)
    check_commits(calm)
    assert [team.members[0].seen for team in calm] == before[::2]


def has_begun(team: Team, member: Member) -> bool:
    """Whether it has done its part of a rebalance, and waits for the others."""
    return "revoked" in member.heard if team.protocol == "consumer" else member.awaits_others


@pytest.mark.design("000", "Co-ordinator 1, 4", "Co-ordinator failover 3")
def test_no_session_expires_without_a_coordinator(
    scene: Scene,
) -> None:
    """Two of three controllers are gone: for longer than a session nobody can take over.

    All go on fetching. Members that are gone as well are replaced when a session has passed again.
    """
    teams = at_rest(scene, replicas=1)
    coordinator = scene.coordinator_of(teams[0])
    host = scene.cluster.host()
    bereft = at_rest(scene, replicas=1, host=host, coordinator=coordinator)
    left, other = (node_id for node_id in scene.cluster.node_ids if node_id != coordinator)
    elsewhere = {team: scene.led_by(left, team) for team in teams}
    scene.kill(coordinator, other)
    host.kill()
    gone_s = scene.cluster.now_s()
    for team in bereft:
        del team.members[0]
    before = seen_by(teams + bereft)
    for _ in range(4):
        for team in teams:
            team.fill(elsewhere[team])
        scene.poll_until(lambda team: team.all_read, *teams, *bereft)
    scene.poll_until(lambda _: scene.cluster.now_s() > gone_s + 7, *teams, *bereft)
    for team in teams:
        with pytest.raises(KafkaTimeoutError):
            team.members[0].consumer.commit(timeout_ms=200)
    assert seen_by(teams + bereft) == before
    scene.start()
    scene.read_more(*teams)
    scene.settle(*bereft)
    scene.read_more(*bereft)
    check_commits(teams + bereft)
    assert seen_by(teams) == before[: 2 * len(teams)]
    assert not [team for team in bereft if "lost" in team.members[0].heard]


@pytest.mark.design("000", "Failure detection protocol 4")
@pytest.mark.design("003", "Timeout Policy")
def test_a_paused_coordinator_is_given_up(
    scene: Scene,
) -> None:
    teams = at_rest(scene, replicas=1, session_timeout_ms=45_000, request_timeout_ms=5_000)
    before = seen_by(teams)
    paused = scene.coordinator_of(teams[0])
    others = [node_id for node_id in scene.cluster.node_ids if node_id != paused]
    elsewhere = {team: [tp for n in others for tp in scene.led_by(n, team)] for team in teams}
    scene.pause(paused)
    for team in teams:
        team.fill(elsewhere[team])
        began_s = scene.cluster.now_s()
        team.go_round()
        with pytest.raises(KafkaTimeoutError):
            team.members[0].consumer.commit(timeout_ms=100)
        assert scene.cluster.now_s() - began_s < 4, "nobody waits for the coordinator"
    assert scene.coordinator_of(teams[0], besides=paused) != paused
    scene.poll_until(lambda team: team.all_read, *teams)
    check_commits(teams)  # by way of the new one
    scene.resume(paused)
    for team in teams:
        team.fill()
    scene.poll_until(lambda team: team.all_read, *teams)
    check_commits(teams)
    assert seen_by(teams) == before
