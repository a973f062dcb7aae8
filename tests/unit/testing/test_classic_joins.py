"""JoinGroup of classic groups: who is answered at once, and who makes all others join again."""

from __future__ import annotations

import pytest
from kafka import errors

from tandem_kafka.testing.coordinator.classic_group_member import GroupState
from tandem_kafka.testing.coordinator.requests import JoinGroup, LeaveGroup
from tests.unit.testing.driven import Driven, assignment_of, subscription


def syncing(driven: Driven) -> tuple[str, str]:
    """A leader and a follower that both have joined, and not more; returns their ids."""
    leader = driven.alone(0, 1, 2, 3)
    newcomer = driven.join("", instance_id="two")
    driven.join(leader)
    return leader, str(driven.answers[newcomer].member_id)


def stable(driven: Driven) -> tuple[str, str]:
    """A leader and a follower that have their assignments; returns their ids."""
    leader, follower = syncing(driven)
    driven.sync(leader, 2, **{leader: assignment_of(0, 1), follower: assignment_of(2, 3)})
    return leader, follower


def is_parked(driven: Driven, request: JoinGroup) -> bool:
    return request not in driven.answers


def test_a_follower_that_says_the_same_is_told_of_the_generation_there_is() -> None:
    driven = Driven()
    leader, follower = stable(driven)
    again = driven.answers[driven.join(follower, instance_id="two")]
    assert (again.error, again.generation, again.leader) == (None, 2, leader)
    assert (again.member_id, again.members, again.skip_assignment) == (follower, [], False)
    assert driven.answers[driven.sync(follower, 2)].assignment == assignment_of(2, 3)
    assert driven.heartbeat(leader, 2) is None, "nobody else has noticed"


def test_a_leader_makes_all_join_again_even_if_it_says_the_same() -> None:
    driven = Driven()
    leader, follower = stable(driven)
    again = driven.join(leader)
    assert is_parked(driven, again)
    assert driven.heartbeat(follower, 2) is errors.RebalanceInProgressError
    driven.join(follower, instance_id="two")
    assert driven.answers[again].generation == 3


@pytest.mark.parametrize(
    "protocols",
    [
        {"range": subscription(2, 3)},
        {"range": subscription(), "sticky": b""},
    ],
    ids=["metadata", "protocols"],
)
def test_a_follower_that_says_something_else_makes_all_join_again(
    protocols: dict[str, bytes],
) -> None:
    driven = Driven()
    leader, follower = stable(driven)
    assert is_parked(driven, driven.join(follower, instance_id="two", protocols=protocols))
    assert driven.heartbeat(leader, 2) is errors.RebalanceInProgressError


def test_the_order_of_protocols_is_a_change_too() -> None:
    driven = Driven()
    both = {"range": b"", "sticky": b""}
    first = driven.join("", protocols=both)
    leader = driven.answers[first].member_id
    driven.sync(leader, 1)
    newcomer = driven.join("", protocols=both)
    driven.join(leader, protocols=both)
    driven.sync(leader, 2)
    follower = driven.answers[newcomer].member_id
    assert not is_parked(driven, driven.join(follower, protocols=both))
    turned = dict(reversed(both.items()))
    assert is_parked(driven, driven.join(follower, protocols=turned))


def test_while_the_assignment_is_awaited_also_the_leader_is_answered_at_once() -> None:
    driven = Driven()
    leader, follower = syncing(driven)
    waiting = driven.sync(follower, 2)
    again = driven.answers[driven.join(leader)]
    assert (again.generation, again.leader, len(again.members)) == (2, leader, 2)
    assert driven.answers[driven.join(follower, instance_id="two")].generation == 2
    assert waiting not in driven.answers, "it goes on waiting"
    driven.sync(leader, 2, **{follower: assignment_of(1)})
    assert driven.answers[waiting].assignment == assignment_of(1)


def test_while_the_assignment_is_awaited_a_change_makes_all_join_again() -> None:
    driven = Driven()
    leader, follower = syncing(driven)
    waiting = driven.sync(follower, 2)
    assert is_parked(driven, driven.join(leader, subscription(topics=["more"])))
    assert driven.answers[waiting].error is errors.RebalanceInProgressError


