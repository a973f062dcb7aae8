"""The states of a member of a classic group, and the ways between them.

    UNJOINED              not a member; joins when the application polls
    PREPARING_REBALANCE   partitions are given back to the listener, then JoinGroup is in flight
    COMPLETING_REBALANCE  the generation is known, SyncGroup is in flight
    STABLE                partitions are assigned (the listener may still be running)
    LEAVING               LeaveGroup is in flight

Heartbeats are sent in STABLE, and in PREPARING_REBALANCE until JoinGroup has left: a listener
that takes long must not cost the membership.
"""

from __future__ import annotations

import enum

__all__ = ["TRANSITIONS", "IllegalTransitionError", "MemberStateMachine", "State"]


class State(enum.Enum):
    """Where a member stands."""

    UNJOINED = "unjoined"
    PREPARING_REBALANCE = "preparing rebalance"
    COMPLETING_REBALANCE = "completing rebalance"
    STABLE = "stable"
    LEAVING = "leaving"


#: From each state, the states it may go to.
TRANSITIONS: dict[State, frozenset[State]] = {
    State.UNJOINED: frozenset({State.PREPARING_REBALANCE, State.LEAVING}),
    State.PREPARING_REBALANCE: frozenset(
        {State.COMPLETING_REBALANCE, State.UNJOINED, State.LEAVING}
    ),
    State.COMPLETING_REBALANCE: frozenset(
        {State.STABLE, State.PREPARING_REBALANCE, State.UNJOINED, State.LEAVING}
    ),
    State.STABLE: frozenset({State.PREPARING_REBALANCE, State.UNJOINED, State.LEAVING}),
    State.LEAVING: frozenset({State.UNJOINED}),
}


class IllegalTransitionError(AssertionError):
    """A defect: the table has no such way."""


class MemberStateMachine:
    """Holds the state and refuses what the table does not have."""

    def __init__(self) -> None:
        self.state = State.UNJOINED

    def move(self, to: State) -> None:
        """Go to a state; staying where one is, is always allowed."""
        if to is not self.state and to not in TRANSITIONS[self.state]:
            msg = f"no way from {self.state.value} to {to.value}"
            raise IllegalTransitionError(msg)
        self.state = to
