"""Conversions of groups with members from one protocol to the other."""

from __future__ import annotations

from typing import Any

import pytest
from kafka import errors

from packages.testing.tests.driven import Driven, assignment_of, orders, subscription
from tandem_kafka_testing.coordinator.classic import ClassicGroupState
from tandem_kafka_testing.coordinator.consumer_protocol import read_assignment
from tandem_kafka_testing.coordinator.requests import Expel, LeaveGroup


def upgraded(**settings: Any) -> tuple[Driven, str]:
    """A classic member with all partitions, and a KIP-848 member `m` that has just joined."""
    driven = Driven(**settings)
    classic = driven.alone(0, 1, 2, 3)
    assert driven.beat("m", 0).error is None
    return driven, classic


def rejoin(driven: Driven, member_id: str, *has: int, **fields: Any) -> tuple[int, set[int]]:
    """Let a classic member join and sync; returns its generation and partition numbers."""
    joined = driven.results[driven.join(member_id, subscription(*has), **fields)]
    assert joined.error is None
    assert (joined.leader, joined.members) == ("", []), "no member has to assign"
    synced = driven.results[driven.sync(member_id, joined.generation)]
    assert synced.error is None
    return joined.generation, {tp.partition for tp in read_assignment(synced.assignment)}


# --- up ------------------------------------------------------------------------------------------


def test_a_kip_848_member_upgrades_a_classic_group() -> None:
    driven, classic = upgraded()
    group = driven.coordinator.consumer
    assert group.epoch == 2, "the generation, plus one for the new member"
    assert set(group.members) == {classic, "m"}
    assert group.members[classic].assigned == orders(0, 1, 2, 3)
    assert group.members["m"].assigned == orders(), "no member has revoked yet"
    assert not driven.coordinator.classic.members
    assert driven.heartbeat(classic, 1) is errors.RebalanceInProgressError


def test_an_eager_member_joins_without_partitions_and_is_assigned_at_once() -> None:
    driven, classic = upgraded()
    generation, mine = rejoin(driven, classic)
    assert (generation, len(mine)) == (2, 2)
    assert driven.heartbeat(classic, 2) is None
    theirs = driven.beat("m", 2).assigned
    assert {tp.partition for tp in theirs} == {0, 1, 2, 3} - mine


def test_a_cooperative_member_revokes_first_and_joins_again() -> None:
    driven, classic = upgraded()
    generation, kept = rejoin(driven, classic, 0, 1, 2, 3)
    assert (generation, len(kept)) == (1, 2), "its epoch is the old one until it has revoked"
    assert driven.beat("m", 2).assigned is None
    assert driven.heartbeat(classic, 1) is errors.RebalanceInProgressError
    assert rejoin(driven, classic, *kept) == (2, kept)
    assert driven.heartbeat(classic, 2) is None
    theirs = driven.beat("m", 2).assigned
    assert {tp.partition for tp in theirs} == {0, 1, 2, 3} - kept


def test_a_classic_member_rejoins_when_its_missing_partitions_are_free() -> None:
    driven = Driven()
    driven.beat("m", 0)
    joined = driven.results[driven.join("", new_id="c")]
    assert driven.coordinator.consumer.members["c"].classic is not None
    assert (
        read_assignment(driven.results[driven.sync("c", joined.generation)].assignment) == orders()
    )
    assert driven.heartbeat("c", 2) is None, "there is nothing to take yet"
    kept = driven.beat("m", 1).assigned
    driven.beat("m", 1, owned=kept)
    assert driven.heartbeat("c", 2) is errors.RebalanceInProgressError
    generation, numbers = rejoin(driven, "c")
    assert (generation, len(numbers)) == (2, 2)
    assert driven.heartbeat("c", 2) is None


def test_parked_members_rejoin_after_an_upgrade() -> None:
    driven = Driven()
    driven.alone(0, 1, 2, 3)
    parked = driven.join("")
    assert parked not in driven.results
    driven.beat("m", 0)
    assert driven.results[parked].error is errors.RebalanceInProgressError


