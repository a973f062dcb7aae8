"""Scenarios of documents 000 and 002 that concern only the coordinator.

Raw members send requests that no client would send, to a real and a simulated coordinator.
"""

from __future__ import annotations

import pytest

from tests.integration.joining import name_of
from tests.integration.pairs import Pair, receive_joins
from tests.integration.raw_worlds import RawWorld

SESSION_MS = 2_000
SESSION_S = SESSION_MS / 1_000


# --- 000 "Failure detection protocol", "Offset commits during rebalance" -------------------------


@pytest.mark.design("000", "Failure detection protocol 2")
def test_a_heartbeat_needs_the_member_id_and_generation(raw: RawWorld) -> None:
    never_was = raw.classic()
    assert never_was.beat(2) == "UnknownMemberIdError"
    pair = Pair(raw)
    assert pair.leader.beat(1) == "IllegalGenerationError", "stale"
    assert pair.leader.beat(3) == "IllegalGenerationError", "invalid"
    assert never_was.beat(2) == "UnknownMemberIdError"
    never_was.member_id = "nobody"
    assert never_was.beat(2) == "UnknownMemberIdError"
    assert pair.beats(2) == (None, None)


@pytest.mark.design("000", "Offset commits during rebalance 2")
def test_a_commit_of_a_higher_generation_is_rejected(raw: RawWorld) -> None:
    pair, offsets = Pair(raw), raw.offsets()
    leader = pair.leader.member_id
    assert offsets.commit(leader, 3, p0=5) == "IllegalGenerationError"
    assert offsets.committed() == {}
    assert offsets.commit(leader, 2, p0=5) is None
    assert offsets.committed() == {0: 5}


@pytest.mark.design("000", "Offset commits during rebalance 3")
def test_a_commit_of_an_older_generation_is_rejected(raw: RawWorld) -> None:
    pair, offsets = Pair(raw), raw.offsets()
    leader, follower = pair.leader.member_id, pair.follower.member_id
    pair.join_new(pair.new_members[0])
    assert offsets.commit(leader, 2, p0=5) is None, "a rebalance does not block commits"
    assert pair.join_again(pair.new_members[0])[leader] == 3
    assert offsets.commit(follower, 2, p0=7) == "IllegalGenerationError"
    assert offsets.commit(follower, 3, p0=7) == "RebalanceInProgressError", "not assigned yet"
    pair.sync_leader(3)
    assert offsets.commit(follower, 2, p0=7) == "IllegalGenerationError"
    assert offsets.committed() == {0: 5}
    assert offsets.commit(follower, 3, p0=7) is None
    assert offsets.committed() == {0: 7}


@pytest.mark.design("000", "Maximum session timeout")
def test_a_session_timeout_has_limits(raw: RawWorld) -> None:
    for session_ms, error in (
        (499, "InvalidSessionTimeoutError"),
        (1_800_001, "InvalidSessionTimeoutError"),
        (500, "MemberIdRequiredError"),
        (1_800_000, "MemberIdRequiredError"),
    ):
        member = raw.classic(session_ms=session_ms)
        member.send_join()
        assert name_of(member.receive_join().error_code) == error, session_ms


# --- 000 "Consumer id assignment" ----------------------------------------------------------------


@pytest.mark.design("000", "Consumer id assignment 1")
def test_a_member_keeps_the_id_of_its_first_join_response(raw: RawWorld) -> None:
    pair, offsets, unknown_member = Pair(raw), raw.offsets(), raw.classic()
    assert pair.follower.beat(2) is None
    assert offsets.commit(pair.follower.member_id, 2, p2=1) is None
    for name in ("", "somebody"):
        unknown_member.member_id = name
        assert unknown_member.beat(2) == "UnknownMemberIdError"
        assert offsets.commit(name, 2, p2=9) == "UnknownMemberIdError"
    assert offsets.committed() == {2: 1}


@pytest.mark.design("000", "Consumer id assignment 2")
def test_a_rejoin_with_its_member_id_waits_for_no_former_member(raw: RawWorld) -> None:
    """No timeout is needed: sessions last a minute, and the responses arrive within seconds."""
    pair = Pair(raw)
    leader, follower, new_member = pair.leader, pair.follower, pair.new_members[0]
    before = leader.member_id, follower.member_id
    pair.join_new(new_member)
    generations = pair.join_again(new_member)
    assert (leader.member_id, follower.member_id) == before
    assert generations == dict.fromkeys((*before, new_member.member_id), 3)


