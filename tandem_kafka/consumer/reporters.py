"""Metric reporters: kafka-python's interface, served on the application thread.

Metrics come and go on both threads, but the network thread runs no user code. It notes what has
changed; reporters hear of it at the end of the constructor, in each `poll()` and in `close()`.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Any

from tandem_kafka.config import Config
from tandem_kafka.metrics import ConsumerMetrics, MetricChange

__all__ = ["Reporters"]

log = logging.getLogger(__name__)


class Reporters:
    """The objects of `metric_reporters`; classes are instantiated. None with metrics switched off.

    Raises:
        Exception: What a reporter raises when it is made or in `init()`.
    """

    def __init__(self, config: Config) -> None:
        given = config.metric_reporters if config.metrics_enabled else ()
        self._reporters = [each() if callable(each) else each for each in given]
        self._changes: deque[MetricChange] = deque()
        for each in self._reporters:
            each.init([])

    def follow(self, metrics: ConsumerMetrics) -> None:
        """Report the metrics that there are, and from now on what changes about them."""
        if self._reporters:
            self._changes = metrics.note_changes()
            self.report()

    def report(self) -> None:
        """Tell what has changed since the last call; what a reporter raises is logged."""
        while self._changes:
            change = self._changes.popleft()
            for each in self._reporters:
                tell = each.metric_change if change.present else each.metric_removal
                _logged(tell, change.metric)

    def close(self) -> None:
        """Report for the last time, and close the reporters."""
        self.report()
        for each in self._reporters:
            _logged(each.close)


def _logged(method: Callable[..., Any], *arguments: Any) -> None:
    try:
        method(*arguments)
    except Exception:
        log.warning("a metric reporter failed in %s()", method.__name__, exc_info=True)
