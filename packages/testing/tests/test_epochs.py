"""Epochs of a KIP-848 group and its target, and the revocations of members."""

from __future__ import annotations

from kafka import errors

from packages.testing.tests.driven import Driven, orders, subscription
from tandem_kafka_testing.coordinator.members import MemberState


def pair(driven: Driven) -> None:
    """Two members at epoch 2 with two partitions each; the next target is a second later."""
    driven.beat("a", 0)
    driven.sleep(1_000)
    driven.beat("b", 0)
    driven.beat("a", 1, owned=orders())
    driven.beat("b", 2)
    driven.sleep(900)
    members = driven.coordinator.consumer.members
    assert {len(m.assigned) for m in members.values()} == {2}
    assert {(m.epoch, m.state) for m in members.values()} == {(2, MemberState.STABLE)}


def epochs(driven: Driven) -> tuple[int, int]:
    group = driven.coordinator.consumer
    return group.epoch, group.assignment_epoch


def test_each_change_increases_the_epoch_and_the_target_follows() -> None:
    driven = Driven(assignment_interval_ms=1_000)
    driven.beat("a", 0)
    assert epochs(driven) == (1, 1)
    driven.beat("b", 0)
    driven.beat("c", 0)
    assert epochs(driven) == (3, 1)
    driven.sleep(999)
    assert driven.beat("a", 1).epoch == 1
    assert epochs(driven) == (3, 1)
    driven.sleep(1)
    assert epochs(driven) == (3, 3)
    driven.sleep(4_000)
    assert epochs(driven) == (3, 3)


def test_the_next_coordinator_makes_a_delayed_target() -> None:
    driven = Driven(assignment_interval_ms=1_000)
    driven.beat("a", 0)
    driven.beat("b", 0)
    driven.fail_over()
    assert epochs(driven) == (2, 1)
    driven.beat("a", 1)
    driven.sleep(1_000)
    assert epochs(driven) == (2, 2)
    assert len(driven.coordinator.consumer.target["b"]) == 2


def test_a_classic_member_rejoins_for_a_new_target_not_for_a_new_epoch() -> None:
    driven = Driven(assignment_interval_ms=1_000)
    driven.beat("a", 0)
    driven.sleep(1_000)
    joined = driven.join("", subscription(), new_id="classic")
    assert driven.results[joined].generation == 2
    driven.sync("classic", 2)
    driven.beat("b", 0)
    assert epochs(driven) == (3, 2)
    assert driven.heartbeat("classic", 2) is None
    assert driven.results[driven.sync("classic", 2)].error is None
    driven.sleep(1_000)
    assert driven.heartbeat("classic", 2) is errors.RebalanceInProgressError


def test_unsubscribed_partitions_are_revoked_before_the_new_target() -> None:
    driven = Driven(assignment_interval_ms=1_000)
    pair(driven)
    had = driven.coordinator.consumer.members["b"].assigned
    told = driven.beat("b", 2, topics=frozenset(["more"]), owned=had, rebalance_ms=5_000)
    assert (epochs(driven), told.epoch, told.assigned) == ((3, 2), 2, frozenset())
    assert driven.coordinator.consumer.members["b"].revoking == had
    given = driven.beat("b", 2, owned=frozenset())
    assert (given.epoch, given.assigned) == (2, None)
    driven.sleep(1_000)
    assert driven.beat("a", 2).assigned == orders(0, 1, 2, 3)


def test_unsubscribed_partitions_are_revoked_with_others() -> None:
    driven = Driven()
    driven.topics = {"orders": 2, "more": 2}
    both = frozenset(["orders", "more"])
    had = driven.beat("a", 0, topics=both).assigned
    driven.beat("b", 0, topics=both)
    driven.beat("a", 1)
    member = driven.coordinator.consumer.members["a"]
    assert (member.state, len(member.revoking)) == (MemberState.UNREVOKED, 2)
    driven.beat("a", 1, topics=frozenset(["orders"]), owned=had)
    assert {tp for tp in had if tp.topic == "more"} <= member.revoking
    assert {tp.topic for tp in member.assigned} <= {"orders"}


def test_an_old_target_assigns_no_unsubscribed_partitions() -> None:
    driven = Driven(assignment_interval_ms=1_000)
    driven.topics = {"orders": 4, "more": 2}
    driven.beat("a", 0, topics=frozenset(["orders", "more"]))
    driven.sleep(1_000)
    driven.beat("b", 0, topics=frozenset(["more"]))
    assert epochs(driven) == (2, 2)
    driven.beat("a", 1, topics=frozenset(["orders"]))
    driven.beat("a", 1, owned=orders(0, 1, 2, 3))
    assert driven.coordinator.consumer.members["a"].assigned == orders(0, 1, 2, 3)


def test_a_commit_may_have_an_older_epoch_of_the_same_assignment() -> None:
    driven = Driven()
    driven.beat("a", 0)
    driven.beat("b", 0)
    driven.beat("a", 1)
    kept = driven.coordinator.consumer.members["a"].assigned
    driven.beat("a", 1, owned=kept)
    driven.fail_over()
    mine = {f"p{tp.partition}": 5 for tp in kept}
    other = {f"p{tp.partition}": 9 for tp in orders(0, 1, 2, 3) - kept}
    assert driven.commit("a", 1, **mine) is None
    assert driven.commit("a", 1, **mine, **other) is errors.StaleMemberEpochError
    assert driven.commit("a", 0, **mine) is errors.StaleMemberEpochError
    assert driven.commit("a", 3, **mine) is errors.StaleMemberEpochError
    assert driven.commit("a", 1, producer_id=1, **other) is errors.IllegalGenerationError
    driven.coordinator.configure(commit_epochs="exact")
    assert driven.commit("a", 1, **mine) is errors.StaleMemberEpochError
    assert driven.commit("a", 2, **other) is None


def test_upgraded_members_own_their_partitions_since_the_last_generation() -> None:
    driven = Driven()
    classic = driven.alone(0, 1, 2, 3)
    driven.beat("m", 0)
    driven.join(classic, subscription(0, 1, 2, 3))
    driven.sync(classic, 2)
    kept = driven.coordinator.consumer.members[classic].assigned
    driven.join(classic, subscription(*(tp.partition for tp in kept)))
    member = driven.coordinator.consumer.members[classic]
    assert (member.epoch, set(member.since.values())) == (2, {1})
    assert driven.commit(classic, 1, **{f"p{tp.partition}": 5 for tp in kept}) is None
