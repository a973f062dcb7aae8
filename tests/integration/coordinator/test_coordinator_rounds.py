"""For which members a classic rebalance waits, and how long; with both coordinators.

Exact milliseconds are checked in `packages/testing/tests/test_classic_rounds.py`.
"""

from __future__ import annotations

import pytest

from tests.integration.joining import RawClassicMember, name_of
from tests.integration.pairs import Pair, form_group, receive_joins
from tests.integration.raw_worlds import RawWorld

SESSION_MS = 2_000
#: Room for several requests, on a machine that stands still for a moment.
REBALANCE_MS = 3_000


def pending_member(raw: RawWorld, **fields: int) -> RawClassicMember:
    """Return a member that has an id and has not joined with it."""
    member = raw.classic(**fields)
    member.send_join()
    assert name_of(member.receive_join().error_code) == "MemberIdRequiredError"
    return member


def quick(raw: RawWorld, **follower: int) -> Pair:
    """A pair in generation 3 whose rebalance timeout is short."""
    pair = Pair(raw, **follower)
    for each in (pair.leader, pair.follower, *pair.new_members):
        each.rebalance_ms = REBALANCE_MS
    pair.since_s = raw.now_s()
    assert set(pair.join_again().values()) == {3}
    return pair


# --- pending members (KIP-394) -------------------------------------------------------------------


def test_a_round_waits_for_a_pending_member_for_its_session_timeout(raw: RawWorld) -> None:
    pair = Pair(raw)
    since_s = raw.now_s()
    idle = pending_member(raw, session_ms=SESSION_MS)
    generations = pair.join_again()
    assert raw.lasted(since_s, SESSION_MS / 1_000)
    assert set(generations.values()) == {3}
    idle.send_join()
    assert name_of(idle.receive_join().error_code) == "UnknownMemberIdError"


def test_a_pending_member_that_joins_is_in_the_round(raw: RawWorld) -> None:
    pair = Pair(raw)
    late = pending_member(raw, session_ms=60_000)
    pair.rejoin()
    assert pair.leader.is_parked()
    late.send_join()
    assert set(receive_joins(pair.leader, pair.follower, late).values()) == {3}


def test_a_round_does_not_wait_for_a_pending_member_that_left(raw: RawWorld) -> None:
    pair = Pair(raw)
    idle = pending_member(raw, session_ms=60_000)
    pair.rejoin()
    assert pair.leader.is_parked()
    assert idle.leave() == [None]
    assert set(receive_joins(pair.leader, pair.follower).values()) == {3}
    assert idle.leave() == ["UnknownMemberIdError"]


def test_a_pending_member_that_leaves_rebalances_a_stable_group(raw: RawWorld) -> None:
    pair = Pair(raw)
    idle = pending_member(raw)
    assert pair.beats(2) == (None, None)
    assert idle.leave() == [None]
    assert pair.beats(2) == ("RebalanceInProgressError",) * 2


def test_the_first_member_does_not_wait_for_pending_members(raw: RawWorld) -> None:
    pending_member(raw, session_ms=60_000)
    form_group(raw.classic())


def test_a_round_waits_for_a_pending_member_until_the_rebalance_timeout(
    raw: RawWorld,
) -> None:
    pair = quick(raw)
    pair.sync_leader(3)
    late = pending_member(raw, session_ms=60_000)
    since_s = raw.now_s()
    assert set(pair.join_again().values()) == {4}
    assert raw.lasted(since_s, REBALANCE_MS / 1_000)
    late.send_join()
    pair.leader.await_rebalance(pair.generation)
    assert pair.join_again(late)[late.member_id] == 5


# --- static members ------------------------------------------------------------------------------


def test_a_static_member_that_misses_the_join_is_removed_only_after_the_sync(
    raw: RawWorld,
) -> None:
    leader, static, new_member = raw.classic(), raw.classic("two"), raw.classic()
    for each in (leader, static, new_member):
        each.session_ms, each.rebalance_ms = 60_000, REBALANCE_MS
    form_group(leader)
    static.send_join()
    leader.await_rebalance(1)
    leader.send_join()
    assert set(receive_joins(leader, static).values()) == {2}
    leader.send_sync(2, **{static.member_id: b"two"})
    static.send_sync(2)
    assert (leader.receive_sync(), static.receive_sync()) == ((None, b""), (None, b"two"))
    new_member.member_id = pending_member(raw).member_id
    since_s = raw.now_s()
    new_member.send_join()
    leader.send_join()
    response = leader.receive_join()
    assert raw.lasted(since_s, REBALANCE_MS / 1_000)
    ids = {leader.member_id, static.member_id, new_member.member_id}
    assert (response.generation_id, {each.member_id for each in response.members}) == (3, ids)
    assert receive_joins(new_member) == {new_member.member_id: 3}
    assert static.beat(2) == "IllegalGenerationError", "it is a member, of this generation"
    since_s = raw.now_s()
    leader.send_sync(3)
    new_member.send_sync(3)
    assert (leader.receive_sync()[0], new_member.receive_sync()[0]) == (None, None)
    leader.await_rebalance(3)
    assert static.beat(3) == "UnknownMemberIdError", "its session continues, but it has not synced"


