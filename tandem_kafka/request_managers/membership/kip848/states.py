"""The states of a member of a KIP-848 group, and their transitions.

    UNSUBSCRIBED     not a member, and no subscription requires it
    JOINING          heartbeats have epoch 0 until the coordinator has accepted the member
    RECONCILING      the target differs from the owned partitions: the listener runs
    ACKNOWLEDGING    the target has been applied; the next heartbeat acknowledges it
    STABLE           the member owns its target
    FENCED           the coordinator has removed the member: partitions are lost, then it rejoins
    PREPARE_LEAVING  the application is leaving: its listener runs, heartbeats continue
    LEAVING          the final heartbeat (epoch -1, or -2 of a static member) is about to be sent
    STALE            the member left because poll() was not called in time; partitions are lost,
                     and the next poll() rejoins
    FATAL            an error that only the user can fix; every poll() raises it

The table lists from which states each state may be entered. It is that of the Java client with one
more transition: unsubscribe() leaves FATAL.
"""

from __future__ import annotations

import enum


class State(enum.Enum):
    """The state of a member."""

    # Faster than the hash of an enumeration, which hashes the name: every iteration needs it.
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

#: The same table by source state, for `StateMachine`.
TRANSITIONS: dict[State, frozenset[State]] = {
    state: frozenset(to for to, sources in ENTERED_FROM.items() if state in sources)
    for state in State
}

#: States in which a new target assignment is accepted.
TAKES_TARGETS = _ACTIVE

#: States in which heartbeats are sent and the coordinator knows the member.
IN_GROUP = _ACTIVE | {State.PREPARE_LEAVING, State.LEAVING}
