"""The loop inside `poll()`: hand out what waits, and serve the group and callbacks meanwhile."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable
from typing import Any, Final

from tandem_kafka.confluent.events import Events
from tandem_kafka.confluent.offsets import Offsets
from tandem_kafka.confluent.partitions import Assigned, Run
from tandem_kafka.confluent.rebalancing import Assignment
from tandem_kafka.confluent.statistics import Statistics
from tandem_kafka.confluent.values import Message, message_of
from tandem_kafka.confluent.waiting import Time
from tandem_kafka.consumer.consumer import KafkaConsumer
from tandem_kafka.errors import KafkaError as OurKafkaError

__all__ = ["Callbacks", "Reader"]

log = logging.getLogger(__name__)

#: So many records are taken from our consumer at once.
_BATCH: Final = 2_000
#: At least so often poll() looks at the group, commits in time and calls callbacks.
_SERVE_MS: Final = 100
#: poll() waits in turns of so many seconds; of so many where ends of partitions are told.
_TURN_S, _SHORT_TURN_S = 0.5, 0.05


class Callbacks:
    """Runs the application's callbacks, and keeps what the first of them raises."""

    def __init__(self) -> None:
        self._raised: BaseException | None = None

    def run(self, callback: Callable[..., object], *arguments: Any) -> None:
        """Run a callback; what it raises is kept for the method that runs now."""
        try:
            callback(*arguments)
        except Exception as error:  # raised when the method has done its work
            if self._raised is not None:
                log.exception("a callback raised a second error, after the one that is raised")
            else:
                self._raised = error

    def raise_error(self) -> None:
        """Raise what a callback has raised, once."""
        if self._raised is not None:
            error, self._raised = self._raised, None
            raise error


class Reader:
    """Takes batches from our consumer and hands them out one by one.

    Attributes:
        serve_ms: When poll() is to do more than to hand out the next record.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - the parts of a consumer
        self,
        kafka: KafkaConsumer,
        assigned: Assigned,
        assignment: Assignment,
        events: Events,
        offsets: Offsets,
        statistics: Statistics,
        callbacks: Callbacks,
        time: Time,
    ) -> None:
        self._time = time
        self._now = time.now_s
        self._kafka = kafka
        self._assigned = assigned
        self._assignment = assignment
        self._events = events
        self._offsets = offsets
        self._statistics = statistics
        self._callbacks = callbacks
        self.serve_ms = 0

    def next(self, wait_s: float) -> Message | None:
        """Return the next message; serve the group and callbacks, and wait if need be."""
        now_s = self._now()
        self._events.polled(now_s)
        end_s = now_s + wait_s
        turn_s = _SHORT_TURN_S if self._events.ends else _TURN_S
        while True:
            if self._time.now_ms() >= self.serve_ms:
                self._serve()
            message = self._ready()
            if message is not None:
                return message
            left_s = end_s - self._now()
            self._fetch(max(0.0, min(turn_s, left_s)), _BATCH)
            if self._events.ends and self._at_end():
                self._events.look_for_ends()
            message = self._ready()
            if message is not None:
                return message
            self._events.look_around(self._now())
            if self._now() >= end_s and not self._events.messages:
                return None

    def beside(self, limit: int) -> list[Message]:
        """Return what can be handed out along with the last message, up to `limit`."""
        run = self._assigned.run
        if run is None:
            return []
        records = list(itertools.islice(run.records, limit))
        if records:
            run.part.last = records[-1]
        return list(map(message_of, records))

    def _ready(self) -> Message | None:
        """Return an event or a record that is there."""
        if self._events.messages:
            return self._events.messages.popleft()
        run: Run | None = self._assigned.run or self._assigned.next_run()
        while run is not None:
            for record in run.records:
                run.part.last = record
                return message_of(record)
            run = self._assigned.next_run()
        return None

    def _at_end(self) -> bool:
        return self._assigned.empty and not self._events.messages

    def _serve(self) -> None:
        """Do what is to be done now and then while records are handed out."""
        self.serve_ms = self._time.now_ms() + _SERVE_MS
        if not self._assigned.empty or self._assigned.run is not None:
            # The group learns that the application polls, rebalances and callbacks are run.
            self._fetch(0.0, 1)
        now_s = self._now()
        self._offsets.commit_in_time(now_s)
        if self._statistics.due(now_s) and self._statistics.callback is not None:
            self._callbacks.run(self._statistics.callback, self._statistics.document())
        self._callbacks.raise_error()

    def _fetch(self, wait_s: float, limit: int) -> None:
        """Let records wait that our consumer returns; rebalances and callbacks run in there."""
        parts = self._assigned
        before = {part: part.seeks for part in parts}
        try:
            batch: Any = self._kafka.poll(wait_s * 1000, limit)
        except OurKafkaError as error:
            batch = {}
            self._events.failed(error, wait_s)
        for tp, records in batch.items():
            part = parts.get(tp)
            if part is None:
                continue
            if part.seeks != before.get(part, part.seeks):
                self._assignment.seek_again(part)
            else:
                parts.append(part, records)
        self._callbacks.raise_error()
