"""The same scripts with real and simulated members that are stopped, killed, replaced, upgraded.

Most scripts have a group of every protocol, so that they wait once for all.
"""

from __future__ import annotations

import pytest
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

from tandem_kafka.errors import CommitFailedError
from tandem_kafka.wire.messages import JoinGroupRequest
from tests.integration.group_members import SESSION_TIMEOUT_MS, rebalance_calls
from tests.integration.groups.group_scenes import Group, Scene, check_commits, states_of
from tests.integration.joining import RawClassicMember, name_of
from tests.integration.watching import Sent

pytestmark = [
    pytest.mark.timeout(400),
    pytest.mark.brokers("simulated", "real"),
]

#: Without commits on the interval.
BY_ITSELF = {"enable_auto_commit": True, "auto_commit_interval_ms": 600_000}


# --- 000 "Failure detection protocol", "Slow consumers" ------------------------------------------


@pytest.mark.design(
    "000",
    "Failure detection protocol 3",
    "Offset commits during rebalance 3",
    "Offset commits during rebalance 4",
    "Slow consumers 1, 2, 5",
    "Slow consumers 4",
    "Slow consumers 7, consumer failures",
)
def test_a_silent_member_is_removed_and_rejoins(
    scene: Scene,
) -> None:
    """Of three members one is stopped and one is killed; then a new member begins a rebalance."""
    slow, killed = scene.brokers.host(), scene.brokers.host()
    groups = scene.groups(session_timeout_ms=15_000)
    for group in groups:
        group.create_topic(6)
        for host in (None, slow, killed):
            group.join(host)
    scene.settle(*groups)
    scene.read_more(*groups)
    check_commits(groups)
    slow.stop()
    killed.kill()
    silent = {group: group.members[1] for group in groups}
    before = {group: len(silent[group].rebalance_events) for group in groups}
    for group in groups:
        del group.members[1:]
    new_members_join(scene, groups)
    scene.read_more(*groups)
    check_commits(groups)
    slow.resume()
    for group in groups:
        with pytest.raises(CommitFailedError):
            silent[group].consumer.commit()
        group.members.append(silent[group])
    scene.settle(*groups)
    scene.read_more(*groups)
    check_commits(groups)
    for group in groups:
        assert silent[group].rebalance_events[before[group] :][:2] == ["lost", "assigned"], group
        assert silent[group].rebalance_events.count("lost") == 1
        assert "lost" not in group.members[0].rebalance_events + group.members[1].rebalance_events


def new_members_join(scene: Scene, groups: list[Group]) -> None:
    """000 slow consumers 7: a rebalance completes only when the sessions of silent members end.

    The new member of a classic group abandons its JoinGroup before, and sends it again.
    """
    joins = {}
    for group in groups:
        new_member = group.add_member(max_poll_interval_ms=4_000, request_timeout_ms=5_000)
        joins[group] = Sent(new_member.consumer)
        new_member.consumer.subscribe([group.partitions[0].topic], listener=new_member.listener)
    classic = [group for group in groups if group.protocol != "consumer"]
    scene.poll_until(
        lambda group: group not in classic or len(joins[group].of(JoinGroupRequest)) >= 3, *groups
    )
    for group in classic:
        assert not group.members[1].consumer.assignment(), "the sessions are not over"
    scene.settle(*groups)
    for group in classic:
        _, *named = (request.member_id for request in joins[group].of(JoinGroupRequest))
        assert {*named} == {group.members[1].membership[0]}, "it is the same one"


@pytest.mark.design("000", "Slow consumers 3")
def test_a_pause_shorter_than_the_session_timeout_causes_no_rebalance(scene: Scene) -> None:
    host = scene.brokers.host()
    groups = scene.groups(session_timeout_ms=10_000)
    for group in groups:
        group.create_topic(4)
        group.join()
        group.join(host)
    scene.settle(*groups)
    before = states_of(groups)
    host.stop()
    stopped_s = scene.brokers.now_s()
    scene.wait_until(lambda: scene.brokers.now_s() > stopped_s + 2)  # several heartbeats are due
    host.resume()
    scene.read_more(*groups)
    check_commits(groups)
    assert states_of(groups) == before


# --- 000 "Offset commits during rebalance", "Wildcard Subscription"; 003 "Assign", "Subscribe" ----


@pytest.mark.design("000", "Offset commits during rebalance 1")
def test_positions_are_committed_before_partitions_move(scene: Scene) -> None:
    groups = scene.groups(**BY_ITSELF)
    for group in groups:
        group.create_topic(4)
        group.join()
        group.fill()
    scene.settle(*groups)
    for group in groups:
        assert group.committed == 0
        group.join()
    scene.settle(*groups)
    for group in groups:
        moved = group.members[1].consumer.assignment()
        offsets = {tp: group.members[1].consumer.committed(tp) for tp in moved}
        assert offsets == dict.fromkeys(moved, 5), group
        group.fill()
    scene.settle(*groups)
    check_commits(groups)


