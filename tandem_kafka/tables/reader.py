"""Reads a range of records, and then those that arrive."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from tandem_kafka.errors import (
    KafkaTimeoutError,
    OffsetOutOfRangeError,
    RecordDeserializationError,
)
from tandem_kafka.runtime import Clock
from tandem_kafka.tables.span import Span
from tandem_kafka.types import ArrowDecoder, ConsumerRecord, TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

    from tandem_kafka.consumer.consumer import KafkaConsumer


#: Who reads to an end gives up after this time without progress.
PATIENCE_MS: Final = 30_000
_POLL_MS: Final = 500
_RECORDS: Final = 5_000


class SpanReader:
    """Reads a range of records once, in offset order within each partition.

    Args:
        consumer: Its assignment is replaced. With `auto_offset_reset="latest"`, records are lost if
            others before them are deleted during the read.
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
        self._progress_at: dict[TopicPartition, int] = {}
        #: Positions beyond the end.
        self._passed: dict[TopicPartition, int] = {}

    @property
    def position(self) -> dict[TopicPartition, int]:
        """The next offset of each partition."""
        return {tp: self._consumer.position(tp) for tp in self._end}

    def batches(self) -> Iterator[Sequence[ConsumerRecord[Any, Any]]]:
        """Yield the records of the range, in batches of one partition.

        Raises:
            KafkaTimeoutError: No record arrived for half a minute.
        """
        while self.left:
            try:
                polled = self._consumer.poll(_POLL_MS, max_records=_RECORDS)
            except OffsetOutOfRangeError as error:
                self._skip_deleted(error)
                continue
            self._note_progress()
            for tp, records in polled.items():
                end = self._end[tp]
                if records[-1].offset < end:
                    yield records
                elif records[0].offset < end:  # The last fetch may bring records beyond the end.
                    yield [record for record in records if record.offset < end]
            if polled:
                self._progress_ms = self._clock.now_ms()  # what the caller took is no wait

    def arrow_batches(
        self,
        columns: Sequence[str] | None = None,
        *,
        key: ArrowDecoder | None = None,
        value: ArrowDecoder | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the records of the range as Arrow record batches.

        Args:
            columns: The columns to build, at least `topic`, `partition` and `offset`; all by
                default.
            key: Decodes keys.
            value: Decodes values.

        Raises:
            RecordDeserializationError: A record cannot be decoded.
            OffsetOutOfRangeError: A topic was recreated, and `auto_offset_reset` is "none".
            KafkaTimeoutError: No record arrived for half a minute.
        """
        while self.left:
            try:
                batch = self._consumer.poll_arrow(_POLL_MS, columns=columns, key=key, value=value)
            except RecordDeserializationError as error:
                if error.offset < self._end[error.partition]:
                    raise
                # It lies beyond the end, and would be raised again. All records before it were
                # returned; the position may still be before markers that precede it.
                self._consumer.pause(error.partition)
                self.left.discard(error.partition)
                self._note_progress()
                continue
            except OffsetOutOfRangeError as error:
                self._skip_deleted(error)
                continue
            self._note_progress()
            within = self._within(batch)
            if within.num_rows:
                yield within
                self._progress_ms = self._clock.now_ms()  # what the caller took is no wait

    def _within(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the records before the end: the last fetch may bring many batches of others."""
        at = self.position
        beyond = [tp for tp, end in self._end.items() if at[tp] > self._passed.get(tp, end)]
        self._passed.update((tp, at[tp]) for tp in beyond)
        if not beyond or not batch.num_rows:
            return batch
        import pyarrow as pa
        import pyarrow.compute as pc

        kept = pa.array([True] * batch.num_rows)
        topics = batch["topic"].cast(pa.string())
        for tp in beyond:
            of_it = pc.and_(pc.equal(topics, tp.topic), pc.equal(batch["partition"], tp.partition))
            after = pc.greater_equal(batch["offset"], self._end[tp])
            kept = pc.and_not(kept, pc.and_(of_it, after))
        return batch.filter(kept)

    def follow(self) -> Iterator[list[ConsumerRecord[Any, Any]]]:
        """Yield records beyond the range as they arrive, without an end; also empty batches."""
        for tp, end in self._end.items():
            self._consumer.stop_at(tp, None)
            # The last fetch may have brought records beyond the end, which were left out, and the
            # position has passed them. Without the seek, `tail -F` would miss them.
            if self._consumer.position(tp) > end:
                self._consumer.seek(tp, end)
        while True:
            polled = self._consumer.poll(_POLL_MS, max_records=_RECORDS)
            yield [record for records in polled.values() for record in records]

    def _skip_deleted(self, error: OffsetOutOfRangeError) -> None:
        """Read on behind records that were deleted before they were read.

        Raises:
            OffsetOutOfRangeError: The topic was truncated or recreated: it has other records now.
        """
        positions: dict[TopicPartition, int] = error.args[0]
        for tp, first in self._consumer.beginning_offsets(positions).items():
            if first <= positions[tp]:
                raise error
            self._consumer.seek(tp, first)
        self._note_progress()

    def _note_progress(self) -> None:
        """Remove the partitions that are complete; fail without progress."""
        at = {tp: self._consumer.position(tp) for tp in self.left}
        self.left = {tp for tp in self.left if at[tp] < self._end[tp]}
        now_ms = self._clock.now_ms()
        # Not the records: those that are dropped or aborted are read as well.
        if at != self._progress_at:
            self._progress_ms, self._progress_at = now_ms, {tp: at[tp] for tp in self.left}
        elif now_ms - self._progress_ms > PATIENCE_MS:
            raise KafkaTimeoutError(self._why_stuck())

    def _why_stuck(self) -> str:
        health = self._consumer.health()
        reasons = [
            f"{tp.topic}-{tp.partition}: {health.partitions[tp].stuck}"
            for tp in sorted(self.left)
            if tp in health.partitions and health.partitions[tp].stuck
        ]
        shown = "; ".join([*health.troubles, *reasons][:3])
        return (
            f"no record arrived for {PATIENCE_MS // 1000} s; {len(self.left)} partitions are not "
            f"complete{': ' if shown else ''}{shown}; try again when their leaders respond"
        )
