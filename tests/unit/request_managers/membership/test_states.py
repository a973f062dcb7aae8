"""The table of member states."""

from __future__ import annotations

import itertools

import pytest

from tandem_kafka.request_managers.membership.states import (
    TRANSITIONS,
    IllegalTransitionError,
    MemberStateMachine,
    State,
)


@pytest.mark.parametrize(("start", "to"), list(itertools.product(State, State)))
def test_only_what_the_table_has_is_possible(start: State, to: State) -> None:
    machine = MemberStateMachine()
    machine.state = start
    if to is start or to in TRANSITIONS[start]:
        machine.move(to)
        assert machine.state is to
    else:
        with pytest.raises(IllegalTransitionError):
            machine.move(to)
        assert machine.state is start


def test_every_state_can_be_left_and_reached() -> None:
    for state in State:
        assert TRANSITIONS[state]
        assert state is State.UNJOINED or any(state in ways for ways in TRANSITIONS.values())
        assert state is State.UNJOINED or State.UNJOINED in TRANSITIONS[state]
