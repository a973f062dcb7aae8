"""Reads a range of records, and then those that arrive."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from tandem_kafka.cli.failures import CommandError
from tandem_kafka.cli.records.span import Span
from tandem_kafka.runtime import Clock
from tandem_kafka.types import ConsumerRecord, TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

    from tandem_kafka import KafkaConsumer


#: A command that reads to an end gives up after this time without progress.
PATIENCE_MS: Final = 30_000
_POLL_MS: Final = 500
_RECORDS: Final = 5_000


class SpanReader:
    """Reads a span once, in offset order within each partition.

    Args:
        consumer: Its assignment is replaced.
        span: What to read.
        clock: Measures the time without progress.
    """

    def __init__(self, consumer: KafkaConsumer, span: Span, clock: Clock) -> None:
        self._consumer = consumer
        self._clock = clock
        self._end = dict(span.end)
        self.left = {tp for tp, first in span.first.items() if first < span.end[tp]}
        consumer.assign(sorted(span.first))
        for tp, first in span.first.items():
            # The limit comes first: a seek starts the fetching.
            consumer.stop_at(tp, max(first, span.end[tp]))
            consumer.seek(tp, first)
        self._progress_ms = clock.now_ms()

    @property
    def position(self) -> dict[TopicPartition, int]:
        """The next offset of each partition."""
        return {tp: self._consumer.position(tp) for tp in self._end}

    def batches(self) -> Iterator[list[ConsumerRecord[Any, Any]]]:
        """Yield the records of the span.

        Raises:
            CommandError: No record arrived for half a minute.
        """
        while self.left:
            polled = self._consumer.poll(_POLL_MS, max_records=_RECORDS)
            batch = [
                record
                for tp, records in polled.items()
                for record in records
                if record.offset < self._end[tp]
            ]
            self._note_progress(bool(polled))
            if batch:
                yield batch

    def arrow_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the records of the span as Arrow record batches.

        Raises:
            CommandError: No record arrived for half a minute.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        while self.left:
            batch = self._consumer.poll_arrow(_POLL_MS)
            self._note_progress(batch.num_rows > 0)
            if not batch.num_rows:
                continue
            most = max(tp.partition for tp in self._end) + 1
            ends = pa.array([self._ends_by_number().get(n, 0) for n in range(most)], pa.int64())
            batch = batch.filter(pc.less(batch["offset"], ends.take(batch["partition"])))
            if batch.num_rows:
                yield batch

    def follow(self) -> Iterator[list[ConsumerRecord[Any, Any]]]:
        """Yield records beyond the span as they arrive, without an end; also empty batches."""
        for tp, end in self._end.items():
            self._consumer.stop_at(tp, None)
            # The last fetch may have brought records beyond the end, which the span has left out,
            # and the position has passed them. Without the seek, `tail -F` would miss them.
            if self._consumer.position(tp) > end:
                self._consumer.seek(tp, end)
        while True:
            polled = self._consumer.poll(_POLL_MS, max_records=_RECORDS)
            yield [record for records in polled.values() for record in records]

    def _ends_by_number(self) -> dict[int, int]:
        return {tp.partition: end for tp, end in self._end.items()}

    def _note_progress(self, progressed: bool) -> None:
        """Remove the partitions that are complete; fail without progress."""
        complete = {tp for tp in self.left if self._consumer.position(tp) >= self._end[tp]}
        self.left -= complete
        now_ms = self._clock.now_ms()
        if progressed or complete:
            self._progress_ms = now_ms
        elif now_ms - self._progress_ms > PATIENCE_MS:
            raise CommandError(self._why_stuck())

    def _why_stuck(self) -> str:
        health = self._consumer.health()
        reasons = [
            f"partition {tp.partition}: {health.partitions[tp].stuck}"
            for tp in sorted(self.left)
            if tp in health.partitions and health.partitions[tp].stuck
        ]
        shown = "; ".join([*health.troubles, *reasons][:3])
        return (
            f"no record arrived for {PATIENCE_MS // 1000} s; {len(self.left)} partitions are not "
            f"complete{': ' if shown else ''}{shown}; try again when their leaders respond"
        )
