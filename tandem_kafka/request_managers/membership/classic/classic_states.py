"""The states of a member of a classic group, and the ways between them.

    UNJOINED              not a member; joins when the application polls
    PREPARING_REBALANCE   the listener gives partitions back, then JoinGroup is in flight
    COMPLETING_REBALANCE  the generation is known; a leader computes, then SyncGroup is in flight
    STABLE                partitions are assigned (the listener may still be running)
    LEAVING               the application is leaving: the listener runs, then LeaveGroup goes out

Heartbeats are sent in STABLE and LEAVING, in PREPARING_REBALANCE until JoinGroup has left, and in
COMPLETING_REBALANCE until SyncGroup has: neither a listener nor an assignor that takes long may
cost the membership.
"""

from __future__ import annotations

import enum

__all__ = ["TRANSITIONS", "State"]


class State(enum.Enum):
    """Where a member stands."""

    # Looked for in sets at every turn; an enumeration hashes its name.
    __hash__ = object.__hash__

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
