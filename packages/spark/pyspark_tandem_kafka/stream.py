"""The stream reader: it reports the end of each micro-batch, which Spark's checkpoint keeps.

A micro-batch has one range per partition, taken from Spark's offset log, so a repeated batch has
the same records. The log has only the end of a batch. If a query restarts before its first batch is
finished, Spark asks again where to start, but "latest" has moved. The end of the first
batch therefore also records where it began. Each end has the ids of the topics: the offsets of a
topic mean nothing in one that was created with its name.

One process runs this object for the lifetime of the query. Spark never calls `stop()`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from pyspark_tandem_kafka.cluster import (
    Cluster,
    DataLossError,
    UnknownTopicError,
    recreation,
    topic_ids,
)
from pyspark_tandem_kafka.columns import RowShape
from pyspark_tandem_kafka.failures import sentence_first
from pyspark_tandem_kafka.offsets import (
    At,
    LoggedOffset,
    PartitionOffsets,
    StreamOffset,
    rate_limited,
)
from pyspark_tandem_kafka.options import SourceOptions
from pyspark_tandem_kafka.ranges import OffsetRange, split
from pyspark_tandem_kafka.reading import Reading
from pyspark_tandem_kafka.shipping import Shipped
from tandem_kafka.errors import InvalidArgumentError, KafkaError
from tandem_kafka.logs import client_logger
from tandem_kafka.types import NO_TOPIC_ID, TopicPartition, names_of

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
except ImportError:  # before Spark 4.2
    ReadAllAvailable = ReadMaxRows = None

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Spark makes a single batch by itself."""


if TYPE_CHECKING:
    import pyarrow as pa

log = client_logger(__name__)

_NO_LIMIT = 2**62


def stream_reader(given: Mapping[str, str], schema: StructType) -> DataSourceStreamReader:
    """Return the reader of a stream.

    Raises:
        InvalidArgumentError: An option or a column is wrong, or needs a newer Spark.
    """
    options = SourceOptions.parse(given, streaming=True)
    limited = options.max_offsets_per_trigger or options.min_offsets_per_trigger
    if limited and ReadMaxRows is None:
        raise InvalidArgumentError(
            "maxOffsetsPerTrigger and minOffsetsPerTrigger need Spark 4.2 or newer: older versions "
            "do not tell a Python source where a batch starts"
        )
    return StreamReader(options, RowShape.of(schema, headers=options.include_headers))