def test_a_static_leader_that_misses_the_join_is_replaced_as_leader(raw: RawWorld) -> None:
    leader, follower = raw.classic("one"), raw.classic()
    for each in (leader, follower):
        each.session_ms, each.rebalance_ms = 60_000, REBALANCE_MS
    form_group(leader)
    follower.member_id = pending_member(raw).member_id
    follower.send_join()
    response = follower.receive_join()
    assert (response.generation_id, response.leader) == (2, follower.member_id)
    assert {e.member_id for e in response.members} == {leader.member_id, follower.member_id}


def test_a_round_without_joins_continues(raw: RawWorld) -> None:
    """Only an absent static member could lead."""
    only, other = raw.classic("one"), pending_member(raw, session_ms=60_000)
    only.session_ms, only.rebalance_ms = 60_000, 500
    form_group(only)
    assert other.leave() == [None]
    since_s = raw.now_s()
    while raw.now_s() - since_s < 1.2:
        assert only.beat(1) == "RebalanceInProgressError"
        raw.sleep(0.1)
    assert only.join().generation_id == 2


# --- members that do not sync --------------------------------------------------------------------


@pytest.mark.design("002", "Phase 2, case 3")
def test_a_member_that_does_not_sync_is_removed_after_the_rebalance_timeout(
    raw: RawWorld,
) -> None:
    """Its heartbeats do not prevent it."""
    pair = quick(raw)
    pair.leader.send_sync(3)
    assert pair.leader.receive_sync()[0] is None

    def must_rejoin() -> bool:
        assert pair.follower.beat(3) in {None, "UnknownMemberIdError"}
        return pair.leader.beat(3) == "RebalanceInProgressError"

    raw.wait_until(must_rejoin)
    assert raw.lasted(pair.since_s, REBALANCE_MS / 1_000)
    assert pair.follower.beat(3) == "UnknownMemberIdError"
    assert pair.lead_alone() == {pair.leader.member_id}


def test_a_leader_that_does_not_assign_is_removed_after_the_rebalance_timeout(
    raw: RawWorld,
) -> None:
    pair = quick(raw)
    pair.follower.send_sync(3)
    raw.wait_until(lambda: pair.leader.beat(3) == "UnknownMemberIdError")
    assert pair.follower.receive_sync() == ("RebalanceInProgressError", b"")
    pair.follower.send_join()
    response = pair.follower.receive_join()
    assert (response.generation_id, response.leader) == (4, pair.follower.member_id)


def test_the_session_of_a_member_with_a_sync_in_flight_does_not_expire(raw: RawWorld) -> None:
    pair = Pair(raw, session_ms=SESSION_MS)
    assert set(pair.join_again().values()) == {3}
    pair.follower.send_sync(3)
    raw.sleep(1.5 * SESSION_MS / 1_000)
    assert pair.leader.beat(3) is None
    pair.sync_leader(3)
    assert pair.follower.receive_sync() == (None, b"two")


# --- LeaveGroup ----------------------------------------------------------------------------------


def test_leaving_without_membership_is_an_error(raw: RawWorld) -> None:
    unknown_member = raw.classic()
    unknown_member.member_id = "somebody"
    assert unknown_member.leave() == ["UnknownMemberIdError"]
    pair = Pair(raw)
    unjoined, other = raw.classic(), raw.classic("two")
    other.member_id = pair.follower.member_id
    assert unknown_member.leave(unjoined, other) == ["UnknownMemberIdError"] * 3
    assert pair.beats(2) == (None, None), "no other member notices"
    assert pair.follower.leave(unknown_member) == [None, "UnknownMemberIdError"]
    assert pair.beats(2) == ("RebalanceInProgressError", "UnknownMemberIdError")


def test_a_static_member_is_removed_by_its_instance_id_or_member_id(raw: RawWorld) -> None:
    leader, static, named_only, wrong = (raw.classic(), *(raw.classic("two") for _ in range(3)))
    form_group(leader)
    wrong.member_id = leader.member_id
    for remover, generation in ((named_only, 1), (static, 2)):
        static.member_id = ""
        static.send_join()
        leader.await_rebalance(generation)
        leader.send_join()
        assert set(receive_joins(leader, static).values()) == {generation + 1}
        assert wrong.leave() == ["FencedInstanceIdError"]
        assert remover.leave() == [None]
        assert static.beat(generation + 1) == "UnknownMemberIdError"


def test_members_that_leave_together_leave_an_empty_group(raw: RawWorld) -> None:
    pair = Pair(raw)
    assert pair.leader.leave(pair.follower) == [None, None]
    assert pair.beats(2) == ("UnknownMemberIdError",) * 2
    assert pair.new_members[0].join().generation_id == 4


@pytest.mark.parametrize("instance", [None, "one"])
def test_a_member_with_a_join_in_flight_gets_a_response_when_it_leaves(
    raw: RawWorld, instance: str | None
) -> None:
    pair = Pair(raw)
    waiting, again = raw.classic(instance), raw.classic(instance)
    waiting.send_join()
    if instance is None:
        waiting.receive_join()
        waiting.send_join()
    pair.leader.await_rebalance(pair.generation)
    again.member_id = waiting.member_id
    assert again.leave() == [None]
    assert name_of(waiting.receive_join().error_code) == "UnknownMemberIdError"
    assert set(pair.join_again().values()) == {3}
