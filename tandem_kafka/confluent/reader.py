"""The loop inside `poll()`: it returns buffered records, and serves the group and callbacks."""

from __future__ import annotations

import itertools
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
from tandem_kafka.logs import ClientNames, client_logger

__all__ = ["Callbacks", "Reader"]

log = client_logger(__name__)

#: Maximum records per call of our consumer's `poll()`.
_BATCH: Final = 2_000
#: Interval for serving the group, automatic commits and callbacks.
_SERVE_MS: Final = 100
#: Maximum wait of one iteration of the loop; the shorter one applies with `enable.partition.eof`.
_WAIT_S, _SHORT_WAIT_S = 0.5, 0.05


class Callbacks:
    """Runs the application's callbacks, and keeps the first exception."""

    def __init__(self, client: ClientNames) -> None:
        self._client = client
        self._raised: BaseException | None = None

    def run(self, callback: Callable[..., object], *arguments: Any) -> None:
        """Run a callback; the current method raises its exception later."""
        try:
            callback(*arguments)
        except Exception as error:  # raised when the method has finished
            if self._raised is not None:
                log.exception(
                    "a second callback failed; the error of the first is raised",
                    client=self._client,
                )
            else:
                self._raised = error

    def raise_error(self) -> None:
        """Raise the exception of a callback, once."""
        if self._raised is not None:
            error, self._raised = self._raised, None
            raise error


class Reader:
    """Polls our consumer for batches, and returns their records one by one.

    Attributes:
        serve_ms: When `poll()` must next do more than return a record.
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
        """Return the next message; serve the group and callbacks, and wait if necessary."""
        now_s = self._now()
        self._events.polled(now_s)
        end_s = now_s + wait_s
        longest_s = _SHORT_WAIT_S if self._events.ends else _WAIT_S
        while True:
            if self._time.now_ms() >= self.serve_ms:
                self._serve()
            message = self._ready()
            if message is not None:
                return message
            remaining_s = end_s - self._now()
            self._fetch(max(0.0, min(longest_s, remaining_s)), _BATCH)
            if self._events.ends and self._at_end():
                self._events.check_ends()
            message = self._ready()
            if message is not None:
                return message
            self._events.check_cluster(self._now())
            if self._now() >= end_s and not self._events.messages:
                return None

    def more(self, limit: int) -> list[Message]:
        """Return up to `limit` more messages of the current run."""
        run = self._assigned.run
        if run is None:
            return []
        records = list(itertools.islice(run.records, limit))
        if records:
            run.part.last = records[-1]
        return list(map(message_of, records))

    def _ready(self) -> Message | None:
        """Return an event or a buffered record, or None."""
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
        """Do the periodic work while records are returned."""
        self.serve_ms = self._time.now_ms() + _SERVE_MS
        if not self._assigned.empty or self._assigned.run is not None:
            # Polling keeps the membership alive, and runs rebalances and callbacks.
            self._fetch(0.0, 1)
        now_s = self._now()
        self._offsets.commit_if_due(now_s)
        if self._statistics.due(now_s) and self._statistics.callback is not None:
            self._callbacks.run(self._statistics.callback, self._statistics.document())
        self._callbacks.raise_error()

    def _fetch(self, wait_s: float, limit: int) -> None:
        """Poll our consumer and buffer its records; this runs rebalances and callbacks."""
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