@pytest.mark.design("000", "Wildcard Subscription")
def test_only_topics_that_match_the_pattern_are_found(scene: Scene) -> None:
    groups = scene.groups()
    for group in groups:
        group.create_topic(2)
        for _ in range(2):
            member = group.add_member(metadata_max_age_ms=300)
            # With KIP-848, the coordinator matches the pattern, up to ten seconds later.
            pattern = f"^{group.name}-orders"
            member.consumer.subscribe(pattern=pattern, listener=member.listener)
    scene.settle(*groups)
    for group in groups:
        group.brokers.create_topic(f"{group.name}-payments", 2)
        group.create_topic(2, suffix="orders-abroad")
        group.fill()
    scene.settle(*groups)
    for group in groups:
        assert all(len(member.consumer.assignment()) == 2 for member in group.members), group


@pytest.mark.design("003", "Assign, Subscribe")
def test_unsubscribing_and_assigning_nothing_revoke_and_leave(scene: Scene) -> None:
    groups = scene.groups(**BY_ITSELF)
    for group in groups:
        group.create_topic(6)
        for _ in range(3):
            group.join()
    scene.settle(*groups)
    scene.read_more(*groups)
    for group in groups:
        for arguments in ((), ([],)):
            member = group.members.pop()
            membership, former_assignment = member.membership, member.consumer.assignment()
            leave = member.consumer.assign if arguments else member.consumer.unsubscribe
            leave(*arguments)
            assert rebalance_calls(member.listener)[-1] == ("revoked", former_assignment)
            assert (member.consumer.assignment(), member.consumer.subscription()) == (set(), None)
            assert scene.heartbeat_as(group, membership) == "UnknownMemberIdError", "it has left"
            assert {member.consumer.committed(tp) for tp in former_assignment} == {5}
            scene.settle(group)


# --- 002 "Phase 2: Synchronizing Group State", "Rolling Upgrades (Consumer)" ----------------------


@pytest.mark.design("002", "Phase 2, case 3")
def test_a_follower_that_does_not_sync_is_removed_and_the_group_rejoins(
    scene: Scene,
) -> None:
    """One member is killed with its JoinGroup in flight, one never sends SyncGroup.

    The rebalance completes with them. When their sessions end, another one excludes them.
    """
    options = {"partition_assignment_strategy": [RangePartitionAssignor]}
    abandoned, misled = scene.groups("eager", "eager", **options)
    host = scene.brokers.host()
    abandoned.create_topic(6)
    late, killed = abandoned.join(), abandoned.join(host)
    scene.settle(abandoned)
    generation = late.membership[1]
    new_member = abandoned.join()
    abandoned.poll_until(
        lambda: killed.join_or_sync_in_flight, killed.consumer, new_member.consumer
    )
    # A request is in flight a moment before it is sent. A later one is answered after that.
    killed.consumer.end_offsets(abandoned.partitions)
    host.kill()
    abandoned.members.remove(killed)

    misled.create_topic(4)
    leader = misled.join()
    scene.settle(misled)
    follower = follower_of(scene, misled)
    scene.poll_until(lambda _: len(leader.consumer.assignment()) == 2, misled)
    joined = follower.receive_join()
    assert (joined.generation_id, joined.leader) == leader.membership[::-1]

    scene.poll_until(lambda _: len(new_member.consumer.assignment()) == 2, abandoned)
    assert late.membership[1] == new_member.membership[1] == generation + 1
    scene.settle(abandoned, misled)
    assert late.membership[1] == new_member.membership[1] == generation + 2
    assert leader.membership[1] == joined.generation_id + 1
    assert follower.beat(joined.generation_id) == "UnknownMemberIdError"
    assert leader.rebalance_events == ["assigned", "revoked", "assigned", "revoked", "assigned"]


def follower_of(scene: Scene, group: Group) -> RawClassicMember:
    """A raw member with a JoinGroup in flight; its response waits for the other members."""
    follower = RawClassicMember(scene.brokers.connect(scene.coordinator_of(group)), group.name)
    subscription = ConsumerProtocolSubscription(topics=[group.partitions[0].topic], user_data=b"")
    follower.protocols = {"range": subscription.encode(version=0)}
    follower.session_ms = SESSION_TIMEOUT_MS
    follower.send_join()
    assert name_of(follower.receive_join().error_code) == "MemberIdRequiredError"
    follower.send_join()
    return follower


OLD, NEW = RoundRobinPartitionAssignor, RangePartitionAssignor


def chosen_broker(group: Group) -> str:
    """Which of the two has assigned six partitions to three members."""
    numbers = [
        frozenset(tp.partition for tp in member.consumer.assignment()) for member in group.members
    ]
    ways = {
        frozenset(map(frozenset, ({0, 3}, {1, 4}, {2, 5}))): OLD.name,
        frozenset(map(frozenset, ({0, 1}, {2, 3}, {4, 5}))): NEW.name,
    }
    return ways[frozenset(numbers)]


@pytest.mark.design("002", "Rolling Upgrades (Consumer), phases 1-4")
def test_strategies_change_in_a_rolling_upgrade(scene: Scene) -> None:
    (group,) = scene.groups("eager")
    group.create_topic(6)
    for _ in range(3):
        group.join(partition_assignment_strategy=[OLD])
    scene.settle(group)
    phases = [chosen_broker(group)]
    for _ in range(3):
        scene.read_more(group)
        for member in group.members:
            member.consumer.commit()
        group.members.pop(0).consumer.close()
        group.join(partition_assignment_strategy=[NEW, OLD])
        scene.settle(group)
        phases.append(chosen_broker(group))
    assert phases == ["roundrobin", "roundrobin", "roundrobin", "range"]
    check_commits([group])
