"""The stream reader: it reports the end of each micro-batch, which Spark's checkpoint keeps.

A micro-batch has one range per partition, taken from Spark's offset log, so a repeated batch has
the same records. The log has only the end of a batch. If a query restarts before its first batch is
finished, Spark asks again where to start, and "latest" has moved by then. The end of the first
batch therefore also records where it began.

One process runs this object for the lifetime of the query. Spark never calls `stop()`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from tandem_kafka.errors import InvalidArgumentError
from tandem_kafka.spark.cluster import Cluster, DataLossError
from tandem_kafka.spark.columns import RowShape
from tandem_kafka.spark.failures import sentence_first
from tandem_kafka.spark.offsets import (
    At,
    Offsets,
    beginning_in,
    from_json,
    rate_limited,
    to_json,
)
from tandem_kafka.spark.options import SourceOptions
from tandem_kafka.spark.ranges import OffsetRange, split
from tandem_kafka.spark.reading import Reading
from tandem_kafka.spark.shipping import Shipped
from tandem_kafka.types import TopicPartition, names_of

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


log = logging.getLogger(__name__)

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
        self._initial: Offsets | None = None
        #: The end offsets of a run with Trigger.AvailableNow.
        self._target: Offsets | None = None
        self._last: Offsets | None = None
        self._reported: Offsets | None = None
        self._waiting_since_ms: int | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the connection: workers only call `read`."""
        return {**self.__dict__, "_cluster": None}

    # --- offsets -------------------------------------------------------------------------------

    @sentence_first
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return where a new query starts; always the same offsets, because Spark asks twice."""
        if self._initial is None:
            self._initial = self._starting()
        return to_json(self._initial)

    def _starting(self) -> Offsets:
        """Look up the start. With Trigger.AvailableNow, do not start beyond the fixed end.

        Records and partitions that were added after the end was fixed belong to the next run.
        """
        starting, target = self._options.starting, self._target
        existing = self._cluster.partitions()
        if target is None:
            return self._cluster.resolve(starting, existing, starting=True)
        found = self._cluster.resolve(starting, existing & target.keys(), starting=True)
        exact = starting.offsets if isinstance(starting, At) else {}
        return {
            tp: at if isinstance(exact.get(tp), int) else min(at, target[tp])
            for tp, at in found.items()
        }

    @sentence_first
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Fix the end offsets of this run."""
        self._target = self._cluster.latest(self._existing())

    def getDefaultReadLimit(self) -> Any:  # noqa: N802 - Spark's name
        """Return maxOffsetsPerTrigger; `latestOffset` applies the other limits."""
        return ReadMaxRows(self._options.max_offsets_per_trigger or _NO_LIMIT)

    @sentence_first
    def latestOffset(  # noqa: N802 - Spark's name
        self, start: Mapping[str, Any] | None = None, limit: Any = None
    ) -> dict[str, Any]:
        """Return the end of the next batch, or `start` itself if there is nothing to read."""
        everything = ReadAllAvailable is not None and isinstance(limit, ReadAllAvailable)
        begin = from_json(start) if start is not None else self._last or {}
        ends = self._ends(begin)
        self._reported = ends
        if not everything:
            ends = self._limited(begin, ends, limit)
        self._last = ends
        if start is not None and ends == begin:
            return dict(start)  # unchanged, because Spark compares offsets as text
        first = start is not None and self._is_initial(start)
        return to_json(ends, begin if first else None)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        """Return the end of the topics, for the lag in the query's progress."""
        return None if self._reported is None else to_json(self._reported)

    def _is_initial(self, start: Mapping[str, Any]) -> bool:
        """Return whether `start` came from `initialOffset` and not from Spark's log."""
        return self._initial is not None and start == to_json(self._initial)

    def _existing(self, known: Offsets | None = None) -> set[TopicPartition]:
        lenient = not self._options.fail_on_data_loss
        return self._cluster.partitions(lenient=lenient, known=known or ())

    def _ends(self, begin: Offsets) -> Offsets:
        if self._target is not None:
            return self._target
        return self._cluster.latest(self._existing(begin), known=begin)

    def _limited(self, begin: Offsets, ends: Offsets, limit: Any) -> Offsets:
        most = limit.max_rows if ReadMaxRows and isinstance(limit, ReadMaxRows) else _NO_LIMIT
        new = [tp for tp in ends if tp not in begin]
        start = begin | (self._cluster.earliest(new) if new else {})
        total = sum(max(0, ends[tp] - start[tp]) for tp in ends)
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
    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[InputPartition]:
        """Return the ranges of a new or repeated batch."""
        first, last = from_json(start), from_json(end)
        beginning = beginning_in(end)
        # Without it, a batch that starts at `initialOffset` is the first one of another source, and
        # the log does not say where it began.
        unknown = self._is_initial(start) and beginning is None
        if beginning is not None:
            first = beginning
        gone = sorted(first.keys() - last.keys())
        if gone and not unknown:
            self._lost(f"partitions are gone: {names_of(gone)}")
        new = sorted(last.keys() - first.keys())
        if new:
            first |= self._first_of_new(new)
        ranges = [OffsetRange(*tp, first[tp], last[tp]) for tp in sorted(last)]
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

    def _first_of_new(self, new: list[TopicPartition]) -> Offsets:
        """Return the start of partitions that were added while the query ran: their beginning."""
        earliest = self._cluster.earliest(new)
        for tp in new:
            if earliest.get(tp, 0) > 0:
                self._lost(f"{names_of([tp])} is new but begins at offset {earliest[tp]}")
        return {tp: earliest.get(tp, 0) for tp in new}

    def _lost(self, what: str) -> None:
        if self._options.fail_on_data_loss:
            raise DataLossError(
                f"records may have been lost: {what}. To continue without them, set "
                "failOnDataLoss to false"
            )
        log.warning("records may have been lost: %s", what)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Read one range."""
        return self._reading.read(partition) if isinstance(partition, OffsetRange) else iter(())

    @sentence_first
    def commit(self, end: Mapping[str, Any]) -> None:
        """Commit the end to a group for lag monitoring; the query uses Spark's checkpoint only."""
        if self._options.commit_group is not None:
            self._cluster.commit(self._options.commit_group, from_json(end))

    def stop(self) -> None:
        """Close the connection."""
        self._cluster.close()
