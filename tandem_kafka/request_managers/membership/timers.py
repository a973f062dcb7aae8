"""The timers of a member: for `max_poll_interval_ms`, and for the duration of rebalances."""

from __future__ import annotations

from tandem_kafka.logs import client_logger
from tandem_kafka.request_managers.context import ManagerContext

log = client_logger(__name__)

#: A waiting poll() records its time at least this often, and may return just before the next time.
GRACE_MS = 1_000


class PollTimer:
    """Expires if the application has not been in poll() for `max_poll_interval_ms`."""

    def __init__(self, context: ManagerContext) -> None:
        self._context = context
        self._polls = context.polls
        self._interval_ms = context.config.max_poll_interval_ms
        self._timeout_ms = self._interval_ms + min(GRACE_MS, self._interval_ms // 4)

    def left_ms(self, now_ms: int) -> int:
        """Return the time until it expires."""
        return self._polls.polled_ms + self._timeout_ms - now_ms

    def log_expiry(self, now_ms: int) -> None:
        """Log the cause and the remedy."""
        log.warning(
            "group %s: poll() was not called for %d ms (max_poll_interval_ms=%d), so the consumer "
            "leaves the group; call poll() more often, reduce max_poll_records or increase "
            "max_poll_interval_ms",
            self._context.config.group_id,
            now_ms - self._polls.polled_ms,
            self._interval_ms,
        )


class RebalanceTimer:
    """Measures one rebalance at a time, until it completes or fails.

    In the classic protocol, a rebalance starts when the member prepares to join. With KIP-848, it
    starts with a new target assignment. It is complete after `on_partitions_assigned`.
    """

    def __init__(self, context: ManagerContext) -> None:
        self._context = context
        self._group = context.group

    def begin(self) -> None:
        """Start a rebalance, unless one is running."""
        if self._group.rebalancing_since_ms is None:
            self._group.rebalancing_since_ms = self._context.clock.now_ms()

    def complete(self) -> None:
        """Record that the running rebalance has completed."""
        since_ms = self._group.rebalancing_since_ms
        if since_ms is not None:
            took_ms = self._context.clock.now_ms() - since_ms
            self._group.rebalancing_since_ms = None
            self._context.metrics.record("rebalance-latency", took_ms)
            self._context.metrics.happened("last-rebalance-seconds-ago")

    def fail(self) -> None:
        """Record that the running rebalance has failed."""
        if self._group.rebalancing_since_ms is not None:
            self._group.rebalancing_since_ms = None
            self._context.metrics.record("failed-rebalance", 1)
