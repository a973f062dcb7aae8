"""A state machine with a table of transitions."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Generic, TypeVar

S = TypeVar("S", bound=enum.Enum)


class IllegalTransitionError(AssertionError):
    """A defect: the table does not have this transition."""


class StateMachine(Generic[S]):
    """Holds the state and rejects transitions that are not in the table, except to itself."""

    def __init__(self, initial: S, transitions: Mapping[S, AbstractSet[S]]) -> None:
        self.state = initial
        self._transitions = transitions

    def move(self, to: S) -> None:
        """Change to a state.

        Raises:
            IllegalTransitionError: The table does not have this transition.
        """
        if to is not self.state and to not in self._transitions[self.state]:
            msg = f"transition from {self.state.value} to {to.value} is not allowed"
            raise IllegalTransitionError(msg)
        self.state = to
