"""The states of a member of a KIP-848 group, and the ways between them.

    UNSUBSCRIBED     not a member and not asked to be one
    JOINING          heartbeats carry epoch 0 until the coordinator knows us
    RECONCILING      a target differs from what we own: the listener runs, partitions move
    ACKNOWLEDGING    the target has been taken over; the next heartbeat says so
    STABLE           we own what the coordinator wants us to
    FENCED           the coordinator knows us no more: partitions are lost, then we join again
    PREPARE_LEAVING  the application is leaving: its listener runs, heartbeats go on
    LEAVING          the last heartbeat (-1, or -2 of a static member) is on its way
    STALE            we left because poll() was not called in time; partitions are lost, and the
                     next poll() joins again
    FATAL            an error that only the user can mend; every poll() raises it

The table says from which states each may be entered; it is that of the Java client, with one way
more: unsubscribe() leads out of FATAL.
"""

from __future__ import annotations

import enum

__all__ = ["IN_GROUP", "TAKES_TARGETS", "TRANSITIONS", "State"]


class State(enum.Enum):
    """Where a member stands."""

    # Looked for in sets at every turn; an enumeration hashes its name.
    __hash__ = object.__hash__

    UNSUBSCRIBED = "unsubscribed"
    JOINING = "joining"
    RECONCILING = "reconciling"
    ACKNOWLEDGING = "acknowledging"
    STABLE = "stable"
    FENCED = "fenced"
    PREPARE_LEAVING = "prepare leaving"
    LEAVING = "leaving"
    STALE = "stale"
    FATAL = "fatal"


_ACTIVE = frozenset({State.JOINING, State.STABLE, State.RECONCILING, State.ACKNOWLEDGING})

#: The states from which each state may be entered.
ENTERED_FROM: dict[State, frozenset[State]] = {
    State.JOINING: frozenset({State.FENCED, State.UNSUBSCRIBED, State.STALE}),
    State.RECONCILING: frozenset(
        {State.STABLE, State.JOINING, State.ACKNOWLEDGING, State.RECONCILING}
    ),
    State.ACKNOWLEDGING: frozenset({State.RECONCILING}),
    State.STABLE: frozenset({State.JOINING, State.ACKNOWLEDGING, State.RECONCILING}),
    State.FENCED: _ACTIVE | {State.PREPARE_LEAVING, State.LEAVING},
    State.FATAL: _ACTIVE | {State.PREPARE_LEAVING, State.LEAVING, State.UNSUBSCRIBED},
    State.PREPARE_LEAVING: _ACTIVE | {State.UNSUBSCRIBED},
    State.LEAVING: frozenset({State.PREPARE_LEAVING}),
    State.UNSUBSCRIBED: frozenset(
        {State.PREPARE_LEAVING, State.LEAVING, State.FENCED, State.FATAL}
    ),
    State.STALE: frozenset({State.LEAVING}),
}

#: The same, as `StateMachine` reads it.
TRANSITIONS: dict[State, frozenset[State]] = {
    state: frozenset(to for to, sources in ENTERED_FROM.items() if state in sources)
    for state in State
}

#: States in which a new target assignment is taken.
TAKES_TARGETS = _ACTIVE

#: States in which heartbeats are sent and the coordinator counts us as a member.
IN_GROUP = _ACTIVE | {State.PREPARE_LEAVING, State.LEAVING}
