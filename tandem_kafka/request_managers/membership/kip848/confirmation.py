"""Holds records back while other members may own the partitions of a KIP-848 member.

A coordinator removes a member whose heartbeats do not arrive, and gives its partitions to others.
The member hears of it with its next heartbeat, and may have returned thousands of their records by
then. KIP-848 does not tell it how long a session lasts.
"""

from __future__ import annotations

from tandem_kafka.network.backoff import FOREVER_MS
from tandem_kafka.request_managers.context import ManagerContext

#: Sessions are assumed to last as many heartbeats as by Kafka's defaults, 45 s to 5 s.
SESSION_HEARTBEATS = 9
#: How long records are held back once a broker responds again. The heartbeat takes much less. If it
#: is not answered, the coordinator is down, and reading goes on without it.
HOLD_MS = 5_000


class Confirmation:
    """Whether the coordinator has lately confirmed that this consumer is a member."""

    def __init__(self, context: ManagerContext) -> None:
        self._metadata = context.metadata
        self._subscription = context.subscription
        self._confirmed_ms = 0
        self._cut_off_ms = 0

    def confirm(self, now_ms: int) -> None:
        """Note the response to a heartbeat, and return records again."""
        self._confirmed_ms = now_ms
        self._hold(False)

    def poll(self, now_ms: int, interval_ms: int) -> int:
        """Hold records back, or return them; return when to check again, in ms."""
        left_ms = self._confirmed_ms + SESSION_HEARTBEATS * interval_ms - now_ms
        if left_ms > 0:
            return left_ms
        leaders = {state.leader_id for state in self._subscription.assigned.values()}
        if leaders and leaders <= self._metadata.unreachable:
            # Nothing can be read now. The first fetch may succeed before the first heartbeat.
            self._cut_off_ms = now_ms
        left_ms = self._cut_off_ms + HOLD_MS - now_ms
        self._hold(left_ms > 0)
        return left_ms if left_ms > 0 else FOREVER_MS

    def _hold(self, hold: bool) -> None:
        for state in self._subscription.assigned.values():
            if state.unconfirmed != hold:
                state.unconfirmed = hold
