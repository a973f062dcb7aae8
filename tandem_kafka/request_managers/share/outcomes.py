"""What became of acknowledgements: what `commit()` returns, and the metrics."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from tandem_kafka.errors import KafkaError, RecordLockLostError
from tandem_kafka.events.completable import Completion
from tandem_kafka.logs import client_logger
from tandem_kafka.metrics import ConsumerMetrics
from tandem_kafka.network.outages import Outage
from tandem_kafka.request_managers.reactions import FETCH, Reaction, reaction_to
from tandem_kafka.request_managers.share.session import Acknowledged
from tandem_kafka.state.locked_records import LockedRecords
from tandem_kafka.state.locks import (
    Acknowledgement,
    AcknowledgeType,
    LockedRun,
    count_of,
)
from tandem_kafka.types import TopicPartition

log = client_logger(__name__)

#: What `commit()` returns: None, or the error of acknowledgements that failed.
ByPartition = dict[TopicPartition, KafkaError | None]

LOST: Final = RecordLockLostError(
    "the lock had ended before: the connection to the broker was lost, or the leader has moved"
)
LATE: Final = RecordLockLostError("the lock ended before the acknowledgement could be sent")

_SENSORS: Final[Mapping[AcknowledgeType, str]] = {
    AcknowledgeType.ACCEPT: "accepted",
    AcknowledgeType.RELEASE: "released",
    AcknowledgeType.REJECT: "rejected",
}


class Outcomes:
    """The commits that wait, and the outcomes since the last one.

    Args:
        metrics: The metrics.
        records: What crosses to the application; it is told what is stored.

    Attributes:
        number: The number of commits so far. An acknowledgement belongs to the next one.
    """

    def __init__(self, metrics: ConsumerMetrics, records: LockedRecords) -> None:
        self._metrics = metrics
        self._records = records
        self._clock = records.clock
        # One for all partitions: those of a broker fail together.
        self._refused, self._not_renewed = Outage(), Outage()
        self.number = 0
        #: The number before which all acknowledgements must be answered, and the future.
        self._commits: list[tuple[int, Completion[ByPartition]]] = []
        self._found: ByPartition = {}

    # --- commits -------------------------------------------------------------------------------

    def commit(self, future: Completion[ByPartition]) -> None:
        """Complete a future once all acknowledgements so far are answered."""
        self.number += 1
        self._commits.append((self.number, future))

    @property
    def are_awaited(self) -> bool:
        """Whether a commit waits."""
        return bool(self._commits)

    def settle(self, oldest: int | None) -> None:
        """Complete the commits before the oldest acknowledgement without an answer."""
        while self._commits:
            number, future = self._commits[0]
            # After a timeout, the next commit() tells the outcome.
            if not future.done and oldest is not None and oldest < number:
                return
            del self._commits[0]
            if not future.done:
                found, self._found = self._found, {}
                future.complete(found)

    # --- outcomes ------------------------------------------------------------------------------

    def taken(self, made: Iterable[Acknowledgement], now_ms: int) -> None:
        """Measure for how long the application had the records."""
        held = [
            (each.size, now_ms - each.run.given_ms(each.first))
            for each in made
            if each.run is not None and each.how is not AcknowledgeType.RENEW
        ]
        if held:
            count, total_ms = sum(size for size, _ in held), sum(size * ms for size, ms in held)
            self._metrics.record_all("record-held", (count, total_ms, max(ms for _, ms in held)))

    def answered(self, acknowledged: Acknowledged, error: KafkaError | None) -> None:
        """Note what a broker says of acknowledgements."""
        if error is not None and reaction_to(FETCH, error) is Reaction.REFRESH:
            error = RecordLockLostError(f"the leader of the partition has moved: {error}")
        if acknowledged.asked or acknowledged.whole or acknowledged.kept:
            self._renewal(acknowledged, error)
            return
        self._count_answered(acknowledged.made, error)
        if acknowledged.of_application:
            self._note(acknowledged.tp, error)
            if error is None:
                self._metrics.happened("last-commit-seconds-ago")

    def unanswered(self, sent: Iterable[Acknowledged], error: KafkaError) -> None:
        """Note that acknowledgements were sent, and perhaps not stored."""
        for each in sent:
            if each.asked:
                self._renewal(each, error)
            if each.made:
                self._count_answered(each.made, error)
            if each.of_application:
                self._note(each.tp, error)

    def unsent(self, waiting: Iterable[Acknowledged], error: KafkaError) -> None:
        """Note that what waits cannot be sent."""
        for each in waiting:
            if each.asked:
                self._renewal(each, error)
            self.dropped(each.made, error)

    def dropped(self, made: Iterable[Acknowledgement], error: KafkaError) -> None:
        """Note that acknowledgements cannot be sent."""
        mine = [each for each in made if each.run is not None]
        ends = [each for each in mine if each.how is not AcknowledgeType.RENEW]
        self.lost(sum(each.size for each in ends if not each.run_is_over))
        for tp in dict.fromkeys(each.partition.tp for each in mine):
            self._note(tp, error)

    def ended(self, runs: Iterable[LockedRun]) -> None:
        """Note that locks have ended, perhaps before their records were acknowledged."""
        for run in runs:
            self.lost(count_of(run.in_work))

    def lost(self, count: int) -> None:
        """Count records that the application had, and that are delivered again."""
        if count:
            self._metrics.record("locks-lost", count)

    def _count_answered(self, made: Iterable[Acknowledgement], error: KafkaError | None) -> None:
        counts: Counter[str] = Counter()
        if error is None:
            self._records.note_stored(made)
        for each in made:
            counts["acknowledgements"] += each.size
            if error is not None:
                counts["acknowledgement-errors"] += each.size
                counts["locks-lost"] += 0 if each.run is None else each.size
            elif each.how in _SENSORS:
                counts[_SENSORS[each.how]] += each.size
        for name, count in counts.items():
            if count:
                self._metrics.record(name, count)

    def _renewal(self, renewed: Acknowledged, error: KafkaError | None) -> None:
        """Note the outcome of renewals; that of automatic ones is not for commit()."""
        tp = renewed.tp
        if error is None:
            self._not_renewed.succeeded(self._clock.now_ms())
            count = sum(each.size for each in renewed.asked)
            count += count_of(renewed.whole.values())
            count += sum(each.ahead for each in renewed.kept)
            self._metrics.record("locks-renewed", count)
        elif renewed.asked or renewed.whole:  # what waits is released in time
            log.log(
                self._level_of(self._not_renewed),
                "locks of %s-%d were not renewed, so their records may be delivered again: %s "
                "(failures in %d s: %d)",
                tp.topic,
                tp.partition,
                error,
                self._not_renewed.lasted_s,
                self._not_renewed.failures,
            )
        if renewed.asked:
            self._keep(tp, error)

    def _note(self, tp: TopicPartition, error: KafkaError | None) -> None:
        """Note the outcome of acknowledgements."""
        if error is None:
            self._refused.succeeded(self._clock.now_ms())
        else:
            log.log(
                self._level_of(self._refused),
                "acknowledgements of %s-%d failed, so the records are delivered again: %s "
                "(failures in %d s: %d)",
                tp.topic,
                tp.partition,
                error,
                self._refused.lasted_s,
                self._refused.failures,
            )
        self._keep(tp, error)

    def _level_of(self, outage: Outage) -> int:
        """Note a failure; return the level of its line, so that a lasting one has few warnings."""
        return logging.WARNING if outage.failed(self._clock.now_ms()) else logging.DEBUG

    def _keep(self, tp: TopicPartition, error: KafkaError | None) -> None:
        """Keep an outcome for the next commit()."""
        if error is not None or tp not in self._found:
            self._found[tp] = error
