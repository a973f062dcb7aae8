"""The interpreter of the members' transition tables."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Generic, TypeVar

__all__ = ["IllegalTransitionError", "StateMachine"]

S = TypeVar("S", bound=enum.Enum)


class IllegalTransitionError(AssertionError):
    """A defect: the table has no such way."""


class StateMachine(Generic[S]):
    """Holds the state and refuses what the table does not have; staying is always allowed."""

    def __init__(self, initial: S, transitions: Mapping[S, AbstractSet[S]]) -> None:
        self.state = initial
        self._transitions = transitions

    def move(self, to: S) -> None:
        """Go to a state.

        Raises:
            IllegalTransitionError: The table has no way there.
        """
        if to is not self.state and to not in self._transitions[self.state]:
            msg = f"no way from {self.state.value} to {to.value}"
            raise IllegalTransitionError(msg)
        self.state = to
