"""Outages of coordinators: the same scripts with three real and three simulated brokers.

Each script has a group of every protocol with the same coordinator, so that one outage affects all.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tandem_kafka.errors import KafkaTimeoutError
from tandem_kafka_testing.kafka import RealKafka
from tests.integration.groups.group_scenes import (
    Group,
    Member,
    Scene,
    check_commits,
    states_of,
)
from tests.integration.groups.hosts import Host
from tests.machine import slowness

pytestmark = [
    pytest.mark.timeout(400),
    pytest.mark.brokers("simulated", "real", cluster="three", count=3),
]

STATIC = {"group_instance_id": "second"}


@pytest.fixture(scope="module")
def three() -> Iterator[RealKafka]:
    # Nothing moves but because of an outage.
    with RealKafka(brokers=3, properties={"auto.leader.rebalance.enable": "false"}) as cluster:
        yield cluster


def at_rest(
    scene: Scene, *, replicas: int, host: Host | None = None, **options: Any
) -> list[Group]:
    """Groups of two members that have assigned, read and committed everything.

    The first member of each runs in the `host`, if there is one. The second is static.
    """
    groups = scene.groups(**options)
    for group in groups:
        group.create_topic(6, replicas)
        group.join(host)
        group.join(**STATIC)
    scene.settle(*groups)
    scene.read_more(*groups)
    check_commits(groups)
    return groups


@pytest.mark.design(
    "000", "Consumer 3", "Co-ordinator failover 2", "Co-ordinator failure during rebalance 1-5"
)
@pytest.mark.design("002", "Phase 1: Joining the Group")
def test_another_coordinator_continues_the_group(
    scene: Scene,
) -> None:
    """The coordinator of nine groups is stopped. In the three stable ones, no member rejoins.

    In three groups a new member has started a rebalance, in three another member has joined it too.
    One member of each is stopped, so that the rebalance does not end before the coordinator.
    """
    stable = at_rest(scene, replicas=3)
    coordinator = scene.coordinator_of(stable[0])
    host = scene.brokers.host()
    options = {"host": host, "coordinator": coordinator, "session_timeout_ms": 20_000}
    joining, joined = at_rest(scene, replicas=3, **options), at_rest(scene, replicas=3, **options)
    before = states_of(stable)
    host.stop()
    for group in joining + joined:
        rejoining = group.members[1]
        new_member = group.join()
        group.poll_until(partial(scene.is_rebalancing, group), new_member.consumer)
        if group in joined:
            group.poll_until(
                partial(has_begun, group, rejoining), new_member.consumer, rejoining.consumer
            )
    scene.stop(coordinator)
    assert scene.coordinator_of(stable[0], other_than=coordinator) != coordinator
    moved_s = scene.brokers.now_s()
    assert {group.committed for group in stable} == {6 * 5}
    scene.read_more(*stable)
    host.resume()
    scene.settle(*joining, *joined)
    scene.read_more(*joining, *joined)
    check_commits(joining + joined)
    members = [member for group in joining + joined for member in group.members]
    assert not [member for member in members if "lost" in member.rebalance_events]
    scene.start()
    # Longer than a session: heartbeats reach the new coordinator.
    scene.poll_until(lambda _: scene.brokers.now_s() > moved_s + 7, *stable)
    check_commits(stable)
    assert states_of(stable) == before
    for group in stable:
        restarted = group.members.pop().consumer
        former_assignment = restarted.assignment()
        restarted.close()
        again = group.join(**STATIC).consumer
        scene.poll_until(lambda group: group.members[1].consumer.assignment(), group)
        assert again.assignment() == former_assignment, (
            "the new coordinator knows the static member"
        )
    scene.read_more(*stable)
    check_commits(stable)
    assert [group.members[0].state for group in stable] == before[::2]


def has_begun(group: Group, member: Member) -> bool:
    """Return whether it has joined a rebalance and waits for the other members."""
    return (
        "revoked" in member.rebalance_events
        if group.protocol == "consumer"
        else member.join_or_sync_in_flight
    )


@pytest.mark.design("000", "Co-ordinator 1, 4", "Co-ordinator failover 3")
def test_no_session_expires_without_a_coordinator(
    scene: Scene,
) -> None:
    """Two of three controllers are down, so no coordinator is elected for longer than a session.

    All members continue to fetch. Killed members are replaced one session after the election.
    """
    groups = at_rest(scene, replicas=1)
    coordinator = scene.coordinator_of(groups[0])
    host = scene.brokers.host()
    orphaned = at_rest(scene, replicas=1, host=host, coordinator=coordinator)
    survivor, other = (node_id for node_id in scene.brokers.node_ids if node_id != coordinator)
    led_by_others = {group: scene.partitions_led_by(survivor, group) for group in groups}
    scene.kill(coordinator, other)
    host.kill()
    killed_s = scene.brokers.now_s()
    for group in orphaned:
        del group.members[0]
    before = states_of(groups + orphaned)
    for _ in range(4):
        for group in groups:
            group.fill(led_by_others[group])
        scene.poll_until(lambda group: group.all_read, *groups, *orphaned)
    scene.poll_until(lambda _: scene.brokers.now_s() > killed_s + 7, *groups, *orphaned)
    for group in groups:
        with pytest.raises(KafkaTimeoutError):
            group.members[0].consumer.commit(timeout_ms=200)
    assert states_of(groups + orphaned) == before
    scene.start()
    scene.read_more(*groups)
    scene.settle(*orphaned)
    scene.read_more(*orphaned)
    check_commits(groups + orphaned)
    assert states_of(groups) == before[: 2 * len(groups)]
    assert not [group for group in orphaned if "lost" in group.members[0].rebalance_events]


@pytest.mark.design("000", "Failure detection protocol 4")
@pytest.mark.design("003", "Timeout Policy")
def test_a_paused_coordinator_is_given_up(
    scene: Scene,
) -> None:
    groups = at_rest(scene, replicas=1, session_timeout_ms=45_000, request_timeout_ms=5_000)
    before = states_of(groups)
    paused = scene.coordinator_of(groups[0])
    others = [node_id for node_id in scene.brokers.node_ids if node_id != paused]
    led_by_others = {
        group: [tp for n in others for tp in scene.partitions_led_by(n, group)] for group in groups
    }
    scene.pause(paused)
    for group in groups:
        group.fill(led_by_others[group])
        began_s = scene.brokers.now_s()
        group.poll_each()
        with pytest.raises(KafkaTimeoutError):
            group.members[0].consumer.commit(timeout_ms=100)
        took_s = scene.brokers.now_s() - began_s
        assert took_s < 4 * slowness(), "no member waits for the coordinator"
    assert scene.coordinator_of(groups[0], other_than=paused) != paused
    scene.poll_until(lambda group: group.all_read, *groups)
    check_commits(groups)  # by way of the new one
    scene.resume(paused)
    for group in groups:
        group.fill()
    scene.poll_until(lambda group: group.all_read, *groups)
    check_commits(groups)
    assert states_of(groups) == before
