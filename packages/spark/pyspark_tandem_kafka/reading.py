"""Reads one range of offsets in a task.

A range may have fewer records than offsets, or none: transaction markers, aborted records and
compaction leave gaps. A range is therefore complete when the position has reached its end. If
retention has deleted offsets of the range, the broker rejects the fetch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark_tandem_kafka.client import consumer_options
from pyspark_tandem_kafka.cluster import DataLossError, recreation
from pyspark_tandem_kafka.columns import RowShape
from pyspark_tandem_kafka.failures import sentence_first
from pyspark_tandem_kafka.options import SourceOptions
from pyspark_tandem_kafka.ranges import OffsetRange
from tandem_kafka.errors import KafkaTimeoutError, OffsetOutOfRangeError
from tandem_kafka.logs import client_logger
from tandem_kafka.runtime import Runtime
from tandem_kafka.types import NO_TOPIC_ID, names_of

if TYPE_CHECKING:
    import pyarrow as pa

    from tandem_kafka import KafkaConsumer

log = client_logger(__name__)

#: Records of the first batch, before their size is known.
_FIRST_ROWS: Final = 1_000
_MAX_ROWS: Final = 100_000
#: After this time without a record, look up the end of the log: it may have moved back.
_STALLED_MS: Final = 5_000
#: Minimum timeout of that lookup, if less of pollTimeoutMs remains.
_LOOKUP_MS: Final = 1_000
#: A broker may not yet know the topic that was planned: it is looked up again.
_LOOKUPS: Final = 3
_BETWEEN_LOOKUPS_MS: Final = 100
#: Without failOnDataLoss, the range would be left out for good, and a broker may be behind by more.
_LENIENT_LOOKUPS: Final = 30
_BUFFER_BYTES: Final = 32 << 20
#: A task reads one partition, with one fetch in flight at a time: small fetches would be slow.
_FETCH_BYTES: Final = 2 << 20


@dataclass(frozen=True)
class Reading:
    """The settings for reading a query's ranges; sent to the workers."""

    kafka: Mapping[str, str]
    shape: RowShape
    batch_bytes: int
    poll_timeout_ms: int
    fail_on_data_loss: bool
    group_id_prefix: str | None

    @classmethod
    def of(cls, options: SourceOptions, shape: RowShape) -> Reading:
        """Select the options that workers need."""
        return cls(
            kafka=dict(options.kafka),
            shape=shape,
            batch_bytes=options.batch_bytes,
            poll_timeout_ms=options.poll_timeout_ms,
            fail_on_data_loss=options.fail_on_data_loss,
            group_id_prefix=options.group_id_prefix,
        )

    def __repr__(self) -> str:
        return f"Reading({', '.join(self.shape.schema.names)})"

    def client_options(self) -> dict[str, Any]:
        """Return the options of a worker's consumer."""
        options = {
            "fetch_buffer_max_bytes": _BUFFER_BYTES,
            "max_partition_fetch_bytes": _FETCH_BYTES,
            **consumer_options(self.kafka),
        }
        if self.group_id_prefix is not None:
            options.setdefault("client_id", f"{self.group_id_prefix}-executor")
        return options | {
            "auto_offset_reset": "none",
            "enable_auto_commit": False,
            "allow_auto_create_topics": False,
        }

    @sentence_first
    def read(self, requested: OffsetRange) -> Iterator[pa.RecordBatch]:
        """Yield the records of a range as record batches."""
        from pyspark_tandem_kafka.consumers import cache  # noqa: PLC0415 - planning needs none

        with cache.lend(self.client_options()) as consumer:
            yield from _Range(self, consumer, requested).batches()


def _before(batch: pa.RecordBatch, end: int) -> pa.RecordBatch:
    """Return the records of a batch before an offset."""
    import pyarrow.compute as pc  # noqa: PLC0415 - slow to import; planning needs none

    return batch.slice(0, pc.sum(pc.less(batch.column("offset"), end)).as_py())


