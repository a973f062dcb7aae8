"""The subscription state."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tandem_kafka.errors import IllegalStateError, NotAssignedError
from tandem_kafka.state.partition import Consumed, Position
from tandem_kafka.state.subscription import SubscriptionKind, SubscriptionState
from tandem_kafka.types import OffsetAndMetadata, TopicPartition
from tests.tier import bytecodes
from tests.unit.interrupts import Interrupter

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)

WAYS: dict[str, Callable[[SubscriptionState], object]] = {
    "topics": lambda s: s.subscribe(["a"]),
    "pattern": lambda s: s.subscribe_pattern(re.compile("a")),
    "partitions": lambda s: s.assign_by_user([A0]),
}


@pytest.mark.behaviour(14)
@pytest.mark.parametrize("first", WAYS)
@pytest.mark.parametrize("second", WAYS)
def test_kinds_of_subscription_exclude_each_other(first: str, second: str) -> None:
    state = SubscriptionState()
    WAYS[first](state)
    kind = state.kind
    if first == second:
        WAYS[second](state)
    else:
        with pytest.raises(IllegalStateError, match="mutually exclusive"):
            WAYS[second](state)
    assert state.kind is kind
    state.unsubscribe()
    WAYS[second](state)


def test_subscribing_returns_whether_anything_changed() -> None:
    state = SubscriptionState()
    assert state.subscribe(["a", "b"])
    assert not state.subscribe(["b", "a"])
    assert state.subscribe(["a"])
    assert state.auto_assigned
    assert state.topics_of_interest() == {"a"}


@pytest.mark.behaviour(47)
def test_another_pattern_replaces_the_first() -> None:
    state = SubscriptionState()
    state.subscribe_pattern(re.compile("a"))
    assert not state.resolved
    assert state.set_matched(["a1"])
    assert state.resolved
    state.subscribe_pattern(re.compile("a"))
    assert state.resolved, "the same pattern is already resolved"
    state.subscribe_pattern(re.compile("b"))
    assert not state.resolved
    assert not state.set_matched(["a1"])


@pytest.mark.behaviour(75)
def test_partitions_that_stay_keep_their_state() -> None:
    state = SubscriptionState()
    state.assign_by_user([A0])
    kept, version = state.get(A0), state.version
    kept.paused = True
    state.assign_by_user([A0, A1])
    assert state.get(A0) is kept
    assert state.version > version
    state.assign_by_user([A1])
    state.assign_by_user([A0])
    assert state.get(A0) is not kept
    assert not state.get(A0).paused


@pytest.mark.behaviour(75)
@pytest.mark.parametrize("again", ["set_assigned", "assign_by_user"])
def test_partitions_that_stay_keep_their_pause(again: str) -> None:
    subscription = SubscriptionState()
    subscription.assign_by_user([A0, A1])
    subscription.get(A0).paused = True
    subscription.get(A0).stop_at = 7
    getattr(subscription, again)([A0])
    getattr(subscription, again)([A0, A1])
    assert subscription.get(A0).paused
    assert not subscription.get(A0).returnable
    assert subscription.get(A0).stop_at == 7
    assert not subscription.get(A1).paused


@pytest.mark.behaviour(15)
def test_an_unassigned_partition_is_an_error() -> None:
    with pytest.raises(NotAssignedError, match="No current assignment for partition a-0"):
        SubscriptionState().get(A0)


@pytest.mark.behaviour(118)
def test_a_commit_covers_the_returned_records() -> None:
    state = SubscriptionState()
    state.assign_by_user([A0, A1])
    partition = state.get(A0)
    partition.set_position(Position(5, 2))
    assert partition.base is not None
    partition.consumed = Consumed(partition.base, Position(9, 3))
    assert state.consumed_offsets() == {A0: OffsetAndMetadata(9, "", 3)}
    partition.await_validation()
    assert A0 in state.consumed_offsets()
    partition.await_reset(-1)
    assert state.consumed_offsets() == {}


def test_partitions_without_a_position() -> None:
    state = SubscriptionState()
    assert state.all_settled()
    state.assign_by_user([A0, A1])
    assert [each.tp for each in state.without_position()] == [A0, A1]
    state.get(A0).set_position(Position(1))
    assert [each.tp for each in state.without_position()] == [A1]
    assert not state.all_settled()


def test_unsubscribing_drops_everything() -> None:
    state = SubscriptionState()
    state.subscribe_pattern(re.compile("a"))
    state.set_matched(["a"])
    state.set_assigned([A0])
    state.unsubscribe()
    assert state.kind is SubscriptionKind.NONE
    assert (state.topics, state.pattern, dict(state.assigned)) == (frozenset(), None, {})
    assert not state.auto_assigned


def test_topics_of_interest_follow_subscription_and_assignment() -> None:
    state = SubscriptionState()
    state.subscribe(["orders"])
    assert state.topics_of_interest() == {"orders"}
    state.subscribe(["payments"])
    assert state.topics_of_interest() == {"payments"}
    state.set_assigned([A0])
    assert state.topics_of_interest() == {"payments", A0.topic}


def test_topics_of_interest_are_right_although_they_change_while_the_application_looks() -> None:
    """poll() looks when it raises an error. Otherwise, no metadata are requested for a new one."""
    for at in bytecodes():
        state = SubscriptionState()
        state.subscribe_pattern(re.compile("."))

        def change(state: SubscriptionState = state) -> None:
            state.set_matched(["a", "b"])
            state.set_assigned([A0])

        interrupter = Interrupter(at, change)
        interrupter.call(state.topics_of_interest)
        if interrupter.frame is None:
            break
        assert state.topics_of_interest() == {"a", "b"}
    assert at > 10