class StreamReader(Shipped, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches, and reads their ranges in the workers."""

    def __init__(self, options: SourceOptions, shape: RowShape) -> None:
        self._options = options
        self._reading = Reading.of(options, shape)
        self._cluster = Cluster(options)
        self._initial: StreamOffset | None = None
        #: Why the start was not found: an error as soon as it is needed. A first batch that is
        #: repeated does not need it, because its end says where it began.
        self._not_found: KafkaError | None = None
        #: The end of a run with Trigger.AvailableNow.
        self._target: StreamOffset | None = None
        self._last: StreamOffset | None = None
        self._reported: StreamOffset | None = None
        self._waiting_since_ms: int | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the connection: workers only call `read`."""
        return {**self.__dict__, "_cluster": None}

    # --- offsets -------------------------------------------------------------------------------

    @sentence_first
    def initialOffset(self) -> LoggedOffset:  # noqa: N802 - Spark's name
        """Return where a new query starts; always the same offsets, because Spark asks twice."""
        if self._initial is None:
            try:
                self._initial = self._starting()
            except (InvalidArgumentError, UnknownTopicError) as error:
                self._initial, self._not_found = StreamOffset(), error
        return self._initial.to_json()

    def _starting(self) -> StreamOffset:
        """Look up the start. With Trigger.AvailableNow, do not start beyond the fixed end.

        Records and partitions that were added after the end was fixed belong to the next run.
        """
        starting, target = self._options.starting, self._target
        existing = self._cluster.partitions(known=target)
        if target is not None:
            existing = {tp: known for tp, known in existing.items() if tp in target.ends}
        found = self._cluster.resolve(starting, existing, starting=True)
        if target is not None:
            exact = starting.offsets if isinstance(starting, At) else {}
            found = {
                tp: at if isinstance(exact.get(tp), int) else min(at, target.ends[tp])
                for tp, at in found.items()
            }
        return StreamOffset(found, topic_ids(existing))

    @sentence_first
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Fix the end offsets of this run."""
        self._target = self._latest(StreamOffset())

    def _end_of_run(self, begin: StreamOffset) -> StreamOffset | None:
        """Return the fixed end of this run, if there is one.

        It was fixed before Spark said where to begin. If topics differ, the broker may have been
        behind then, so it is fixed again.
        """
        target = self._target
        if target is not None and (
            begin.recreated(target.topic_ids) or begin.ends.keys() - target.ends.keys()
        ):
            self._target = self._latest(begin)
        return self._target

    def getDefaultReadLimit(self) -> Any:  # noqa: N802 - Spark's name
        """Return maxOffsetsPerTrigger; `latestOffset` applies the other limits."""
        return ReadMaxRows(self._options.max_offsets_per_trigger or _NO_LIMIT)

    @sentence_first
    def latestOffset(  # noqa: N802 - Spark's name
        self, start: LoggedOffset | None = None, limit: Any = None
    ) -> LoggedOffset:
        """Return the end of the next batch, or `start` itself if there is nothing to read."""
        everything = ReadAllAvailable is not None and isinstance(limit, ReadAllAvailable)
        begin = self._last or StreamOffset()
        initial = start is not None and self._is_initial(start)
        if initial and self._not_found is not None:
            raise self._not_found
        if start is not None:
            begin = StreamOffset.from_json(start)
        latest = self._end_of_run(begin) or self._latest(begin)
        self._reported = latest
        first = begin.ends
        if again := self._recreated(begin, latest):
            new = {tp for tp in latest.ends if tp.topic in again}
            first = begin.without_recreated(latest.topic_ids) | self._first_of_new(new)
        ends = latest.ends if everything else self._limited(first, latest.ends, limit)
        if start is not None and ends == begin.ends and not again:
            return dict(start)  # unchanged, because Spark compares offsets as text
        beginning = first if initial else None
        ids = {**begin.topic_ids, **latest.topic_ids}  # topics may be gone for a while
        self._last = StreamOffset(ends, ids, beginning)
        return self._last.to_json()

    def reportLatestOffset(self) -> LoggedOffset | None:  # noqa: N802 - Spark's name
        """Return the end of the topics, for the lag in the query's progress."""
        return None if self._reported is None else self._reported.to_json()

    def _is_initial(self, start: LoggedOffset) -> bool:
        """Return whether `start` came from `initialOffset` and not from Spark's log."""
        return self._initial is not None and start == self._initial.to_json()

    def _latest(self, begin: StreamOffset) -> StreamOffset:
        lenient = not self._options.fail_on_data_loss
        existing = self._cluster.partitions(lenient=lenient, known=begin)
        ids = topic_ids(existing)
        known = begin.without_recreated(ids)
        return StreamOffset(self._cluster.latest(existing, known=known), ids)

    def _limited(
        self, begin: PartitionOffsets, ends: PartitionOffsets, limit: Any
    ) -> PartitionOffsets:
        most = limit.max_rows if ReadMaxRows and isinstance(limit, ReadMaxRows) else _NO_LIMIT
        start = begin | self._earliest(ends.keys() - begin.keys())
        total = sum(max(0, at - start.get(tp, at)) for tp, at in ends.items())
        if self._too_few(total):
            return begin
        return ends if total <= most else rate_limited(most, start, ends)

    def _too_few(self, total: int) -> bool:
        """Return whether to wait for minOffsetsPerTrigger; Trigger.AvailableNow never waits."""
        least = self._options.min_offsets_per_trigger
        if least is None or self._target is not None:
            return False
        now_ms = self._cluster.now_ms()
        if self._waiting_since_ms is None:
            self._waiting_since_ms = now_ms
        waited_ms = now_ms - self._waiting_since_ms
        if total < least and waited_ms < self._options.max_trigger_delay_ms:
            return True
        self._waiting_since_ms = now_ms
        return False

    # --- records -------------------------------------------------------------------------------

    @sentence_first
    def partitions(self, start: LoggedOffset, end: LoggedOffset) -> list[InputPartition]:
        """Return the ranges of a new or repeated batch."""
        begin, last = StreamOffset.from_json(start), StreamOffset.from_json(end)
        # Without it, a batch that starts at `initialOffset` is the first one of another source, and
        # the log does not say where it began.
        unknown = self._is_initial(start) and last.beginning is None
        if unknown and self._not_found is not None:
            raise self._not_found
        first = last.beginning
        if first is None:
            self._recreated(begin, last)
            first = begin.without_recreated(last.topic_ids)
        gone = sorted(first.keys() - last.ends.keys())
        if gone and not unknown:
            self._lost(f"partitions are gone: {names_of(gone)}")
        first = first | self._first_of_new(last.ends.keys() - first.keys())
        ranges = [
            # Of new partitions that are gone already, nothing is left.
            OffsetRange(*tp, first.get(tp, at), at, last.topic_ids.get(tp.topic, NO_TOPIC_ID))
            for tp, at in sorted(last.ends.items())
        ]
        for each in ranges:
            if each.size < 0 and not unknown:
                self._lost(
                    f"{each.topic}-{each.partition} went back from {each.start} to {each.end}"
                )
        if unknown and (gone or any(each.size < 0 for each in ranges)):
            log.warning("repeating the first batch of another source, whose start is unknown")
        return split(
            ranges,
            min_partitions=self._options.min_partitions,
            max_records=self._options.max_records_per_partition,
        )

    def _recreated(self, before: StreamOffset, after: StreamOffset) -> set[str]:
        """Report topics that were recreated in between, and return their names.

        Nothing of the old topic is left to read. The new one is read from its beginning.
        """
        again = before.recreated(after.topic_ids)
        if again:
            each = (recreation(topic, was, after.topic_ids[topic]) for topic, was in again.items())
            self._lost(f"{'; '.join(sorted(each))}; it would be read from its beginning")
        return set(again)

    def _first_of_new(self, new: AbstractSet[TopicPartition]) -> PartitionOffsets:
        """Return the start of partitions that were created while the query ran."""
        earliest = self._earliest(new)
        if gone := new - earliest.keys():
            self._lost(f"partitions are gone: {names_of(gone)}")
        for tp, at in earliest.items():
            if at > 0:
                self._lost(f"{names_of([tp])} is new but begins at offset {at}")
        return earliest

    def _earliest(self, new: AbstractSet[TopicPartition]) -> PartitionOffsets:
        """Return the start of those partitions that still exist: of others, no broker has one."""
        if not new:
            return {}
        known = StreamOffset(dict.fromkeys(new, 0))
        existing = self._cluster.partitions(lenient=True, known=known)
        return self._cluster.earliest(new & existing.keys())

    def _lost(self, what: str) -> None:
        if self._options.fail_on_data_loss:
            raise DataLossError(
                f"records may have been lost: {what}. To continue without them, set "
                "failOnDataLoss to false"
            )
        log.warning("records may have been lost: %s", what)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one range."""
        return self._reading.read(partition) if isinstance(partition, OffsetRange) else iter(())

    @sentence_first
    def commit(self, end: LoggedOffset) -> None:
        """Commit the end to a group for lag monitoring; the query uses Spark's checkpoint only."""
        if self._options.commit_group is not None:
            self._cluster.commit(self._options.commit_group, StreamOffset.from_json(end).ends)

    def stop(self) -> None:
        """Close the connection."""
        self._cluster.close()
