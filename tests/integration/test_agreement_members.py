"""The same scripts with real and simulated members that are stopped, killed, replaced, upgraded.

Most scripts have a group of every protocol, so that they wait once for all. Scenarios are named by
document and section. `--broker=real` or `--broker=simulated` runs one world.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

from tandem_kafka.errors import CommitFailedError
from tandem_kafka.wire.messages import JoinGroupRequest
from tests.integration.group_members import SESSION_TIMEOUT_MS, told
from tests.integration.joining import RawClassicMember, name_of
from tests.integration.teams import Scene, Team, check_commits, scene_of, seen_by
from tests.integration.watching import Sent

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

#: No commit but where the consumer has to make one.
BY_ITSELF = {"enable_auto_commit": True, "auto_commit_interval_ms": 600_000}


@pytest.fixture(params=["simulated", "real"])
def scene(request: pytest.FixtureRequest) -> Iterator[Scene]:
    yield from scene_of(request, "kafka")


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
    slow, doomed = scene.cluster.host(), scene.cluster.host()
    teams = scene.teams(session_timeout_ms=15_000)
    for team in teams:
        team.create_topic(6)
        for host in (None, slow, doomed):
            team.join(host)
    scene.settle(*teams)
    scene.read_more(*teams)
    check_commits(teams)
    slow.stop()
    doomed.kill()
    silent = {team: team.members[1] for team in teams}
    before = {team: len(silent[team].heard) for team in teams}
    for team in teams:
        del team.members[1:]
    newcomers_join(scene, teams)
    scene.read_more(*teams)
    check_commits(teams)
    slow.resume()
    for team in teams:
        with pytest.raises(CommitFailedError):
            silent[team].consumer.commit()
        team.members.append(silent[team])
    scene.settle(*teams)
    scene.read_more(*teams)
    check_commits(teams)
    for team in teams:
        assert silent[team].heard[before[team] :][:2] == ["lost", "assigned"], team
        assert silent[team].heard.count("lost") == 1
        assert "lost" not in team.members[0].heard + team.members[1].heard


def newcomers_join(scene: Scene, teams: list[Team]) -> None:
    """000 slow consumers 7: a round takes long, as sessions have to end before it is complete.

    The new member of a classic group abandons its JoinGroup before that, and sends it again.
    """
    joins = {}
    for team in teams:
        newcomer = team.newcomer(max_poll_interval_ms=4_000, request_timeout_ms=5_000)
        joins[team] = Sent(newcomer.consumer)
        newcomer.consumer.subscribe([team.partitions[0].topic], listener=newcomer.listener)
    classic = [team for team in teams if team.protocol != "consumer"]
    scene.poll_until(
        lambda team: team not in classic or len(joins[team].of(JoinGroupRequest)) >= 3, *teams
    )
    for team in classic:
        assert not team.members[1].consumer.assignment(), "the sessions are not over"
    scene.settle(*teams)
    for team in classic:
        _, *named = (request.member_id for request in joins[team].of(JoinGroupRequest))
        assert {*named} == {team.members[1].membership[0]}, "it is the same one"


@pytest.mark.design("000", "Slow consumers 3")
def test_a_pause_shorter_than_the_session_timeout_causes_no_rebalance(scene: Scene) -> None:
    host = scene.cluster.host()
    teams = scene.teams(session_timeout_ms=10_000)
    for team in teams:
        team.create_topic(4)
        team.join()
        team.join(host)
    scene.settle(*teams)
    before = seen_by(teams)
    host.stop()
    stopped_s = scene.cluster.now_s()
    scene.wait_until(lambda: scene.cluster.now_s() > stopped_s + 2)  # several heartbeats are due
    host.resume()
    scene.read_more(*teams)
    check_commits(teams)
    assert seen_by(teams) == before


# --- 000 "Offset commits during rebalance", "Wildcard Subscription"; 003 "Assign", "Subscribe" ----


@pytest.mark.design("000", "Offset commits during rebalance 1")
def test_positions_are_committed_before_partitions_move(scene: Scene) -> None:
    teams = scene.teams(**BY_ITSELF)
    for team in teams:
        team.create_topic(4)
        team.join()
        team.fill()
    scene.settle(*teams)
    for team in teams:
        assert team.committed == 0
        team.join()
    scene.settle(*teams)
    for team in teams:
        moved = team.members[1].consumer.assignment()
        offsets = {tp: team.members[1].consumer.committed(tp) for tp in moved}
        assert offsets == dict.fromkeys(moved, 5), team
        team.fill()
    scene.settle(*teams)
    check_commits(teams)


@pytest.mark.design("000", "Wildcard Subscription")
def test_only_topics_that_match_the_pattern_are_found(scene: Scene) -> None:
    teams = scene.teams()
    for team in teams:
        team.create_topic(2)
        for _ in range(2):
            member = team.newcomer(metadata_max_age_ms=300)
            # Whose coordinator resolves an expression (KIP-848) may take ten seconds more.
            pattern = f"^{team.name}-orders"
            member.consumer.subscribe(pattern=pattern, listener=member.listener)
    scene.settle(*teams)
    for team in teams:
        team.cluster.create_topic(f"{team.name}-payments", 2)
        team.create_topic(2, suffix="orders-abroad")
        team.fill()
    scene.settle(*teams)
    for team in teams:
        assert all(len(member.consumer.assignment()) == 2 for member in team.members), team


@pytest.mark.design("003", "Assign, Subscribe")
def test_unsubscribing_and_assigning_nothing_revoke_and_leave(scene: Scene) -> None:
    teams = scene.teams(**BY_ITSELF)
    for team in teams:
        team.create_topic(6)
        for _ in range(3):
            team.join()
    scene.settle(*teams)
    scene.read_more(*teams)
    for team in teams:
        for arguments in ((), ([],)):
            member = team.members.pop()
            membership, had = member.membership, member.consumer.assignment()
            leave = member.consumer.assign if arguments else member.consumer.unsubscribe
            leave(*arguments)
            assert told(member.listener)[-1] == ("revoked", had)
            assert (member.consumer.assignment(), member.consumer.subscription()) == (set(), None)
            assert scene.beat_as(team, membership) == "UnknownMemberIdError", "it has left"
            assert {member.consumer.committed(tp) for tp in had} == {5}
            scene.settle(team)


# --- 002 "Phase 2: Synchronizing Group State", "Rolling Upgrades (Consumer)" ----------------------


@pytest.mark.design("002", "Phase 2, case 3")
def test_a_follower_that_does_not_sync_is_removed_and_the_group_rejoins(
    scene: Scene,
) -> None:
    """One is killed while it waits for the answer to its JoinGroup, one never meant to sync.

    The round is complete with them; when their sessions are over, there is one without them.
    """
    options = {"partition_assignment_strategy": [RangePartitionAssignor]}
    bereft, misled = scene.teams("eager", "eager", **options)
    host = scene.cluster.host()
    bereft.create_topic(6)
    late, doomed = bereft.join(), bereft.join(host)
    scene.settle(bereft)
    generation = late.membership[1]
    newcomer = bereft.join()
    bereft.poll_until(lambda: doomed.awaits_others, doomed.consumer, newcomer.consumer)
    host.kill()
    bereft.members.remove(doomed)

    misled.create_topic(4)
    leader = misled.join()
    scene.settle(misled)
    follower = follower_of(scene, misled)
    scene.poll_until(lambda _: len(leader.consumer.assignment()) == 2, misled)
    joined = follower.joined()
    assert (joined.generation_id, joined.leader) == leader.membership[::-1]

    scene.poll_until(lambda _: len(newcomer.consumer.assignment()) == 2, bereft)
    assert late.membership[1] == newcomer.membership[1] == generation + 1
    scene.settle(bereft, misled)
    assert late.membership[1] == newcomer.membership[1] == generation + 2
    assert leader.membership[1] == joined.generation_id + 1
    assert follower.beat(joined.generation_id) == "UnknownMemberIdError"
    assert leader.heard == ["assigned", "revoked", "assigned", "revoked", "assigned"]


def follower_of(scene: Scene, team: Team) -> RawClassicMember:
    """A member that is nothing but its JoinGroup; the answer waits for the others."""
    follower = RawClassicMember(scene.cluster.line(scene.coordinator_of(team)), team.name)
    subscription = ConsumerProtocolSubscription(topics=[team.partitions[0].topic], user_data=b"")
    follower.protocols = {"range": subscription.encode(version=0)}
    follower.session_ms = SESSION_TIMEOUT_MS
    follower.ask_to_join()
    assert name_of(follower.joined().error_code) == "MemberIdRequiredError"
    follower.ask_to_join()
    return follower


OLD, NEW = RoundRobinPartitionAssignor, RangePartitionAssignor


def chosen(team: Team) -> str:
    """Which of the two has assigned six partitions to three members."""
    numbers = [
        frozenset(tp.partition for tp in member.consumer.assignment()) for member in team.members
    ]
    ways = {
        frozenset(map(frozenset, ({0, 3}, {1, 4}, {2, 5}))): OLD.name,
        frozenset(map(frozenset, ({0, 1}, {2, 3}, {4, 5}))): NEW.name,
    }
    return ways[frozenset(numbers)]


@pytest.mark.design("002", "Rolling Upgrades (Consumer), phases 1-4")
def test_strategies_change_in_a_rolling_upgrade(scene: Scene) -> None:
    (team,) = scene.teams("eager")
    team.create_topic(6)
    for _ in range(3):
        team.join(partition_assignment_strategy=[OLD])
    scene.settle(team)
    phases = [chosen(team)]
    for _ in range(3):
        scene.read_more(team)
        for member in team.members:
            member.consumer.commit()
        team.members.pop(0).consumer.close()
        team.join(partition_assignment_strategy=[NEW, OLD])
        scene.settle(team)
        phases.append(chosen(team))
    assert phases == ["roundrobin", "roundrobin", "roundrobin", "range"]
    check_commits([team])