@pytest.mark.design("000", "Consumer id assignment 2")
def test_a_rejoin_without_a_member_id_waits_for_the_former_member(raw: RawWorld) -> None:
    pair = Pair(raw, session_ms=SESSION_MS)
    forgetful = pair.new_members[0]
    pair.join_new(forgetful)
    assert pair.lead_alone() == {pair.leader.member_id, forgetful.member_id}
    assert receive_joins(forgetful) == {forgetful.member_id: 3}
    assert raw.lasted(pair.since_s, SESSION_S), "not before the session is over"
    assert pair.follower.beat(3) == "UnknownMemberIdError"


@pytest.mark.design("000", "Consumer id assignment 3", "Co-ordinator 5")
def test_each_join_without_a_member_id_gets_its_own(raw: RawWorld) -> None:
    pair = Pair(raw)
    for each in pair.new_members:
        pair.join_new(each)
    generations = pair.join_again(*pair.new_members)
    everybody = [pair.leader, pair.follower, *pair.new_members]
    assert generations == {each.member_id: 3 for each in everybody}
    assert len(generations) == 5


@pytest.mark.design("000", "Consumer id assignment 4")
def test_an_unknown_member_id_is_rejected_without_a_rebalance(raw: RawWorld) -> None:
    pair, unknown_member = Pair(raw), raw.classic()
    unknown_member.member_id = "somebody"
    unknown_member.send_join()
    assert name_of(unknown_member.receive_join().error_code) == "UnknownMemberIdError"
    assert pair.beats(2) == (None, None)


# --- 000 "Heartbeats during rebalance" -----------------------------------------------------------


@pytest.mark.design("000", "Heartbeats during rebalance 3")
def test_the_session_of_a_member_with_a_join_in_flight_does_not_expire(raw: RawWorld) -> None:
    pair = Pair(raw, session_ms=SESSION_MS)
    leader, follower, new_member = pair.leader, pair.follower, pair.new_members[0]
    pair.join_new(new_member)
    follower.send_join()
    raw.sleep(2.5 * SESSION_S)
    assert leader.beat(2) == "RebalanceInProgressError"
    since_s = raw.now_s()
    assert pair.lead_alone() == {each.member_id for each in (leader, follower, new_member)}
    assert set(receive_joins(follower, new_member).values()) == {3}
    pair.sync_leader(3)
    new_member.send_sync(3)
    leader.await_rebalance(3)
    assert raw.lasted(since_s, SESSION_S), "its session began with the response"
    new_member.send_join()
    assert pair.lead_alone() == {leader.member_id, new_member.member_id}


@pytest.mark.design("000", "Heartbeats during rebalance 3")
def test_a_member_that_is_silent_before_it_joins_is_left_out(raw: RawWorld) -> None:
    pair = Pair(raw, session_ms=SESSION_MS)
    new_member = pair.new_members[0]
    pair.join_new(new_member)
    assert pair.lead_alone() == {pair.leader.member_id, new_member.member_id}
    assert receive_joins(new_member) == {new_member.member_id: 3}
    assert raw.lasted(pair.since_s, SESSION_S)


@pytest.mark.design("000", "Offset commits during rebalance 4")
def test_a_member_that_does_not_join_within_the_rebalance_timeout_is_left_out(
    raw: RawWorld,
) -> None:
    """Its session has not ended, and it still sends heartbeats."""
    pair, offsets = Pair(raw), raw.offsets()
    leader, follower, new_member = pair.leader, pair.follower, pair.new_members[0]
    for each in (leader, follower, new_member):
        each.rebalance_ms = 3_000
    assert set(pair.join_again().values()) == {3}  # from now on the group has that timeout
    pair.sync_leader(3)
    follower.send_sync(3)
    assert follower.receive_sync()[0] is None
    since_s = raw.now_s()
    pair.join_new(new_member)
    leader.send_join()
    assert follower.beat(3) == "RebalanceInProgressError"
    response = leader.receive_join()
    assert raw.lasted(since_s, 3)
    assert {each.member_id for each in response.members} == {leader.member_id, new_member.member_id}
    assert follower.beat(3) == "UnknownMemberIdError"
    assert offsets.commit(follower.member_id, 3, p0=5) == "UnknownMemberIdError"


