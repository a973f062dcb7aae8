"""Rebalances of classic groups: whom they wait for, exact to the millisecond.

`tests/integration/coordinator/test_coordinator_rounds.py` does the same with a real coordinator,
less exactly.
"""

from __future__ import annotations

import pytest
from kafka import errors

from packages.testing.tests.driven import Driven, assignment_of
from tandem_kafka_testing.coordinator.classic import NEW_MEMBER_MS
from tandem_kafka_testing.coordinator.classic_group_member import ClassicGroupState
from tandem_kafka_testing.coordinator.requests import Expel
from tandem_kafka_testing.coordinator.step import Timer

SESSION_MS = 10_000
REBALANCE_MS = 60_000


def pair(driven: Driven, **follower: str) -> tuple[str, str]:
    """Make a leader and a follower in generation 2; returns their ids."""
    leader = driven.alone(0, 1, 2, 3)
    new_member = driven.join("", **follower)
    driven.join(leader)
    driven.sync(leader, 2)
    member_id = str(driven.results[new_member].member_id)
    driven.sync(member_id, 2)
    return leader, member_id


def beat_for(driven: Driven, duration_ms: int, generation: int, *member_ids: str) -> None:
    """Let time pass while members send heartbeats, up to a millisecond before its end."""
    for _ in range(duration_ms // 5_000 - 1):
        driven.sleep(5_000)
        for member_id in member_ids:
            driven.heartbeat(member_id, generation)
    driven.sleep(4_999)


def test_a_static_member_that_does_not_join_in_time_is_in_the_next_generation() -> None:
    driven = Driven()
    leader, static = pair(driven, instance_id="two")
    waiting = driven.join(leader)
    beat_for(driven, REBALANCE_MS, 2, static)
    driven.heartbeat(static, 2)
    assert waiting not in driven.results
    driven.sleep(1)
    assert [name for name, *_ in driven.results[waiting].members] == [leader, static]
    members = driven.coordinator.classic.members
    assert [members[each].left_out_of for each in (leader, static)] == [0, 3]
    joined = driven.now_ms
    driven.sync(leader, 3)
    driven.sleep(SESSION_MS - 1)
    assert static in driven.coordinator.classic.members
    driven.heartbeat(leader, 3)
    driven.sleep(1)
    assert static not in driven.coordinator.classic.members, "its session began with the generation"
    assert driven.now_ms == joined + SESSION_MS


def end_patience(driven: Driven) -> None:
    """Let the rebalance timeout be over before any session timeout."""
    rounds = driven.coordinator.classic.rounds
    driven.coordinator.expire(Timer(driven.now_ms, "join", number=rounds), driven.now_ms)


def left_out(driven: Driven) -> tuple[str, str]:
    """Make a leader in generation 3 and a static member that knows only generation 2."""
    leader, static = pair(driven, instance_id="two")
    driven.join(leader)
    end_patience(driven)
    driven.sync(leader, 3, **{leader: assignment_of(0), static: assignment_of(1)})
    return leader, static


@pytest.mark.parametrize("removal", ["expelled", "replaced", "not removed"])
def test_a_removed_member_that_the_next_coordinator_reads_from_the_log_is_still_left_out(
    removal: str,
) -> None:
    driven = Driven()
    leader, static = left_out(driven)
    if removal == "expelled":
        driven.ask(Expel(member_id=static))
    elif removal == "replaced":
        driven.join(leader)  # in a rebalance, the new id is not written at once
        driven.join("", instance_id="two")
    group = driven.coordinator.classic
    assert (static in group.members) == (removal == "not removed")
    driven.coordinator.take_over(driven.now_ms)
    known = group.members[static]
    assert known.assignment == assignment_of(1)
    assert known.last_assignment == b"", "it was told nothing of generation 3"
    assert (known.left_out_of, group.generation) == (3, 3)


def test_a_member_left_out_of_a_lost_generation_and_of_the_one_before_is_still_left_out() -> None:
    driven = Driven()
    leader, static = left_out(driven)
    driven.join(leader)
    end_patience(driven)
    assert driven.coordinator.classic.generation == 4
    driven.coordinator.take_over(driven.now_ms)
    group = driven.coordinator.classic
    assert (group.members[static].left_out_of, group.generation) == (3, 3)


def test_a_member_that_synced_in_time_stays() -> None:
    driven = Driven()
    leader, follower = pair(driven)
    beat_for(driven, REBALANCE_MS + 10_000, 2, leader, follower)
    assert driven.heartbeat(leader, 2) is None


def test_a_member_that_waits_for_its_assignment_does_not_expire() -> None:
    driven = Driven()
    leader, follower = pair(driven)
    driven.join(leader)
    driven.join(follower)
    waiting = driven.sync(follower, 3)
    beat_for(driven, 2 * SESSION_MS, 3, leader)
    driven.sync(leader, 3, **{follower: assignment_of(1)})
    assert driven.results[waiting].assignment == assignment_of(1)
    driven.sleep(SESSION_MS - 1)
    assert driven.heartbeat(follower, 3) is None, "its session began with the answer"


def test_a_late_sync_does_not_extend_the_session() -> None:
    driven = Driven()
    leader, follower = pair(driven)
    driven.sleep(SESSION_MS - 1)
    driven.heartbeat(leader, 2)
    assert driven.results[driven.sync(follower, 2)].error is None
    driven.sleep(1)
    assert follower not in driven.coordinator.classic.members


def test_a_commit_extends_the_session() -> None:
    driven = Driven()
    _, follower = pair(driven)
    driven.sleep(SESSION_MS - 1)
    assert driven.commit(follower, 2, p0=1) is None
    driven.sleep(SESSION_MS - 1)
    assert driven.commit(follower, 2, producer_id=1, p0=1) is None, "a producer's does not"
    driven.sleep(1)
    assert follower not in driven.coordinator.classic.members


def test_a_new_member_with_a_parked_join_expires_in_the_end() -> None:
    """It may be gone: it sends no heartbeats before its first response."""
    driven = Driven()
    leader = driven.alone(0)
    long_ms = 2 * NEW_MEMBER_MS
    driven.join(leader, rebalance_ms=long_ms)
    driven.sync(leader, 2)
    new_member = driven.join("", rebalance_ms=long_ms)
    for _ in range(NEW_MEMBER_MS // 5_000):
        assert new_member not in driven.results
        driven.heartbeat(leader, 2)
        driven.sleep(5_000)
    assert driven.results[new_member].error is errors.UnknownMemberIdError
    assert driven.coordinator.classic.state is ClassicGroupState.JOINING
