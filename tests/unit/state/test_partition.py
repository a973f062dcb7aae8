"""One assigned partition: its states and its position."""

from __future__ import annotations

import itertools

import pytest

from tandem_kafka.state.partition import (
    TRANSITIONS,
    AssignedPartition,
    Changes,
    Consumed,
    FetchState,
    Position,
    PreferredReplica,
)
from tandem_kafka.types import TopicPartition

TP = TopicPartition("orders", 0)


def at(offset: int) -> AssignedPartition:
    state = AssignedPartition(TP)
    state.set_position(Position(offset))
    return state


@pytest.mark.parametrize(("start", "to"), list(itertools.product(FetchState, FetchState)))
def test_only_transitions_of_the_table_are_possible(start: FetchState, to: FetchState) -> None:
    state = AssignedPartition(TP)
    state.state = start
    if to is start or to in TRANSITIONS[start]:
        state._move(to)
        assert state.state is to
    else:
        with pytest.raises(AssertionError, match="not allowed"):
            state._move(to)


def test_a_partition_starts_without_a_position() -> None:
    state = AssignedPartition(TP)
    assert state.position is None
    assert not state.has_valid_position
    assert not state.fetchable


def test_the_position_is_the_base_or_the_progress_from_it() -> None:
    state = at(5)
    base = state.base
    assert base is not None
    state.consumed = Consumed(base, Position(9))
    assert state.position.offset == 9
    state.set_position(Position(5))
    assert state.position.offset == 5, "records of an old base do not move a new one"


def test_two_seeks_to_the_same_offset_are_two_positions() -> None:
    assert Position(1) != Position(1)


def test_a_reset_drops_position_and_replica() -> None:
    state = at(5)
    state.preferred_replica = PreferredReplica(2, 10)
    state.await_reset(-2)
    assert state.position is None
    assert state.preferred_replica is None
    assert state.reset_timestamp == -2
    state.set_position(Position(0))
    assert state.reset_timestamp is None


def test_validation_keeps_the_position() -> None:
    state = at(5)
    base = state.base
    state.await_validation()
    assert state.position is base
    assert not state.fetchable
    state.validated()
    assert state.base is base
    assert state.fetchable


def test_a_position_may_need_validation_first() -> None:
    state = AssignedPartition(TP)
    state.set_position(Position(5, 2), validate=True)
    assert state.state is FetchState.AWAIT_VALIDATION


@pytest.mark.parametrize(
    "obstacle", ["paused", "pending_revocation", "awaiting_callback", "dropped"]
)
def test_conditions_that_prevent_a_fetch(obstacle: str) -> None:
    state = at(5)
    assert state.fetchable
    setattr(state, obstacle, True)
    assert not state.fetchable
    assert not state.returnable


def test_a_buffered_error_prevents_a_fetch() -> None:
    state = at(5)
    state.errors_put = 1
    assert not state.fetchable
    state.errors_taken = 1
    assert state.fetchable


def test_waiting_for_the_drain_ends_when_all_records_are_returned() -> None:
    state = at(5)
    state.read_ahead = 9
    state.wait_for_drain = True
    assert not state.fetchable
    assert state.base is not None
    state.consumed = Consumed(state.base, Position(9))
    assert state.fetchable


def test_held_bytes_are_the_difference_of_the_counters() -> None:
    state = at(5)
    state.buffered_bytes, state.released_bytes = 100, 30
    assert state.held_bytes == 70


def test_the_repr_of_a_partition() -> None:
    assert repr(at(5)) == "<orders-0 fetching, offset 5>"
    assert "no position" in repr(AssignedPartition(TP))


def test_changes_that_affect_fetching_are_recorded() -> None:
    changes = Changes()
    state = AssignedPartition(TP, changes)
    for change in (
        lambda: state.set_position(Position(5)),
        lambda: setattr(state, "paused", True),
        lambda: setattr(state, "pending_revocation", False),
        lambda: setattr(state, "awaiting_callback", True),
        lambda: setattr(state, "dropped", True),
        lambda: setattr(state, "stop_at", 9),
        state.await_validation,
        state.validated,
        lambda: state.await_reset(-1),
    ):
        count = changes.count
        changes.states.clear()
        change()
        assert list(changes.states) == [state]
        assert changes.count > count


def test_a_new_position_ends_all_waits_of_the_old_one() -> None:
    state = AssignedPartition(TopicPartition("orders", 0))
    state.set_position(Position(5))
    state.read_ahead, state.wait_for_drain = 9, True
    assert not state.fetchable
    state.set_position(Position(7))
    assert state.fetchable
    assert not state.waits_for_application
