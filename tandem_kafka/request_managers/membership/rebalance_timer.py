"""How long rebalances take, and how many come to nothing."""

from __future__ import annotations

from tandem_kafka.request_managers.context import ManagerContext

__all__ = ["RebalanceTimer"]


class RebalanceTimer:
    """One rebalance at a time: it begins, and it is completed or fails.

    Under the classic protocol it begins when the member prepares to join, under KIP-848 when there
    is a target to take over. It is complete when the listener has taken the assignment over.
    """

    def __init__(self, context: ManagerContext) -> None:
        self._context = context
        self._began_ms: int | None = None

    def begin(self) -> None:
        """A rebalance begins, unless one is going on."""
        if self._began_ms is None:
            self._began_ms = self._context.clock.now_ms()

    def complete(self) -> None:
        """What has begun went well."""
        if self._began_ms is not None:
            took_ms = self._context.clock.now_ms() - self._began_ms
            self._began_ms = None
            self._context.metrics.record("rebalance-latency", took_ms)
            self._context.metrics.happened("last-rebalance-seconds-ago")

    def fail(self) -> None:
        """What has begun came to nothing."""
        if self._began_ms is not None:
            self._began_ms = None
            self._context.metrics.record("failed-rebalance", 1)
