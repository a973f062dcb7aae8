"""What a member does about its removals by the coordinator: one log line, and a pause."""

from __future__ import annotations

import logging
from typing import Final

from tandem_kafka.logs import client_logger
from tandem_kafka.network.outages import Outage
from tandem_kafka.request_managers.context import ManagerContext

log = client_logger(__name__)

#: A member that stays for longer is removed for a new reason. Shorter than a usual session.
APART_MS: Final = 30_000


class Removals:
    """Logs removals within bounds, and makes a member that is removed again and again wait."""

    def __init__(self, context: ManagerContext) -> None:
        self._context = context
        self._outage, self._backoff = Outage(), context.backoff()
        self._last_ms = -APART_MS

    def removed(self, why: object) -> int:
        """Log a removal; return when the member may join again, in ms: at once after the first."""
        now_ms = self._context.clock.now_ms()
        again, self._last_ms = now_ms - self._last_ms < APART_MS, now_ms
        if not again:
            self._outage, self._backoff = Outage(), self._context.backoff()
        self._context.group.removed_again = (now_ms, str(why)) if again else None
        level = logging.WARNING if self._outage.failed(now_ms) else logging.DEBUG
        log.log(
            level,
            "group %s: the coordinator removed this member: %s (removals in a row: %d)",
            self._context.config.group_id,
            why,
            self._outage.failures,
        )
        return self._backoff.next_ms() if again else 0
