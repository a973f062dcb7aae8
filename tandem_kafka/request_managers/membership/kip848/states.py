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

The table is that of the Java client with one more transition: unsubscribe() leaves FATAL.
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
_ENDS = frozenset({State.PREPARE_LEAVING, State.FENCED, State.FATAL})

#: The allowed transitions from each state.
TRANSITIONS: dict[State, frozenset[State]] = {
    State.UNSUBSCRIBED: frozenset({State.JOINING, State.PREPARE_LEAVING, State.FATAL}),
    State.JOINING: _ENDS | {State.RECONCILING, State.STABLE},
    State.RECONCILING: _ENDS | {State.RECONCILING, State.ACKNOWLEDGING, State.STABLE},
    State.ACKNOWLEDGING: _ENDS | {State.RECONCILING, State.STABLE},
    State.STABLE: _ENDS | {State.RECONCILING},
    State.FENCED: frozenset({State.JOINING, State.UNSUBSCRIBED}),
    State.PREPARE_LEAVING: frozenset(
        {State.LEAVING, State.UNSUBSCRIBED, State.FENCED, State.FATAL}
    ),
    State.LEAVING: frozenset({State.UNSUBSCRIBED, State.STALE, State.FENCED, State.FATAL}),
    State.STALE: frozenset({State.JOINING}),
    State.FATAL: frozenset({State.UNSUBSCRIBED}),
}

#: States in which a new target assignment is accepted.
TAKES_TARGETS = _ACTIVE

#: States in which heartbeats are sent and the coordinator knows the member.
IN_GROUP = _ACTIVE | {State.PREPARE_LEAVING, State.LEAVING}
