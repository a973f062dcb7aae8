"""What a coordinator answers to JoinGroup of classic members, a real one and the simulated one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment

from tests.integration.joining import RawClassicMember, name_of
from tests.integration.pairs import alone
from tests.integration.raw_worlds import RawWorld
from tests.integration.subscriptions import said

Make = Callable[..., RawClassicMember]


@pytest.fixture
def member(raw: RawWorld) -> Make:
    """Makes members that have not spoken yet."""

    def make(instance: str | None = None, **protocols: bytes) -> RawClassicMember:
        made = raw.classic(instance)
        made.protocols = protocols or made.protocols
        return made

    return make


def both_joined(leader: RawClassicMember, follower: RawClassicMember) -> None:
    """Both are in generation 2, and the assignment is awaited."""
    alone(leader)
    follower.ask_to_join()
    if not follower.is_static:
        assert name_of(follower.joined().error_code) == "MemberIdRequiredError"
        follower.ask_to_join()
    leader.await_round(1)
    leader.ask_to_join()
    for each in (leader, follower):
        answer = each.joined()
        assert (answer.generation_id, answer.leader) == (2, leader.member_id)


def both_stable(leader: RawClassicMember, follower: RawClassicMember) -> None:
    """Both are in generation 2 and have their assignments."""
    both_joined(leader, follower)
    leader.ask_to_sync(2, **{leader.member_id: b"one", follower.member_id: b"two"})
    assert leader.synced() == (None, b"one")
    follower.ask_to_sync(2)
    assert follower.synced() == (None, b"two")


def test_a_follower_that_says_the_same_is_told_of_the_generation_there_is(member: Make) -> None:
    leader, follower = member(), member()
    both_stable(leader, follower)
    follower.ask_to_join()
    again = follower.joined()
    assert (again.error_code, again.generation_id, again.leader) == (0, 2, leader.member_id)
    assert (list(again.members), again.skip_assignment) == ([], False)
    follower.ask_to_sync(2)
    assert follower.synced() == (None, b"two")
    assert leader.beat(2) is None


def test_a_leader_makes_all_join_again_even_if_it_says_the_same(member: Make) -> None:
    leader, follower = member(), member()
    both_stable(leader, follower)
    leader.ask_to_join()
    assert leader.is_parked()
    follower.await_round(2)
    follower.ask_to_join()
    assert (leader.joined().generation_id, follower.joined().generation_id) == (3, 3)


def test_a_follower_that_says_something_else_makes_all_join_again(member: Make) -> None:
    leader, follower = member(), member()
    both_stable(leader, follower)
    follower.protocols = {"range": b"something else"}
    follower.ask_to_join()
    assert follower.is_parked()
    leader.await_round(2)


def test_the_order_of_protocols_is_a_change_too(member: Make) -> None:
    leader, follower = (member(range=b"", sticky=b"") for _ in range(2))
    both_stable(leader, follower)
    follower.protocols = {"sticky": b"", "range": b""}
    follower.ask_to_join()
    assert follower.is_parked()


def test_while_the_assignment_is_awaited_also_the_leader_is_answered_at_once(member: Make) -> None:
    leader, follower = member(), member()
    both_joined(leader, follower)
    for each, listed in ((leader, 2), (follower, 0)):
        each.ask_to_join()
        again = each.joined()
        assert (again.error_code, again.generation_id, len(again.members)) == (0, 2, listed)
    leader.ask_to_sync(2, **{follower.member_id: b"two"})
    follower.ask_to_sync(2)
    assert follower.synced() == (None, b"two")


def test_while_the_assignment_is_awaited_a_change_makes_all_join_again(member: Make) -> None:
    leader, follower = member(), member()
    both_joined(leader, follower)
    follower.ask_to_sync(2)
    leader.protocols = {"range": b"something else"}
    leader.ask_to_join()
    assert follower.synced() == ("RebalanceInProgressError", b"")
    assert leader.is_parked()


@pytest.mark.parametrize("version", [9, 8])
def test_a_static_leader_that_comes_back_need_not_assign(member: Make, version: int) -> None:
    leader, back = member("one"), member("one")
    alone(leader)
    again = back.join(version)
    assert (again.error_code, again.generation_id) == (0, 1)
    if version == 9:
        assert (again.leader, len(again.members)) == (back.member_id, 1)
        assert again.skip_assignment
    else:
        assert (again.leader, list(again.members)) == (leader.member_id, [])
    back.ask_to_sync(1)
    assert back.synced() == (None, b"all")
    assert leader.beat(1) == "FencedInstanceIdError"


def test_a_static_follower_that_comes_back_is_told_that_it_follows(member: Make) -> None:
    leader, follower, back = member(), member("two"), member("two")
    both_stable(leader, follower)
    again = back.join()
    assert (again.generation_id, again.leader) == (2, leader.member_id)
    assert (list(again.members), again.skip_assignment) == ([], False)
    back.ask_to_sync(2)
    assert back.synced() == (None, b"two")
    assert leader.beat(2) is None


def test_a_static_member_that_comes_back_with_another_vote_begins_a_generation(
    member: Make,
) -> None:
    first, back = member("one", range=b"", sticky=b""), member("one", sticky=b"", range=b"")
    alone(first)
    again = back.join()
    assert (again.generation_id, again.protocol_name) == (2, "sticky")


def test_a_member_cannot_drop_what_all_had_in_common_even_alone(member: Make) -> None:
    only = member()
    alone(only)
    only.protocols = {"sticky": b""}
    assert name_of(only.join().error_code) == "InconsistentGroupProtocolError"


def test_a_group_begins_with_a_protocol(member: Make) -> None:
    first = member()
    first.protocols = {}
    assert name_of(first.join().error_code) == "InconsistentGroupProtocolError"


def test_a_kip_848_member_is_given_at_once_what_a_classic_one_was_deprived_of_unheard(
    raw: RawWorld, member: Make
) -> None:
    """A second change before the assignment empties what a cooperative member has, and still owns.

    That is two owners for a while, and why the scenarios ignore `ConsumerGroup.stale_ownership`.
    """
    everything = [(raw.topic, number) for number in range(4)]
    classic = member(range=said([raw.topic]))
    begun = classic.join()
    assignment = ConsumerProtocolAssignment(0, [(raw.topic, [0, 1, 2, 3])], b"").encode()
    classic.ask_to_sync(begun.generation_id, **{classic.member_id: bytes(assignment)})
    assert classic.synced()[0] is None
    for also in ("one", "two"):
        classic.protocols = {"range": said([raw.topic, also], *everything)}
        assert classic.join().error_code == 0
    joined = raw.modern().join()
    assert (joined.error, joined.count) == (None, 2)


def test_what_a_classic_member_was_deprived_of_unheard_is_given_on_each_time_the_group_changes(
    raw: RawWorld, member: Make
) -> None:
    """Back and forth between the protocols, faster than the classic member hears of anything.

    From the first way back on it has, for the coordinator, what it was to have; it owns more.
    """
    classic = member(range=said([raw.topic]))
    begun = classic.join()
    assignment = ConsumerProtocolAssignment(0, [(raw.topic, [0, 1, 2, 3])], b"").encode()
    classic.ask_to_sync(begun.generation_id, **{classic.member_id: bytes(assignment)})
    assert classic.synced() == (None, bytes(assignment))
    modern = raw.modern()
    counts = []
    for _ in range(3):
        joined = modern.join()
        counts.append((joined.error, joined.count))
        assert modern.beat(-1).error is None
    assert counts == [(None, 0), (None, 2), (None, 2)]


@pytest.mark.design("001", "Describe")
def test_only_a_kip_848_group_is_described_as_one(raw: RawWorld, member: Make) -> None:
    nothing = "GroupIdNotFoundError", ""
    assert raw.described() == nothing
    modern = raw.modern()
    assert modern.join().error is None
    assert raw.described()[0] is None
    assert modern.beat(-1).error is None
    assert raw.described() == (None, "Empty")
    alone_again = member()
    assert alone_again.join().error_code == 0
    assert raw.described() == nothing
