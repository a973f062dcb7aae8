"""Scenarios of documents 000 and 002 that are the coordinator's alone, by their sections.

Requests are put to it as a client would never send them, and time passes by the millisecond.
"""

from __future__ import annotations

from typing import Any

from kafka import errors

from tandem_kafka.testing.coordinator.classic_group_member import GroupState
from tests.unit.testing.driven import Driven, assignment_of

SESSION_MS = 10_000


class Pair:
    """A leader and a follower in generation 2, with two partitions each."""

    def __init__(self) -> None:
        self.driven = Driven()
        self.group = self.driven.coordinator.classic
        self.leader = self.driven.alone(0, 1, 2, 3)
        newcomer = self.driven.join("")
        self.driven.join(self.leader)
        self.follower = str(self.driven.answers[newcomer].member_id)
        self.sync_follower()
        self.sync_leader()
        assert (self.group.state, self.group.generation) == (GroupState.STABLE, 2)

    def sync_leader(self) -> None:
        assigned = {self.leader: assignment_of(0, 1), self.follower: assignment_of(2, 3)}
        self.driven.sync(self.leader, self.group.generation, **assigned)

    def sync_follower(self) -> Any:
        return self.driven.sync(self.follower, self.group.generation)

    def beats(self) -> tuple[Any, Any]:
        generation = self.group.generation
        leads, follows = self.leader, self.follower
        return self.driven.heartbeat(leads, generation), self.driven.heartbeat(follows, generation)


# --- 000 "Failure detection protocol", "Offset commits during rebalance" -------------------------


def test_000_failure_detection_2_id_and_generation_are_checked() -> None:
    pair = Pair()
    assert pair.driven.heartbeat(pair.leader, 1) is errors.IllegalGenerationError, "stale"
    assert pair.driven.heartbeat(pair.leader, 3) is errors.IllegalGenerationError, "invalid"
    assert pair.driven.heartbeat("nobody", 2) is errors.UnknownMemberIdError
    assert pair.beats() == (None, None)
    never_was = Driven()
    assert never_was.heartbeat(pair.leader, 2) is errors.UnknownMemberIdError


def test_000_commits_2_one_of_a_higher_generation_is_refused() -> None:
    pair = Pair()
    assert pair.driven.commit(pair.leader, 3, p0=5) is errors.IllegalGenerationError
    assert pair.driven.committed() == {}
    assert pair.driven.commit(pair.leader, 2, p0=5) is None
    assert pair.driven.committed() == {0: 5}


# --- 000 "Consumer id assignment" ----------------------------------------------------------------


def test_000_ids_1_a_member_is_known_by_the_id_that_its_first_join_brought() -> None:
    pair = Pair()
    assert pair.driven.heartbeat(pair.follower, 2) is None
    assert pair.driven.commit(pair.follower, 2, p2=1) is None
    for stranger in ("", "somebody"):
        assert pair.driven.heartbeat(stranger, 2) is errors.UnknownMemberIdError
        assert pair.driven.commit(stranger, 2, p2=9) is errors.UnknownMemberIdError
    assert pair.driven.committed() == {2: 1}


def test_000_ids_2_who_names_its_id_is_not_waited_for_as_another() -> None:
    pair = Pair()
    newcomer = pair.driven.join("")
    again = [pair.driven.join(pair.leader), pair.driven.join(pair.follower)]
    assert pair.driven.now_ms == 0, "no session has to pass"
    assert [pair.driven.answers[r].member_id for r in again] == [pair.leader, pair.follower]
    assert {pair.driven.answers[r].generation for r in (newcomer, *again)} == {3}


def test_000_ids_2_who_joins_without_its_id_has_its_old_self_waited_for() -> None:
    pair = Pair()
    forgetful = pair.driven.join("")
    pair.driven.join(pair.leader)
    pair.driven.sleep(SESSION_MS - 1)
    assert forgetful not in pair.driven.answers
    pair.driven.sleep(1)
    assert pair.driven.answers[forgetful].generation == 3
    assert pair.follower not in pair.group.members


def test_000_ids_3_each_that_has_none_gets_one_of_its_own() -> None:
    pair = Pair()
    newcomers = [pair.driven.join("") for _ in range(3)]
    for member_id in (pair.leader, pair.follower):
        pair.driven.join(member_id)
    ids = {pair.driven.answers[each].member_id for each in newcomers}
    assert len(ids) == 3
    assert set(pair.group.members) == {pair.leader, pair.follower, *ids}


def test_000_ids_4_an_unknown_id_is_refused_and_the_others_notice_nothing() -> None:
    pair = Pair()
    refused = pair.driven.join("somebody")
    assert pair.driven.answers[refused].error is errors.UnknownMemberIdError
    assert (pair.group.state, pair.group.generation) == (GroupState.STABLE, 2)
    assert pair.beats() == (None, None)


