"""The slow part of `poll()` and `consume()`, which takes records and runs callbacks."""

from __future__ import annotations

from typing import Final

from tandem_kafka.confluent.events import Events
from tandem_kafka.confluent.offsets import StoredOffsets
from tandem_kafka.confluent.rebalancing import Rebalances
from tandem_kafka.confluent.shared import Shared
from tandem_kafka.confluent.statistics import Statistics
from tandem_kafka.errors import KafkaError as OurKafkaError

#: Interval for serving the group, automatic commits and callbacks.
_SERVE_MS: Final = 100
#: Messages that are kept after they were returned; they are forgotten together.
_KEPT: Final = 500
#: Maximum wait of one iteration of the loop with `enable.partition.eof`; otherwise `_SERVE_MS`.
_SHORT_WAIT_MS: Final = 50


class Reader:
    """Takes records and events until there are enough of them.

    Attributes:
        serve_ms: When `poll()` must next do more than return a record.
    """

    def __init__(
        self, shared: Shared, assignment: Rebalances, events: Events, offsets: StoredOffsets
    ) -> None:
        self._assigned, self._taken = shared.assigned, shared.taken
        self._callbacks, self._now_ms = shared.callbacks, shared.clock.now_ms
        self._assignment, self._events, self._offsets = assignment, events, offsets
        self._statistics = Statistics(shared, assignment, offsets)
        self.serve_ms = 0

    def ready(self) -> bool:
        """Tell whether an item waits and no other work is due; if none waits, take a record."""
        if self._now_ms() >= self.serve_ms:
            return False
        taken = self._taken
        items = taken.items
        if taken.given - items[0] == len(items):
            if len(items) > _KEPT:
                taken.forget()
            try:
                next(taken.one_more, None)
            except OurKafkaError as error:
                self._events.failed(error, 0)
        waits: bool = len(items) > taken.given - items[0]
        return waits

    def collect(self, count: int, wait_ms: float) -> None:
        """Collect until `count` items wait, or until the timeout.

        What was collected before a callback raised is returned; the next call raises the error.
        """
        self._taken.forget()
        if not self._callbacks.running:
            self._callbacks.raise_error()
        try:
            if not self._events.polled():
                self._collect(count, self._now_ms() + wait_ms)
        finally:
            self._events.returned()

    def _collect(self, count: int, end_ms: float) -> None:
        while True:
            collected = self._taken.waiting()
            # Polling also keeps the membership alive, and runs rebalances and callbacks. While
            # messages wait, each `_SERVE_MS` has one call of our consumer, for at most one record.
            if collected < count and self._callbacks.raised is None:
                self._take(max(0.0, end_ms - self._now_ms()), count - collected)
            elif self._now_ms() >= self.serve_ms:
                self._fetch(0, 1)
            if self._now_ms() >= self.serve_ms:
                self._serve()
            if self._callbacks.raised is not None:
                self.serve_ms = 0  # so that the next poll() comes here
                break
            if self._taken.waiting() >= count or self._now_ms() >= end_ms:
                return
        if not collected:
            self._callbacks.raise_error()

    def _take(self, left_ms: float, limit: int) -> None:
        longest_ms = _SHORT_WAIT_MS if self._events.ends else _SERVE_MS
        self._fetch(min(longest_ms, left_ms), limit)
        if self._events.ends:
            self._events.check_ends()
        self._events.check_cluster()

    def _serve(self) -> None:
        """Do the periodic work while records are returned."""
        now_ms = self._now_ms()
        self.serve_ms = now_ms + _SERVE_MS
        self._offsets.note_topics(self._assigned)
        self._offsets.commit_if_due(now_ms)
        if self._statistics.due(now_ms) and self._statistics.callback is not None:
            self._callbacks.run(self._statistics.callback, self._statistics.document())

    def _fetch(self, wait_ms: float, limit: int) -> None:
        """Take records from our consumer; this runs rebalances and callbacks."""
        before = {part: part.seeks for part in self._assigned}
        try:
            self._taken.take(wait_ms, limit)
        except OurKafkaError as error:
            self._events.failed(error, wait_ms)
        finally:
            self._assignment.sift(before)
