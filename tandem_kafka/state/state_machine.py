"""State machines: a table has the states that can follow each state."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Generic, TypeVar

S = TypeVar("S", bound=enum.Enum)


class IllegalTransitionError(AssertionError):
    """A defect: the table does not have this transition."""


def check_transition(transitions: Mapping[S, AbstractSet[S]], state: S, to: S) -> None:
    """Check that a state can follow another one; each can follow itself.

    Raises:
        IllegalTransitionError: The table does not have this transition.
    """
    if to is not state and to not in transitions[state]:
        msg = f"transition from {state.value} to {to.value} is not allowed"
        raise IllegalTransitionError(msg)


class StateMachine(Generic[S]):
    """Holds the state and rejects transitions that are not in the table."""

    def __init__(self, initial: S, transitions: Mapping[S, AbstractSet[S]]) -> None:
        self.state = initial
        self._transitions = transitions

    def move(self, to: S) -> None:
        """Change to a state.

        Raises:
            IllegalTransitionError: The table does not have this transition.
        """
        check_transition(self._transitions, self.state, to)
        self.state = to
