"""JoinGroup of classic groups: immediate responses, rebalances, the initial delay."""

from __future__ import annotations

import pytest
from kafka import errors

from packages.testing.tests.driven import Driven, assignment_of, subscription
from tandem_kafka_testing.coordinator.classic_group_member import ClassicGroupState
from tandem_kafka_testing.coordinator.requests import JoinGroup, LeaveGroup


def syncing(driven: Driven) -> tuple[str, str]:
    """Let a leader and a follower join, without SyncGroup; returns their ids."""
    leader = driven.alone(0, 1, 2, 3)
    new_member = driven.join("", instance_id="two")
    driven.join(leader)
    return leader, str(driven.results[new_member].member_id)


def stable(driven: Driven) -> tuple[str, str]:
    """Let a leader and a follower join and sync; returns their ids."""
    leader, follower = syncing(driven)
    driven.sync(leader, 2, **{leader: assignment_of(0, 1), follower: assignment_of(2, 3)})
    return leader, follower


def is_parked(driven: Driven, request: JoinGroup) -> bool:
    return request not in driven.results


def test_an_unchanged_leader_gets_a_response_at_once_while_syncing() -> None:
    driven = Driven()
    leader, follower = syncing(driven)
    waiting = driven.sync(follower, 2)
    again = driven.results[driven.join(leader)]
    assert (again.generation, again.leader, len(again.members)) == (2, leader, 2)
    assert driven.results[driven.join(follower, instance_id="two")].generation == 2
    assert waiting not in driven.results, "the delay continues"
    driven.sync(leader, 2, **{follower: assignment_of(1)})
    assert driven.results[waiting].assignment == assignment_of(1)


def test_a_repeated_join_response_does_not_extend_the_session() -> None:
    driven = Driven()
    _, follower = stable(driven)
    driven.sleep(9_000)
    assert not is_parked(driven, driven.join(follower, instance_id="two"))
    driven.sleep(1_000)
    assert follower not in driven.coordinator.classic.members


def test_a_rejoining_member_keeps_its_assignment() -> None:
    """An upgrade during the rebalance uses this assignment."""
    driven = Driven()
    leader, follower = stable(driven)
    driven.join(leader)
    members = driven.coordinator.classic.members
    assert members[leader].assignment == assignment_of(0, 1)
    driven.join(follower, instance_id="two")
    driven.join(leader, subscription(topics=["more"]))
    assert members[leader].assignment == b"", "the assignment that was awaited does not come"


def test_the_first_member_needs_a_protocol_type_and_a_protocol() -> None:
    driven = Driven()
    for fields in ({"protocol_type": ""}, {"protocols": {}}):
        refused = driven.join("", **fields)
        assert driven.results[refused].error is errors.InconsistentGroupProtocolError


# --- the initial rebalance delay -----------------------------------------------------------------


def delayed(delay_ms: int = 3_000) -> Driven:
    return Driven(initial_rebalance_delay_ms=delay_ms)


def test_each_new_member_extends_the_initial_delay() -> None:
    driven = delayed()
    first = driven.join("")
    driven.sleep(2_000)
    second = driven.join("")
    driven.sleep(2_000)
    third = driven.join("")
    driven.sleep(4_999)
    assert is_parked(driven, first), "6 s because of the second, 9 s because of the third"
    driven.sleep(1)
    assert {driven.results[each].generation for each in (first, second, third)} == {1}


def test_the_initial_delay_ends_with_the_rebalance_timeout_of_the_first_member() -> None:
    driven = delayed()
    first = driven.join("", rebalance_ms=7_000)
    for _ in range(6):
        driven.sleep(1_000)
        assert is_parked(driven, driven.join("", rebalance_ms=60_000))
    driven.sleep(999)
    assert is_parked(driven, first)
    driven.sleep(1)
    assert driven.results[first].generation == 1
    assert len(driven.results[first].members) == 7


