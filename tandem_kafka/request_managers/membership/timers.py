"""Two timers of a member: whether the application still polls, and how long rebalances take."""

from __future__ import annotations

import logging

from tandem_kafka.request_managers.context import ManagerContext

__all__ = ["PollTimer", "RebalanceTimer"]

log = logging.getLogger(__name__)

#: poll() notes its time at least this often while it waits, and may return just before the next.
GRACE_MS = 1_000


class PollTimer:
    """Expires when the application was not seen inside poll() for the interval."""

    def __init__(self, context: ManagerContext) -> None:
        self._context = context
        self._polls = context.polls
        self._interval_ms = context.config.max_poll_interval_ms
        self._timeout_ms = self._interval_ms + min(GRACE_MS, self._interval_ms // 4)

    def left_ms(self, now_ms: int) -> int:
        """Until it expires."""
        return self._polls.polled_ms + self._timeout_ms - now_ms

    def log_expiry(self, now_ms: int) -> None:
        """Say what happened, and what to do about it."""
        log.warning(
            "group %s: poll() was not called for %d ms (max_poll_interval_ms=%d): leaving the "
            "group. Poll more often, or take fewer records at a time (max_poll_records)",
            self._context.config.group_id,
            now_ms - self._polls.polled_ms,
            self._interval_ms,
        )


class RebalanceTimer:
    """One rebalance at a time: it begins, and it is completed or fails.

    Under the classic protocol it begins when the member prepares to join, under KIP-848 when there
    is a target to take over. It is complete when the listener has taken the assignment over.
    """

    def __init__(self, context: ManagerContext) -> None:
        self._context = context
        self._started_ms: int | None = None

    def begin(self) -> None:
        """A rebalance begins, unless one is going on."""
        if self._started_ms is None:
            self._started_ms = self._context.clock.now_ms()

    def complete(self) -> None:
        """What has begun went well."""
        if self._started_ms is not None:
            took_ms = self._context.clock.now_ms() - self._started_ms
            self._started_ms = None
            self._context.metrics.record("rebalance-latency", took_ms)
            self._context.metrics.happened("last-rebalance-seconds-ago")

    def fail(self) -> None:
        """What has begun came to nothing."""
        if self._started_ms is not None:
            self._started_ms = None
            self._context.metrics.record("failed-rebalance", 1)