def test_being_told_again_does_not_prolong_the_session() -> None:
    driven = Driven()
    _, follower = stable(driven)
    driven.sleep(9_000)
    assert not is_parked(driven, driven.join(follower, instance_id="two"))
    driven.sleep(1_000)
    assert follower not in driven.coordinator.classic.members


def test_what_a_member_had_is_kept_while_it_joins_again() -> None:
    """It is what the member has if the group goes to the other protocol meanwhile."""
    driven = Driven()
    leader, follower = stable(driven)
    driven.join(leader)
    members = driven.coordinator.classic.members
    assert members[leader].assignment == assignment_of(0, 1)
    driven.join(follower, instance_id="two")
    driven.join(leader, subscription(topics=["more"]))
    assert members[leader].assignment == b"", "the assignment that was awaited does not come"


@pytest.mark.parametrize("may_skip", [True, False])
def test_a_static_leader_that_comes_back_need_not_assign(may_skip: bool) -> None:
    driven = Driven()
    first = driven.join("", instance_id="one")
    leader = driven.answers[first].member_id
    driven.sync(leader, 1, **{leader: assignment_of(0)})
    back = driven.answers[driven.join("", instance_id="one", may_skip=may_skip)]
    assert (back.error, back.generation, back.skip_assignment) == (None, 1, may_skip)
    if may_skip:
        assert (back.leader, len(back.members)) == (back.member_id, 1)
    else:
        assert (back.leader, back.members) == (leader, []), "it takes another for the leader"
    assert driven.answers[driven.sync(back.member_id, 1)].assignment == assignment_of(0)


def test_a_static_follower_that_comes_back_is_told_that_it_follows() -> None:
    driven = Driven()
    leader, follower = stable(driven)
    back = driven.answers[driven.join("", instance_id="two")]
    assert back.member_id != follower
    assert (back.leader, back.members, back.skip_assignment) == (leader, [], False)
    assert driven.answers[driven.sync(back.member_id, 2)].assignment == assignment_of(2, 3)
    assert driven.heartbeat(leader, 2) is None


def test_a_static_member_that_comes_back_with_another_vote_makes_all_join_again() -> None:
    driven = Driven()
    both = {"range": b"", "sticky": b""}
    joined = driven.join("", instance_id="one", protocols=both)
    driven.sync(driven.answers[joined].member_id, 1)
    turned = dict(reversed(both.items()))
    back = driven.answers[driven.join("", instance_id="one", protocols=turned)]
    assert (back.generation, back.protocol) == (2, "sticky")


def test_a_member_cannot_drop_what_all_had_in_common_even_alone() -> None:
    driven = Driven()
    member_id = driven.alone(0)
    other = driven.join(member_id, protocols={"sticky": b""})
    assert driven.answers[other].error is errors.InconsistentGroupProtocolError
    assert driven.coordinator.classic.state is GroupState.STABLE


def test_a_group_begins_with_a_kind_and_a_protocol() -> None:
    driven = Driven()
    for fields in ({"protocol_type": ""}, {"protocols": {}}):
        refused = driven.join("", **fields)
        assert driven.answers[refused].error is errors.InconsistentGroupProtocolError


# --- the initial rebalance delay -----------------------------------------------------------------


def delayed(delay_ms: int = 3_000) -> Driven:
    return Driven(initial_rebalance_delay_ms=delay_ms)


def test_a_group_that_was_empty_waits_for_more_members() -> None:
    driven = delayed()
    only = driven.join("")
    driven.sleep(2_999)
    assert is_parked(driven, only)
    driven.sleep(1)
    assert driven.answers[only].generation == 1


def test_each_member_that_comes_meanwhile_prolongs_the_wait() -> None:
    driven = delayed()
    first = driven.join("")
    driven.sleep(2_000)
    second = driven.join("")
    driven.sleep(2_000)
    third = driven.join("")
    driven.sleep(4_999)
    assert is_parked(driven, first), "6 s because of the second, 9 s because of the third"
    driven.sleep(1)
    assert {driven.answers[each].generation for each in (first, second, third)} == {1}