def test_a_short_rebalance_timeout_does_not_shorten_the_initial_delay() -> None:
    driven = delayed()
    first = driven.join("", rebalance_ms=1_000)
    driven.sleep(1_000)
    driven.join("", rebalance_ms=1_000)
    driven.sleep(1_999)
    assert is_parked(driven, first)
    driven.sleep(1)
    assert len(driven.results[first].members) == 2


def test_a_repeated_join_does_not_extend_the_initial_delay() -> None:
    driven = delayed()
    first = driven.join("", new_id="one")
    driven.sleep(2_000)
    again = driven.join("one")
    assert is_parked(driven, again)
    driven.sleep(1_000)
    assert driven.results[again].generation == 1
    assert is_parked(driven, first), "its connection is gone: only the newer request counts"


def test_a_returning_static_member_does_not_extend_the_initial_delay() -> None:
    driven = delayed()
    first = driven.join("", instance_id="one")
    driven.sleep(2_000)
    again = driven.join("", instance_id="one")
    assert driven.results[first].error is errors.FencedInstanceIdError
    driven.sleep(1_000)
    assert driven.results[again].generation == 1


def test_a_leaving_member_does_not_end_the_initial_delay() -> None:
    driven = delayed()
    first, second = driven.join("", new_id="one"), driven.join("", new_id="two")
    assert driven.ask(LeaveGroup(member_id="two")) is None
    assert driven.results[second].error is errors.UnknownMemberIdError
    driven.sleep(5_999)
    assert is_parked(driven, first)
    driven.sleep(1)
    assert driven.results[first].generation == 1


def test_the_initial_delay_continues_without_members() -> None:
    driven = delayed()
    driven.join("", new_id="one")
    driven.sleep(1_000)
    assert driven.ask(LeaveGroup(member_id="one")) is None
    assert driven.coordinator.classic.state is ClassicGroupState.JOINING
    driven.sleep(1_000)
    second = driven.join("")
    driven.sleep(3_999)
    assert is_parked(driven, second), "one has come meanwhile"
    driven.sleep(1)
    assert driven.results[second].generation == 1


def test_a_group_without_members_after_the_initial_delay_is_empty() -> None:
    driven = delayed()
    driven.join("", new_id="one")
    assert driven.ask(LeaveGroup(member_id="one")) is None
    driven.sleep(3_000)
    group = driven.coordinator.classic
    assert (group.state, group.generation) == (ClassicGroupState.EMPTY, 1)


def test_an_expired_member_may_end_the_initial_delay() -> None:
    """All remaining members have joined, and no given id is pending."""
    driven = delayed()
    first = driven.join("")
    driven.join("", needs_id=True, session_ms=6_000)
    for _ in range(3):
        driven.sleep(2_000 - 1)
        driven.join("")
    assert is_parked(driven, first)
    driven.sleep(3)
    assert driven.results[first].generation == 1


def test_a_group_with_members_has_no_initial_delay() -> None:
    driven = delayed()
    first = driven.join("")
    driven.sleep(3_000)
    leader = driven.results[first].member_id
    new_member = driven.join("")
    driven.join(leader)
    assert driven.results[new_member].generation == 2


def test_parked_joins_are_lost_in_a_failover() -> None:
    driven = delayed()
    first = driven.join("")
    driven.fail_over()
    again = driven.join("")
    assert is_parked(driven, first)
    driven.sleep(3_000)
    assert len(driven.results[again].members) == 1


def test_a_kip_848_member_ends_the_initial_delay() -> None:
    driven = delayed()
    first = driven.join("", new_id="one")
    assert driven.beat("two", 0).error is None
    assert driven.results[first].error is errors.RebalanceInProgressError
    driven.sleep(3_000)
    assert not driven.coordinator.classic.members


def test_a_negative_initial_delay_is_rejected() -> None:
    with pytest.raises(ValueError, match="initial_rebalance_delay_ms=-1: must be 0 or more"):
        delayed(-1)
