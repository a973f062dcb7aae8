"""Whether the application still polls (`max_poll_interval_ms`)."""

from __future__ import annotations

import logging

from tandem_kafka.request_managers.context import ManagerContext

__all__ = ["PollTimer"]

log = logging.getLogger(__name__)

#: poll() tells the network thread of itself this often at least, while records flow.
GRACE_MS = 1_000


class PollTimer:
    """Restarted by every poll event; expires when none came for the interval."""

    def __init__(self, context: ManagerContext) -> None:
        self._context = context
        self._interval_ms = context.config.max_poll_interval_ms
        self._patience_ms = self._interval_ms + min(GRACE_MS, self._interval_ms // 4)
        self._polled_ms = 0

    def restart(self) -> None:
        """The application polls."""
        self._polled_ms = self._context.clock.now_ms()

    def left_ms(self, now_ms: int) -> int:
        """Until it expires."""
        return self._polled_ms + self._patience_ms - now_ms

    def log_expiry(self, now_ms: int) -> None:
        """Say what happened, and what to do about it."""
        log.warning(
            "group %s: poll() was not called for %d ms (max_poll_interval_ms=%d): leaving the "
            "group. Poll more often, or take fewer records at a time (max_poll_records)",
            self._context.config.group_id,
            now_ms - self._polled_ms,
            self._interval_ms,
        )
