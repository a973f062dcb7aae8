"""Rebalance callbacks: asked of the application thread one at a time, answered by an event."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

from tandem_kafka.events.background import PartitionsAssigned, PartitionsLost, PartitionsRevoked
from tandem_kafka.events.queues import BackgroundQueue
from tandem_kafka.shared.group import GroupIdentity
from tandem_kafka.shared.polls import Polls

__all__ = ["CallbackRunner", "RebalanceEvent"]

log = logging.getLogger(__name__)

RebalanceEvent = PartitionsAssigned | PartitionsRevoked | PartitionsLost


class CallbackRunner:
    """Has one callback run at a time and goes on when it is done.

    Each has a number; `group.callback` holds that of the one that counts. What is cancelled is
    not run if the application thread has not begun with it, and its answer is ignored.

    A callback that raised is asked for again when the application polls next, with the same
    partitions; only `on_partitions_lost` is not: what was lost is gone either way.
    """

    def __init__(self, background: BackgroundQueue, group: GroupIdentity, polls: Polls) -> None:
        self._background = background
        self._group = group
        self._polls = polls
        self._last_number = 0
        self._event: RebalanceEvent | None = None
        self._then: Callable[[], None] | None = None
        self._failed = False

    @property
    def busy(self) -> bool:
        """True while a callback is asked for and not done."""
        return self._event is not None

    def run(self, event: RebalanceEvent, then: Callable[[], None]) -> None:
        """Have a callback run instead of any other; `then` is called once it went well."""
        self._last_number += 1
        self._event = replace(event, number=self._last_number)
        self._then = then
        self._send(self._event)

    def _send(self, event: RebalanceEvent) -> None:
        self._failed = False
        self._group.callback = event.number
        self._background.add(event)

    def completed(self, number: int, error: Exception | None) -> None:
        """The application thread ran it."""
        event, then = self._event, self._then
        if event is None or then is None or event.number != number:
            return  # cancelled meanwhile
        if error is not None and not isinstance(event, PartitionsLost):
            log.info("a rebalance callback failed and will be called again: %s", error)
            self._failed = self._polls.event_needed = True
            return
        self.cancel()
        then()

    def retry(self) -> None:
        """The application polls: ask again for what failed."""
        if self._failed and self._event is not None:
            self._send(self._event)

    def cancel(self) -> None:
        """Forget it: nobody is interested in the outcome any more."""
        self._event = self._then = None
        self._failed = False
        self._group.callback = 0
