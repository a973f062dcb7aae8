"""Metric reporters with kafka-python's interface, called on the application thread.

Both threads add and remove metrics, but the network thread runs no user code. Changes are recorded,
and reporters are notified at the end of the constructor, in each `poll()` and in `close()`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tandem_kafka.config import Config
from tandem_kafka.logs import ClientNames, client_logger

if TYPE_CHECKING:
    from tandem_kafka.metrics import ConsumerMetrics, MetricChange

log = client_logger(__name__)


class Reporters:
    """Calls the reporters of `metric_reporters`; there are none if metrics are disabled.

    Raises:
        Exception: The constructor or `init()` of a reporter raised it.
    """

    def __init__(self, config: Config) -> None:
        self._client = ClientNames(config.client_id, config.group_id)
        given = config.metric_reporters if config.metrics_enabled else ()
        self._reporters = [each() if callable(each) else each for each in given]
        self._changes: deque[MetricChange] = deque()
        for each in self._reporters:
            each.init([])

    def follow(self, metrics: ConsumerMetrics, changed: Callable[[], None]) -> None:
        """Report all metrics now, and later changes on each `report()`.

        Args:
            metrics: The metrics.
            changed: Called on any thread when there is something to report.
        """
        if self._reporters:
            self._changes = metrics.note_changes(changed)
            self.report()

    def report(self) -> None:
        """Report changes since the last call; log errors of the reporters."""
        while self._changes:
            change = self._changes.popleft()
            for each in self._reporters:
                notify = each.metric_change if change.present else each.metric_removal
                self._logged(notify, change.metric)

    def close(self) -> None:
        """Report the last changes, and close the reporters."""
        self.report()
        for each in self._reporters:
            self._logged(each.close)

    def _logged(self, method: Callable[..., Any], *arguments: Any) -> None:
        try:
            method(*arguments)
        except Exception:
            log.warning(
                "%s() of a metric reporter failed; ignored",
                method.__name__,
                exc_info=True,
                client=self._client,
            )
