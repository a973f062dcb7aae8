"""The states of a member of a classic group, and their transitions.

    UNJOINED              not a member; joins when the application polls
    PREPARING_REBALANCE   the listener releases partitions, then JoinGroup is in flight
    COMPLETING_REBALANCE  the generation is known; the leader assigns, then SyncGroup is in flight
    STABLE                partitions are assigned (the listener may still be running)
    LEAVING               the application is leaving: the listener runs, then LeaveGroup is sent

Heartbeats are sent in STABLE and LEAVING, in PREPARING_REBALANCE until JoinGroup is sent, and in
COMPLETING_REBALANCE until SyncGroup is sent. Otherwise a slow listener or assignor could end the
membership.
"""

from __future__ import annotations

import enum


class State(enum.Enum):
    """The state of a member."""

    # Faster than the hash of an enumeration, which hashes the name: every iteration needs it.
    __hash__ = object.__hash__

    UNJOINED = "unjoined"
    PREPARING_REBALANCE = "preparing rebalance"
    COMPLETING_REBALANCE = "completing rebalance"
    STABLE = "stable"
    LEAVING = "leaving"


#: The allowed transitions from each state.
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
