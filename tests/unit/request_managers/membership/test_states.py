"""The tables of member states, of both protocols."""

from __future__ import annotations

import enum
import itertools
from typing import Any

import pytest

from tandem_kafka.request_managers.membership.classic import states as classic
from tandem_kafka.request_managers.membership.kip848 import states as consumer
from tandem_kafka.state.state_machine import (
    IllegalTransitionError,
    StateMachine,
)

#: As in the Java client, by the state entered; leaving FATAL is an addition (95).
JAVA = {
    "JOINING": "FENCED UNSUBSCRIBED STALE",
    "RECONCILING": "STABLE JOINING ACKNOWLEDGING RECONCILING",
    "ACKNOWLEDGING": "RECONCILING",
    "STABLE": "JOINING ACKNOWLEDGING RECONCILING",
    "FENCED": "JOINING STABLE RECONCILING ACKNOWLEDGING PREPARE_LEAVING LEAVING",
    "FATAL": "JOINING STABLE RECONCILING ACKNOWLEDGING PREPARE_LEAVING LEAVING UNSUBSCRIBED",
    "PREPARE_LEAVING": "JOINING STABLE RECONCILING ACKNOWLEDGING UNSUBSCRIBED",
    "LEAVING": "PREPARE_LEAVING",
    "UNSUBSCRIBED": "PREPARE_LEAVING LEAVING FENCED FATAL",
    "STALE": "LEAVING",
}
TABLES: list[tuple[type[enum.Enum], Any]] = [
    (classic.State, classic.TRANSITIONS),
    (consumer.State, consumer.TRANSITIONS),
]
WAYS = [
    (table, start, to)
    for states, table in TABLES
    for start, to in itertools.product(states, states)
]


@pytest.mark.design("003", "Consumer group member state machine")
@pytest.mark.parametrize(("table", "start", "to"), WAYS)
def test_only_transitions_of_the_table_are_possible(
    table: Any, start: enum.Enum, to: enum.Enum
) -> None:
    machine = StateMachine(start, table)
    if to is start or to in table[start]:
        machine.move(to)
        assert machine.state is to
    else:
        with pytest.raises(IllegalTransitionError, match=f"from {start.value} to {to.value}"):
            machine.move(to)
        assert machine.state is start


@pytest.mark.parametrize("to", consumer.State)
def test_the_table_of_kip_848_is_that_of_java_with_an_exit_from_fatal(to: consumer.State) -> None:
    sources = {state.name for state, ways in consumer.TRANSITIONS.items() if to in ways}
    assert sources == set(JAVA[to.name].split())


@pytest.mark.design("003", "Consumer group member state machine")
@pytest.mark.parametrize(("states", "table"), TABLES)
def test_every_state_can_be_left_and_reached(states: type[enum.Enum], table: Any) -> None:
    for state in states:
        assert table[state]
        assert any(state in ways for ways in table.values())


def test_a_member_without_a_group_accepts_no_target() -> None:
    assert consumer.TAKES_TARGETS < consumer.IN_GROUP
    outside = set(consumer.State) - consumer.IN_GROUP
    assert {state.name for state in outside} == {"UNSUBSCRIBED", "FENCED", "STALE", "FATAL"}
