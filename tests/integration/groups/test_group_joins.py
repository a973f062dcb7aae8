"""Responses to JoinGroup of classic members, of a real and a simulated coordinator."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment

from tests.integration.joining import RawClassicMember, name_of
from tests.integration.pairs import form_group
from tests.integration.raw_worlds import RawWorld
from tests.integration.subscriptions import subscription_metadata

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
    form_group(leader)
    follower.send_join()
    if not follower.is_static:
        assert name_of(follower.receive_join().error_code) == "MemberIdRequiredError"
        follower.send_join()
    leader.await_rebalance(1)
    leader.send_join()
    for each in (leader, follower):
        response = each.receive_join()
        assert (response.generation_id, response.leader) == (2, leader.member_id)


def both_stable(leader: RawClassicMember, follower: RawClassicMember) -> None:
    """Both are in generation 2 and have their assignments."""
    both_joined(leader, follower)
    leader.send_sync(2, **{leader.member_id: b"one", follower.member_id: b"two"})
    assert leader.receive_sync() == (None, b"one")
    follower.send_sync(2)
    assert follower.receive_sync() == (None, b"two")


def test_an_unchanged_rejoin_of_a_follower_gets_the_current_generation(member: Make) -> None:
    leader, follower = member(), member()
    both_stable(leader, follower)
    follower.send_join()
    again = follower.receive_join()
    assert (again.error_code, again.generation_id, again.leader) == (0, 2, leader.member_id)
    assert (list(again.members), again.skip_assignment) == ([], False)
    follower.send_sync(2)
    assert follower.receive_sync() == (None, b"two")
    assert leader.beat(2) is None


def test_an_unchanged_rejoin_of_the_leader_rebalances_the_group(member: Make) -> None:
    leader, follower = member(), member()
    both_stable(leader, follower)
    leader.send_join()
    assert leader.is_parked()
    follower.await_rebalance(2)
    follower.send_join()
    assert (leader.receive_join().generation_id, follower.receive_join().generation_id) == (3, 3)


def test_a_changed_rejoin_of_a_follower_rebalances_the_group(member: Make) -> None:
    leader, follower = member(), member()
    both_stable(leader, follower)
    follower.protocols = {"range": b"something else"}
    follower.send_join()
    assert follower.is_parked()
    leader.await_rebalance(2)


def test_another_order_of_protocols_is_a_change(member: Make) -> None:
    leader, follower = (member(range=b"", sticky=b"") for _ in range(2))
    both_stable(leader, follower)
    follower.protocols = {"sticky": b"", "range": b""}
    follower.send_join()
    assert follower.is_parked()


def test_an_unchanged_rejoin_before_the_sync_gets_an_immediate_response(member: Make) -> None:
    leader, follower = member(), member()
    both_joined(leader, follower)
    for each, listed in ((leader, 2), (follower, 0)):
        each.send_join()
        again = each.receive_join()
        assert (again.error_code, again.generation_id, len(again.members)) == (0, 2, listed)
    leader.send_sync(2, **{follower.member_id: b"two"})
    follower.send_sync(2)
    assert follower.receive_sync() == (None, b"two")


def test_a_changed_rejoin_before_the_sync_rebalances_the_group(member: Make) -> None:
    leader, follower = member(), member()
    both_joined(leader, follower)
    follower.send_sync(2)
    leader.protocols = {"range": b"something else"}
    leader.send_join()
    assert follower.receive_sync() == ("RebalanceInProgressError", b"")
    assert leader.is_parked()


@pytest.mark.parametrize("version", [9, 8])
def test_a_static_leader_that_returns_need_not_assign(member: Make, version: int) -> None:
    leader, back = member("one"), member("one")
    form_group(leader)
    again = back.join(version)
    assert (again.error_code, again.generation_id) == (0, 1)
    if version == 9:
        assert (again.leader, len(again.members)) == (back.member_id, 1)
        assert again.skip_assignment
    else:
        assert (again.leader, list(again.members)) == (leader.member_id, [])
    back.send_sync(1)
    assert back.receive_sync() == (None, b"all")
    assert leader.beat(1) == "FencedInstanceIdError"


def test_a_static_follower_that_returns_stays_a_follower(member: Make) -> None:
    leader, follower, back = member(), member("two"), member("two")
    both_stable(leader, follower)
    again = back.join()
    assert (again.generation_id, again.leader) == (2, leader.member_id)
    assert (list(again.members), again.skip_assignment) == ([], False)
    back.send_sync(2)
    assert back.receive_sync() == (None, b"two")
    assert leader.beat(2) is None


def test_a_static_member_that_returns_with_another_protocol_starts_a_generation(
    member: Make,
) -> None:
    first, back = member("one", range=b"", sticky=b""), member("one", sticky=b"", range=b"")
    form_group(first)
    again = back.join()
    assert (again.generation_id, again.protocol_name) == (2, "sticky")


def test_a_single_member_cannot_drop_the_common_protocol(member: Make) -> None:
    only = member()
    form_group(only)
    only.protocols = {"sticky": b""}
    assert name_of(only.join().error_code) == "InconsistentGroupProtocolError"


def test_a_group_needs_a_protocol(member: Make) -> None:
    first = member()
    first.protocols = {}
    assert name_of(first.join().error_code) == "InconsistentGroupProtocolError"


def test_a_kip_848_member_gets_partitions_that_a_classic_member_still_owns(
    raw: RawWorld, member: Make
) -> None:
    """A second change before the assignment empties the target of a cooperative member.

    Its partitions then have two owners for a while, so scenarios exclude partitions in
    `ConsumerGroup.stale_ownership`.
    """
    everything = [(raw.topic, number) for number in range(4)]
    classic = member(range=subscription_metadata([raw.topic]))
    begun = classic.join()
    assignment = ConsumerProtocolAssignment(0, [(raw.topic, [0, 1, 2, 3])], b"").encode()
    classic.send_sync(begun.generation_id, **{classic.member_id: bytes(assignment)})
    assert classic.receive_sync()[0] is None
    for also in ("one", "two"):
        classic.protocols = {"range": subscription_metadata([raw.topic, also], *everything)}
        assert classic.join().error_code == 0
    joined = raw.modern().join()
    assert (joined.error, joined.count) == (None, 2)


def test_partitions_that_a_classic_member_still_owns_move_with_each_protocol_change(
    raw: RawWorld, member: Make
) -> None:
    """The group changes its protocol faster than the classic member gets a response.

    For the coordinator, the member has its target from the first change on. It owns more.
    """
    classic = member(range=subscription_metadata([raw.topic]))
    begun = classic.join()
    assignment = ConsumerProtocolAssignment(0, [(raw.topic, [0, 1, 2, 3])], b"").encode()
    classic.send_sync(begun.generation_id, **{classic.member_id: bytes(assignment)})
    assert classic.receive_sync() == (None, bytes(assignment))
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
    assert raw.error_and_state() == nothing
    modern = raw.modern()
    assert modern.join().error is None
    assert raw.error_and_state()[0] is None
    assert modern.beat(-1).error is None
    assert raw.error_and_state() == (None, "Empty")
    alone_again = member()
    assert alone_again.join().error_code == 0
    assert raw.error_and_state() == nothing