def test_members_of_an_unassigned_generation_rejoin_after_an_upgrade() -> None:
    driven = Driven()
    first = driven.alone(0, 1, 2, 3)
    new_member = driven.join("")
    driven.join(first)
    second = driven.results[new_member].member_id
    waiting = driven.sync(second, 2)
    driven.beat("m", 0)
    assert driven.results[waiting].error is errors.RebalanceInProgressError
    synced = driven.sync(first, 2, **{second: assignment_of(0)})
    assert driven.results[synced].error is errors.RebalanceInProgressError


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
def test_the_migration_policy_may_reject_a_kip_848_member(policy: str) -> None:
    driven = Driven(migration_policy=policy)
    classic = driven.alone(0, 1, 2, 3)
    assert driven.beat("m", 0).error is errors.GroupIdNotFoundError
    assert driven.heartbeat(classic, 1) is None


def test_a_group_of_another_protocol_type_is_not_upgraded() -> None:
    driven = Driven()
    driven.join("", protocol_type="connect")
    assert driven.beat("m", 0).error is errors.GroupIdNotFoundError


def test_a_group_with_malformed_metadata_is_not_upgraded() -> None:
    driven = Driven()
    driven.join("", b"\xff")
    assert driven.beat("m", 0).error is errors.GroupIdNotFoundError


# --- in between ----------------------------------------------------------------------------------


def test_a_member_that_does_not_rejoin_in_time_is_removed() -> None:
    driven, classic = upgraded(session_timeout_ms=1_000_000)
    driven.join(classic, subscription(0, 1, 2, 3), rebalance_ms=20_000)
    driven.sync(classic, 1)
    for _ in range(4):
        assert driven.heartbeat(classic, 1) is errors.RebalanceInProgressError
        driven.sleep(5_000)
    assert driven.heartbeat(classic, 1) is errors.UnknownMemberIdError
    assert driven.beat("m", 2).assigned == orders(0, 1, 2, 3)


def test_a_rejoined_member_must_sync_in_time() -> None:
    driven, classic = upgraded(session_timeout_ms=1_000_000)
    driven.join(classic, session_ms=1_000_000, rebalance_ms=20_000)
    driven.sleep(19_999)
    assert classic in driven.coordinator.consumer.members
    driven.sleep(1)
    assert classic not in driven.coordinator.consumer.members


def test_a_classic_member_keeps_its_session_timeout_after_an_upgrade() -> None:
    driven, classic = upgraded(session_timeout_ms=1_000_000)
    rejoin(driven, classic, session_ms=12_000)
    driven.sleep(11_999)
    assert driven.heartbeat(classic, 2) is None
    driven.sleep(12_000)
    assert driven.heartbeat(classic, 2) is errors.UnknownMemberIdError


def test_requests_with_wrong_ids_or_protocols_are_rejected() -> None:
    driven, classic = upgraded()
    assert driven.heartbeat("m", 2) is errors.UnknownMemberIdError
    assert driven.ask(LeaveGroup(member_id="somebody")) is errors.UnknownMemberIdError
    assert driven.heartbeat(classic, 7) is errors.IllegalGenerationError
    assert driven.commit(classic, 7, p0=1) is errors.IllegalGenerationError
    assert driven.commit("m", 7, p0=1) is errors.StaleMemberEpochError
    assert driven.commit(classic, 1, p0=1) is None
    behind = driven.sync(classic, 1)
    assert driven.results[behind].error is errors.RebalanceInProgressError
    odd = driven.join("", protocols={"sticky": subscription()})
    assert driven.results[odd].error is errors.InconsistentGroupProtocolError


def test_a_static_member_changes_its_protocol_without_having_left() -> None:
    driven = Driven()
    joined = driven.results[driven.join("", instance_id="one")]
    driven.sync(joined.member_id, 1, **{joined.member_id: assignment_of(0, 1, 2, 3)})
    answer = driven.beat("m", 0, instance_id="one")
    assert (answer.error, answer.assigned) == (None, orders(0, 1, 2, 3))
    assert set(driven.coordinator.consumer.members) == {"m"}
    assert driven.heartbeat(joined.member_id, 1) is errors.UnknownMemberIdError


