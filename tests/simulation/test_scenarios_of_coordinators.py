"""Scenarios of documents 000 and 002 for the coordinator, exact to the millisecond.

`tests/integration/test_coordinator_scenarios.py` runs them and others with a real coordinator, but
without exact times.
"""

from __future__ import annotations

import pytest
from kafka import errors

from packages.testing.tests.driven import Driven, assignment_of
from tandem_kafka_testing.coordinator.classic_group_member import ClassicGroupState

SESSION_MS = 10_000


class Pair:
    """A leader and a follower in generation 2, with two partitions each."""

    def __init__(self) -> None:
        self.driven = Driven()
        self.group = self.driven.coordinator.classic
        self.leader = self.driven.alone(0, 1, 2, 3)
        new_member = self.driven.join("")
        self.driven.join(self.leader)
        self.follower = str(self.driven.results[new_member].member_id)
        self.driven.sync(self.follower, self.group.generation)
        self.sync_leader()
        assert (self.group.state, self.group.generation) == (ClassicGroupState.STABLE, 2)

    def sync_leader(self) -> None:
        assigned = {self.leader: assignment_of(0, 1), self.follower: assignment_of(2, 3)}
        self.driven.sync(self.leader, self.group.generation, **assigned)


# --- 000 "Consumer id assignment" ----------------------------------------------------------------


@pytest.mark.design("000", "Consumer id assignment 2")
def test_a_rejoin_without_a_member_id_waits_for_the_former_member() -> None:
    pair = Pair()
    forgetful = pair.driven.join("")
    pair.driven.join(pair.leader)
    pair.driven.sleep(SESSION_MS - 1)
    assert forgetful not in pair.driven.results
    pair.driven.sleep(1)
    assert pair.driven.results[forgetful].generation == 3
    assert pair.follower not in pair.group.members


# --- 000 "Heartbeats during rebalance" -----------------------------------------------------------


@pytest.mark.design("000", "Heartbeats during rebalance 3")
def test_the_session_of_a_member_with_a_join_in_flight_does_not_expire() -> None:
    pair = Pair()
    waiting = pair.driven.join(pair.follower, rebalance_ms=60_000)
    assert pair.driven.results[waiting].generation == 2, "nothing has changed for it"
    new_member = pair.driven.join("")
    waiting = pair.driven.join(pair.follower)
    for _ in range(5):
        pair.driven.sleep(SESSION_MS - 1)
        error = pair.driven.heartbeat(pair.leader, 2)
        assert error is errors.RebalanceInProgressError
    assert pair.follower in pair.group.members, "five sessions without a heartbeat"
    pair.driven.join(pair.leader)
    assert pair.driven.results[waiting].generation == 3
    joined = pair.driven.now_ms
    pair.driven.sync(pair.driven.results[new_member].member_id, 3)
    pair.sync_leader()
    pair.driven.sleep(SESSION_MS - 1)
    assert pair.follower in pair.group.members
    pair.driven.sleep(1)
    assert pair.follower not in pair.group.members, "its session began with the answer"
    assert pair.driven.now_ms == joined + SESSION_MS


@pytest.mark.design("000", "Heartbeats during rebalance 3")
def test_a_member_that_is_silent_before_it_joins_is_left_out() -> None:
    pair = Pair()
    new_member = pair.driven.join("")
    pair.driven.join(pair.leader)
    pair.driven.sleep(SESSION_MS)
    assert pair.driven.results[new_member].generation == 3
    assert pair.follower not in pair.group.members


# --- 000 "Slow consumers" ------------------------------------------------------------------------


@pytest.mark.design("000", "Slow consumers 4")
def test_a_member_that_returns_after_the_rebalance_is_rejected() -> None:
    pair = Pair()
    pair.driven.sleep(SESSION_MS - 1)
    assert pair.driven.heartbeat(pair.leader, 2) is None
    pair.driven.sleep(1)
    assert pair.driven.heartbeat(pair.leader, 2) is errors.RebalanceInProgressError
    assert pair.driven.results[pair.driven.join(pair.leader)].generation == 3
    # Its generation is also old; Kafka reports the unknown member first.
    assert pair.driven.heartbeat(pair.follower, 2) is errors.UnknownMemberIdError
    assert pair.driven.heartbeat(pair.follower, 3) is errors.UnknownMemberIdError


@pytest.mark.design("000", "Slow consumers 6")
def test_a_member_that_joins_after_the_round_starts_another_one() -> None:
    pair = Pair()
    pair.driven.sleep(SESSION_MS - 1)
    pair.driven.heartbeat(pair.leader, 2)
    pair.driven.sleep(1)
    alone = pair.driven.join(pair.leader)
    assert pair.driven.results[alone].generation == 3, "the round without it is complete"
    slow = pair.driven.join("")
    assert slow not in pair.driven.results
    assert pair.driven.heartbeat(pair.leader, 3) is errors.RebalanceInProgressError
    again = pair.driven.join(pair.leader)
    assert pair.driven.results[slow].generation == pair.driven.results[again].generation == 4


# --- 002 "Phase 2: Synchronizing Group State" ----------------------------------------------------


def synchronizing() -> Pair:
    """Both have joined generation 3, and wait for the assignment."""
    pair = Pair()
    pair.driven.join(pair.leader)
    pair.driven.join(pair.follower)
    assert (pair.group.state, pair.group.generation) == (ClassicGroupState.SYNCING, 3)
    return pair


@pytest.mark.design("002", "Phase 2, case 3")
def test_a_follower_that_does_not_sync_is_removed_and_the_group_rejoins() -> None:
    pair = synchronizing()
    pair.sync_leader()
    pair.driven.sleep(SESSION_MS - 1)
    assert pair.driven.heartbeat(pair.leader, 3) is None
    pair.driven.sleep(1)
    assert pair.follower not in pair.group.members
    assert pair.driven.heartbeat(pair.leader, 3) is errors.RebalanceInProgressError
    assert pair.driven.results[pair.driven.join(pair.leader)].generation == 4
