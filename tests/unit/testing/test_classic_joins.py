"""JoinGroup of classic groups: who is answered at once, and who makes all others join again."""

from __future__ import annotations

import pytest
from kafka import errors

from tandem_kafka.testing.coordinator.classic_group_member import GroupState
from tandem_kafka.testing.coordinator.requests import JoinGroup
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
