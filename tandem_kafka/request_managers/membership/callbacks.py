"""Sends rebalance callbacks to the application thread, one at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tandem_kafka.events.background import PartitionsAssigned, PartitionsLost, PartitionsRevoked
from tandem_kafka.events.queues import BackgroundEventQueue
from tandem_kafka.logs import client_logger
from tandem_kafka.state.group import GroupIdentity
from tandem_kafka.state.polls import Polls

log = client_logger(__name__)

RebalanceEvent = PartitionsAssigned | PartitionsRevoked | PartitionsLost


class CallbackRunner:
    """Runs one callback at a time, and continues when it has completed.

    Each callback has a number, and `group.callback` is the number of the current one. Invariant: a
    cancelled callback does not run if it has not started, and its outcome is ignored. If a member
    is fenced while `on_partitions_assigned` is queued, only `on_partitions_lost` is called.

    A callback that raised runs again with the same partitions when the application polls next.
    This does not apply to `on_partitions_lost`, because the partitions are lost in any case.
    """

    def __init__(
        self, background: BackgroundEventQueue, group: GroupIdentity, polls: Polls
    ) -> None:
        self._background = background
        self._group = group
        self._polls = polls
        self._last_number = 0
        self._event: RebalanceEvent | None = None
        self._then: Callable[[], None] | None = None
        self._failed = False

    @property
    def busy(self) -> bool:
        """True while a callback has not completed."""
        return self._event is not None

    def run(self, event: RebalanceEvent, then: Callable[[], None]) -> None:
        """Run a callback in place of any other; call `then` once it has succeeded."""
        self._last_number += 1
        self._event = replace(event, number=self._last_number)
        self._then = then
        self._send(self._event)

    def _send(self, event: RebalanceEvent) -> None:
        self._failed = False
        self._group.callback = event.number
        self._background.add(event)

    def completed(self, number: int, error: Exception | None) -> None:
        """Process the outcome of a callback on the application thread."""
        event, then = self._event, self._then
        if event is None or then is None or event.number != number:
            return  # cancelled meanwhile
        if error is not None and not isinstance(event, PartitionsLost):
            log.info("a rebalance callback failed; the next poll() calls it again: %s", error)
            self._failed = self._polls.event_needed = True
            return
        self.cancel()
        then()

    def retry(self) -> None:
        """Run a failed callback again, because the application polls."""
        if self._failed and self._event is not None:
            self._send(self._event)

    def cancel(self) -> None:
        """Cancel the current callback and ignore its outcome."""
        self._event = self._then = None
        self._failed = False
        self._group.callback = 0