# --- 000 "Heartbeats during rebalance" -----------------------------------------------------------


def test_000_heartbeats_3_who_waits_for_the_answer_to_its_join_is_not_missed() -> None:
    pair = Pair()
    waiting = pair.driven.join(pair.follower, rebalance_ms=60_000)
    assert pair.driven.answers[waiting].generation == 2, "nothing has changed for it"
    newcomer = pair.driven.join("")
    waiting = pair.driven.join(pair.follower)
    for _ in range(5):
        pair.driven.sleep(SESSION_MS - 1)
        told = pair.driven.heartbeat(pair.leader, 2)
        assert told is errors.RebalanceInProgressError
    assert pair.follower in pair.group.members, "five sessions without a heartbeat"
    pair.driven.join(pair.leader)
    assert pair.driven.answers[waiting].generation == 3
    joined = pair.driven.now_ms
    pair.driven.sync(pair.driven.answers[newcomer].member_id, 3)
    pair.sync_leader()
    pair.driven.sleep(SESSION_MS - 1)
    assert pair.follower in pair.group.members
    pair.driven.sleep(1)
    assert pair.follower not in pair.group.members, "its session began with the answer"
    assert pair.driven.now_ms == joined + SESSION_MS


def test_000_heartbeats_3_who_is_silent_before_it_joins_is_left_out() -> None:
    pair = Pair()
    newcomer = pair.driven.join("")
    pair.driven.join(pair.leader)
    pair.driven.sleep(SESSION_MS)
    assert pair.driven.answers[newcomer].generation == 3
    assert pair.follower not in pair.group.members


# --- 000 "Slow consumers" ------------------------------------------------------------------------


def test_000_slow_consumers_4_who_comes_back_after_the_rebalance_is_told_so() -> None:
    pair = Pair()
    pair.driven.sleep(SESSION_MS - 1)
    assert pair.driven.heartbeat(pair.leader, 2) is None
    pair.driven.sleep(1)
    assert pair.driven.heartbeat(pair.leader, 2) is errors.RebalanceInProgressError
    assert pair.driven.answers[pair.driven.join(pair.leader)].generation == 3
    # Its generation is over too; Kafka tells it first that it is no member.
    assert pair.driven.heartbeat(pair.follower, 2) is errors.UnknownMemberIdError
    assert pair.driven.heartbeat(pair.follower, 3) is errors.UnknownMemberIdError


def test_000_slow_consumers_6_who_comes_when_the_others_are_answered_begins_another_round() -> None:
    pair = Pair()
    pair.driven.sleep(SESSION_MS - 1)
    pair.driven.heartbeat(pair.leader, 2)
    pair.driven.sleep(1)
    alone = pair.driven.join(pair.leader)
    assert pair.driven.answers[alone].generation == 3, "the round without it is complete"
    slow = pair.driven.join("")
    assert slow not in pair.driven.answers
    assert pair.driven.heartbeat(pair.leader, 3) is errors.RebalanceInProgressError
    again = pair.driven.join(pair.leader)
    assert pair.driven.answers[slow].generation == pair.driven.answers[again].generation == 4


# --- 002 "Phase 2: Synchronizing Group State" ----------------------------------------------------


def synchronizing() -> Pair:
    """Both have joined generation 3, and the assignment is awaited."""
    pair = Pair()
    pair.driven.join(pair.leader)
    pair.driven.join(pair.follower)
    assert (pair.group.state, pair.group.generation) == (GroupState.SYNCING, 3)
    return pair


def test_002_phase_2_case_3_a_follower_that_does_not_sync_is_removed_and_all_join_again() -> None:
    pair = synchronizing()
    pair.sync_leader()
    pair.driven.sleep(SESSION_MS - 1)
    assert pair.driven.heartbeat(pair.leader, 3) is None
    pair.driven.sleep(1)
    assert pair.follower not in pair.group.members
    assert pair.driven.heartbeat(pair.leader, 3) is errors.RebalanceInProgressError
    assert pair.driven.answers[pair.driven.join(pair.leader)].generation == 4


def test_002_phase_2_case_4_who_joins_meanwhile_ends_the_round_for_all() -> None:
    pair = synchronizing()
    waiting = pair.sync_follower()
    assert waiting not in pair.driven.answers
    newcomer = pair.driven.join("")
    assert pair.driven.answers[waiting].error is errors.RebalanceInProgressError
    late = pair.driven.sync(pair.leader, 3, **{pair.leader: assignment_of(0, 1, 2, 3)})
    assert pair.driven.answers[late].error is errors.RebalanceInProgressError
    for member_id in (pair.leader, pair.follower):
        pair.driven.join(member_id)
    assert pair.driven.answers[newcomer].generation == pair.group.generation == 4
    assert len(pair.group.members) == 3