# --- 000 "Slow consumers" ------------------------------------------------------------------------


def silent(raw: RawWorld) -> Pair:
    """The follower is silent for its session timeout, and the leader must rejoin."""
    pair = Pair(raw, session_ms=SESSION_MS)
    pair.leader.await_rebalance(2)
    assert raw.lasted(pair.since_s, SESSION_S)
    assert pair.lead_alone() == {pair.leader.member_id}
    return pair


@pytest.mark.design("000", "Slow consumers 4")
def test_a_member_that_returns_after_the_rebalance_is_rejected(raw: RawWorld) -> None:
    pair, offsets = silent(raw), raw.offsets()
    # Its generation has ended too; Kafka checks the membership first.
    for generation in (2, 3):
        assert pair.follower.beat(generation) == "UnknownMemberIdError"
        rejected = offsets.commit(pair.follower.member_id, generation, p0=1)
        assert rejected == "UnknownMemberIdError"
    pair.follower.send_sync(3)
    assert pair.follower.receive_sync()[0] == "UnknownMemberIdError"


@pytest.mark.design("000", "Slow consumers 6")
def test_a_member_that_joins_after_the_round_starts_another_one(
    raw: RawWorld,
) -> None:
    pair = silent(raw)
    slow = pair.new_members[0]
    pair.join_new(slow)
    assert pair.leader.beat(3) == "RebalanceInProgressError"
    pair.leader.send_join()
    generations = receive_joins(pair.leader, slow)
    assert generations == {pair.leader.member_id: 4, slow.member_id: 4}


# --- 002 "Phase 2: Synchronizing Group State" ----------------------------------------------------


@pytest.mark.design("002", "Phase 2: Synchronizing Group State")
def test_a_sync_needs_the_member_id_generation_and_protocol(raw: RawWorld) -> None:
    pair, unknown_member = Pair(raw), raw.classic("nobody")
    unknown_member.member_id = pair.follower.member_id
    for member, generation, error in (
        (pair.follower, 1, "IllegalGenerationError"),
        (pair.follower, 3, "IllegalGenerationError"),
        (unknown_member, 2, "UnknownMemberIdError"),
    ):
        member.send_sync(generation)
        assert member.receive_sync()[0] == error
    pair.follower.protocols = {"other": b""}
    pair.follower.send_sync(2)
    assert pair.follower.receive_sync()[0] == "InconsistentGroupProtocolError"
    pair.follower.protocols = {"range": b"said"}
    pair.follower.send_sync(2)
    assert pair.follower.receive_sync() == (None, b"two"), "each time"


@pytest.mark.design("002", "Phase 2, case 3")
def test_a_follower_that_does_not_sync_is_removed_and_the_group_rejoins(
    raw: RawWorld,
) -> None:
    pair = Pair(raw, session_ms=SESSION_MS)
    since_s = raw.now_s()
    assert set(pair.join_again().values()) == {3}
    pair.sync_leader(3)
    assert pair.leader.beat(3) is None
    pair.leader.await_rebalance(3)
    assert raw.lasted(since_s, SESSION_S)
    assert pair.lead_alone() == {pair.leader.member_id}


@pytest.mark.design("002", "Phase 2, case 4")
def test_a_join_during_the_round_ends_it_for_all_members(raw: RawWorld) -> None:
    pair = Pair(raw)
    assert set(pair.join_again().values()) == {3}
    pair.follower.send_sync(3)
    assert pair.follower.is_parked()
    pair.join_new(pair.new_members[0])
    assert pair.follower.receive_sync() == ("RebalanceInProgressError", b"")
    pair.leader.send_sync(3)
    assert pair.leader.receive_sync() == ("RebalanceInProgressError", b"")
    assert pair.beats(3) == ("RebalanceInProgressError",) * 2
    generations = pair.join_again(pair.new_members[0])
    assert set(generations.values()) == {4}
    assert len(generations) == 3