class _Range:
    def __init__(self, reading: Reading, consumer: KafkaConsumer, requested: OffsetRange) -> None:
        self._reading = reading
        self._consumer = consumer
        self._requested = requested
        self._position = requested.start
        self._rows = _FIRST_ROWS
        #: Whether the current position was sought again, after the consumer had called it gone.
        self._repeated = False
        self._runtime = Runtime.threaded()

    def batches(self) -> Iterator[pa.RecordBatch]:
        # Invariant: the id is compared after the last record. Ids do not return: if the topic is
        # still the one that was planned, so was it while its records were read.
        if self._reading.fail_on_data_loss or not self._is_recreated():
            yield from self._batches()
            self._is_recreated()

    def _batches(self) -> Iterator[pa.RecordBatch]:
        tp, end = self._requested.tp, self._requested.end
        convert = self._reading.shape.converter(tp).convert
        self._consumer.assign([tp])
        # Invariant: the limit precedes the seek, which starts the fetching. Records beyond the end
        # would be thrown away, and a parked consumer must be silent.
        self._consumer.stop_at(tp, end)
        self._consumer.seek(tp, self._position)
        moved_ms = self._runtime.clock.now_ms()
        while self._position < end:
            batch = self._poll()
            position = self._consumer.position(tp)
            if position != self._position:
                self._position, moved_ms = position, self._runtime.clock.now_ms()
            else:
                self._stalled(self._runtime.clock.now_ms() - moved_ms)
            if position > end and batch.num_rows:
                # The last fetch returned records beyond the range.
                batch = _before(batch, end)
            if batch.num_rows:
                self._adapt(batch)
                yield convert(batch)

    def _poll(self) -> pa.RecordBatch:
        wait_ms = min(_STALLED_MS, self._reading.poll_timeout_ms)
        columns = self._reading.shape.required
        while True:
            try:
                return self._consumer.poll_arrow(wait_ms, self._rows, columns=columns)
            except OffsetOutOfRangeError:
                self._skip_deleted()

    def _adapt(self, batch: pa.RecordBatch) -> None:
        """Adjust the number of rows of the next batch to `tandem.batchBytes`."""
        rows = batch.num_rows * self._reading.batch_bytes // max(1, batch.nbytes)
        self._rows = max(1, min(_MAX_ROWS, rows))

    # --- data loss -----------------------------------------------------------------------------

    def _attempts(self, count: int) -> Iterator[None]:
        """Yield for each lookup, with a pause in between: a broker may be behind."""
        for attempt in range(count):
            if attempt:
                until_ms = self._runtime.clock.now_ms() + _BETWEEN_LOOKUPS_MS
                self._runtime.driver.wait(lambda: False, until_ms)
            yield

    def _is_recreated(self) -> bool:
        """Return whether the topic has a different id than the one that was planned."""
        tp, planned = self._requested.tp, self._requested.topic_id
        if planned == NO_TOPIC_ID:
            return False
        for _ in self._attempts(_LOOKUPS if self._reading.fail_on_data_loss else _LENIENT_LOOKUPS):
            now = self._consumer.cluster(topics=[tp.topic]).topic_id(tp.topic)
            if now in {planned, NO_TOPIC_ID}:
                return False
        self._lost(recreation(tp.topic, planned, now))
        return True

    def _skip_deleted(self) -> None:
        tp = self._requested.tp
        if self._is_recreated():
            self._consumer.seek(tp, self._requested.end)
            return
        first = self._consumer.beginning_offsets([tp])[tp]
        last = self._consumer.end_offsets([tp])[tp]
        at = self._consumer.position(tp)
        there = first <= at <= last
        if there and not self._repeated and self._requested.topic_id != NO_TOPIC_ID:
            # The consumer knew the topic from before it was recreated; the plan has the new one.
            self._repeated = True
        else:
            gone = f"offset {at} is gone: {names_of([tp])} has [{first}, {last})"
            self._lost(f"topic {tp.topic} was deleted and created again" if there else gone)
            # If the log ends before the position, skip the whole range.
            at = first if at < first else self._requested.end
        self._consumer.seek(tp, at)

    def _stalled(self, since_ms: int) -> None:
        tp = self._requested.tp
        if since_ms < min(_STALLED_MS, self._reading.poll_timeout_ms):
            return
        timeout_ms = max(_LOOKUP_MS, self._reading.poll_timeout_ms - since_ms)
        deadline_ms = self._runtime.clock.now_ms() + timeout_ms
        try:
            last = self._end(deadline_ms)
        except KafkaTimeoutError:
            # No response is not evidence of data loss.
            last = self._requested.end
        if last is None or last < self._requested.end:
            if not self._is_recreated():
                gone = f"there is no topic {tp.topic} with a partition {tp.partition}"
                self._lost(gone if last is None else f"{names_of([tp])} now ends at {last}")
            self._position = self._requested.end
        elif since_ms >= self._reading.poll_timeout_ms:
            raise KafkaTimeoutError(
                f"no record of {self._requested} arrived within {self._reading.poll_timeout_ms} ms "
                f"(kafkaConsumer.pollTimeoutMs) after offset {self._position}"
            )

    def _end(self, deadline_ms: int) -> int | None:
        """Return the end of the log, None if the partition does not exist."""
        tp, clock = self._requested.tp, self._runtime.clock
        for _ in self._attempts(_LOOKUPS):
            remaining_ms = max(1, deadline_ms - clock.now_ms())
            topic = self._consumer.cluster(remaining_ms, [tp.topic]).topics.get(tp.topic)
            if topic is not None and tp.partition in topic.partitions:
                remaining_ms = max(1, deadline_ms - clock.now_ms())
                return self._consumer.end_offsets([tp], remaining_ms)[tp]
        return None

    def _lost(self, what: str) -> None:
        message = f"{self._requested} cannot be read completely: {what}"
        if self._reading.fail_on_data_loss:
            raise DataLossError(
                f"{message}. Retention or a deletion of the topic has removed records; to "
                "continue without them, set failOnDataLoss to false"
            )
        log.warning("records may have been lost: %s", message)
