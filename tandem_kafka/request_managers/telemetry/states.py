"""The states of pushing metrics, and their transitions.

    SUBSCRIPTION_NEEDED       the subscription is requested when the interval is over
    SUBSCRIPTION_IN_PROGRESS  the subscription has been requested
    PUSH_NEEDED               the metrics are pushed when the interval is over
    PUSH_IN_PROGRESS          the metrics have been pushed, the response is due
    TERMINATED                the last push has been sent, or a broker has rejected a request in a
                              way that a retry cannot change

The table is that of the Java client, where two states precede the last push: here it is sent in the
step that ends the other states.
"""

from __future__ import annotations

import enum

__all__ = ["TRANSITIONS", "State"]


class State(enum.Enum):
    """The state of pushing metrics."""

    SUBSCRIPTION_NEEDED = "subscription needed"
    SUBSCRIPTION_IN_PROGRESS = "subscription in progress"
    PUSH_NEEDED = "push needed"
    PUSH_IN_PROGRESS = "push in progress"
    TERMINATED = "terminated"


#: The states that may follow each state.
TRANSITIONS: dict[State, frozenset[State]] = {
    State.SUBSCRIPTION_NEEDED: frozenset({State.SUBSCRIPTION_IN_PROGRESS, State.TERMINATED}),
    State.SUBSCRIPTION_IN_PROGRESS: frozenset(
        {State.SUBSCRIPTION_NEEDED, State.PUSH_NEEDED, State.TERMINATED}
    ),
    State.PUSH_NEEDED: frozenset({State.PUSH_IN_PROGRESS, State.TERMINATED}),
    State.PUSH_IN_PROGRESS: frozenset(
        {State.SUBSCRIPTION_NEEDED, State.PUSH_NEEDED, State.TERMINATED}
    ),
    State.TERMINATED: frozenset(),
}