@pytest.mark.design("all", "Change of the group protocol")
def test_a_mixed_group_is_restored_from_its_log() -> None:
    driven, classic = upgraded()
    _, kept = rejoin(driven, classic, 0, 1, 2, 3)
    driven.fail_over()
    assert driven.heartbeat(classic, 1) is errors.RebalanceInProgressError
    assert rejoin(driven, classic, *kept) == (2, kept)
    driven.fail_over()
    assert len(driven.beat("m", 2).assigned) == 2
    driven.ask(Expel(member_id="m"))
    driven.fail_over()
    assert driven.coordinator.classic.generation == 2
    assert set(driven.coordinator.classic.members) == {classic}
    assert not driven.coordinator.consumer.members


# --- down ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["leaves", "expires"])
def test_without_its_last_kip_848_member_a_group_is_classic_again(how: str) -> None:
    driven, classic = upgraded(session_timeout_ms=5_000)
    rejoin(driven, classic)
    assert driven.commit(classic, 2, p0=4) is None
    if how == "leaves":
        assert driven.beat("m", -1).error is None
    else:
        driven.sleep(5_000)
    group = driven.coordinator.classic
    assert (group.state, group.generation) == (ClassicGroupState.JOINING, 2)
    assert driven.heartbeat(classic, 2) is errors.RebalanceInProgressError
    joined = driven.results[driven.join(classic)]
    assert (joined.generation, joined.leader) == (3, classic)
    assert driven.committed() == {0: 4}


def test_the_migration_policy_may_prevent_a_downgrade() -> None:
    driven, classic = upgraded(migration_policy="upgrade")
    driven.beat("m", -1)
    assert set(driven.coordinator.consumer.members) == {classic}
    generation, numbers = rejoin(driven, classic)
    assert (generation, numbers) == (3, {0, 1, 2, 3})
    assert driven.heartbeat(classic, 3) is None


def test_a_classic_static_member_replaces_the_last_kip_848_member() -> None:
    driven = Driven()
    driven.beat("m", 0, instance_id="one")
    first = driven.results[driven.join("", new_id="c")]
    rejoin(driven, "c")
    kept = driven.beat("m", 1).assigned
    driven.beat("m", 1, owned=kept)
    rejoin(driven, "c")
    assert first.error is None
    joined = driven.results[driven.join("", new_id="again", instance_id="one")]
    group = driven.coordinator.classic
    assert (group.state, group.generation) == (ClassicGroupState.STABLE, joined.generation)
    synced = driven.results[driven.sync("again", joined.generation)]
    assert read_assignment(synced.assignment) == kept
    assert driven.heartbeat("c", group.generation) is None, "no member has to rejoin"


def test_an_empty_group_accepts_either_protocol() -> None:
    driven = Driven()
    driven.beat("m", 0)
    assert driven.commit("m", 1, p0=5) is None
    driven.beat("m", -1)
    classic = driven.alone(0)
    assert driven.heartbeat(classic, 1) is None, "generations start again"
    driven.ask(LeaveGroup(member_id=classic))
    assert driven.beat("m", 0).epoch == 1, "and epochs"
    assert driven.committed() == {0: 5}


def test_stale_ownership_is_known_until_the_member_rejoins() -> None:
    driven = Driven()
    first = driven.alone(0, 1, 2, 3)
    driven.join(first, subscription(0, 1, 2, 3, topics=["orders", "more"]))
    driven.sync(first, 2, **{first: assignment_of(0, 1)})
    driven.beat("m", 0)
    assert driven.coordinator.consumer.stale_ownership == {first: orders(2, 3)}
    driven.join(first, subscription(0, topics=["orders", "more"]))
    assert driven.coordinator.consumer.stale_ownership == {first: frozenset()}


def test_stale_ownership_is_known_through_all_conversions() -> None:
    driven = Driven()
    first = driven.alone(0, 1, 2, 3)
    for epoch in (2, 3, 4):
        assert driven.beat("m", 0).epoch == epoch
        assert len(driven.coordinator.consumer.members[first].assigned) == (4 if epoch == 2 else 2)
        free = frozenset() if epoch == 2 else driven.coordinator.consumer.members["m"].assigned
        assert driven.coordinator.consumer.stale_ownership == {first: free}
        assert driven.beat("m", -1).error is None