def test_the_wait_is_not_prolonged_beyond_the_rebalance_timeout_of_the_first() -> None:
    driven = delayed()
    first = driven.join("", rebalance_ms=7_000)
    for _ in range(6):
        driven.sleep(1_000)
        assert is_parked(driven, driven.join("", rebalance_ms=60_000))
    driven.sleep(999)
    assert is_parked(driven, first)
    driven.sleep(1)
    assert driven.answers[first].generation == 1
    assert len(driven.answers[first].members) == 7


def test_a_rebalance_timeout_below_the_delay_does_not_shorten_it() -> None:
    driven = delayed()
    first = driven.join("", rebalance_ms=1_000)
    driven.sleep(1_000)
    driven.join("", rebalance_ms=1_000)
    driven.sleep(1_999)
    assert is_parked(driven, first)
    driven.sleep(1)
    assert len(driven.answers[first].members) == 2


def test_who_asks_again_meanwhile_is_no_new_member() -> None:
    driven = delayed()
    first = driven.join("", new_id="one")
    driven.sleep(2_000)
    again = driven.join("one")
    assert is_parked(driven, again)
    driven.sleep(1_000)
    assert driven.answers[again].generation == 1
    assert is_parked(driven, first), "its connection is gone: only the newer request counts"


def test_a_static_member_that_comes_back_meanwhile_is_no_new_member() -> None:
    driven = delayed()
    first = driven.join("", instance_id="one")
    driven.sleep(2_000)
    again = driven.join("", instance_id="one")
    assert driven.answers[first].error is errors.FencedInstanceIdError
    driven.sleep(1_000)
    assert driven.answers[again].generation == 1


def test_who_leaves_does_not_end_the_wait() -> None:
    driven = delayed()
    first, second = driven.join("", new_id="one"), driven.join("", new_id="two")
    assert driven.ask(LeaveGroup(member_id="two")) is None
    assert driven.answers[second].error is errors.UnknownMemberIdError
    driven.sleep(5_999)
    assert is_parked(driven, first)
    driven.sleep(1)
    assert driven.answers[first].generation == 1


def test_a_group_that_empties_while_it_waits_goes_on_waiting() -> None:
    driven = delayed()
    driven.join("", new_id="one")
    driven.sleep(1_000)
    assert driven.ask(LeaveGroup(member_id="one")) is None
    assert driven.coordinator.classic.state is GroupState.JOINING
    driven.sleep(1_000)
    second = driven.join("")
    driven.sleep(3_999)
    assert is_parked(driven, second), "one has come meanwhile"
    driven.sleep(1)
    assert driven.answers[second].generation == 1


def test_a_group_that_nobody_comes_to_while_it_waits_is_empty_then() -> None:
    driven = delayed()
    driven.join("", new_id="one")
    assert driven.ask(LeaveGroup(member_id="one")) is None
    driven.sleep(3_000)
    group = driven.coordinator.classic
    assert (group.state, group.generation) == (GroupState.EMPTY, 1)


def test_who_is_lost_may_end_the_wait() -> None:
    """All that are left have joined, and nobody who was handed an id is waited for any more."""
    driven = delayed()
    first = driven.join("")
    driven.join("", needs_id=True, session_ms=6_000)
    for _ in range(3):
        driven.sleep(2_000 - 1)
        driven.join("")
    assert is_parked(driven, first)
    driven.sleep(3)
    assert driven.answers[first].generation == 1


def test_a_group_that_has_members_does_not_wait() -> None:
    driven = delayed()
    first = driven.join("")
    driven.sleep(3_000)
    leader = driven.answers[first].member_id
    newcomer = driven.join("")
    driven.join(leader)
    assert driven.answers[newcomer].generation == 2


def test_another_coordinator_knows_of_nobody_who_waited() -> None:
    driven = delayed()
    first = driven.join("")
    driven.fail_over()
    again = driven.join("")
    assert is_parked(driven, first)
    driven.sleep(3_000)
    assert len(driven.answers[again].members) == 1


def test_a_kip_848_member_ends_the_wait() -> None:
    driven = delayed()
    first = driven.join("", new_id="one")
    assert driven.beat("two", 0).error is None
    assert driven.answers[first].error is errors.RebalanceInProgressError
    driven.sleep(3_000)
    assert not driven.coordinator.classic.members


def test_a_delay_is_not_negative() -> None:
    with pytest.raises(ValueError, match="initial_rebalance_delay_ms=-1: must be 0 or more"):
        delayed(-1)
