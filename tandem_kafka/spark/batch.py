"""The batch reader: all offsets are settled on the driver, when the query is planned."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from tandem_kafka.errors import InvalidArgumentError
from tandem_kafka.spark.cluster import Cluster
from tandem_kafka.spark.columns import RowShape
from tandem_kafka.spark.failures import sentence_first
from tandem_kafka.spark.narrowing import Narrowing
from tandem_kafka.spark.options import SourceOptions
from tandem_kafka.spark.ranges import OffsetRange, split
from tandem_kafka.spark.reading import Reading
from tandem_kafka.spark.shipping import Shipped

__all__ = ["batch_reader"]


def batch_reader(given: Mapping[str, str], schema: StructType) -> DataSourceReader:
    """Return the reader of a batch query.

    Raises:
        InvalidArgumentError: An option or a column is wrong, or needs a newer Spark.
    """
    options = SourceOptions.parse(given, streaming=False)
    if options.filter_pushdown and not hasattr(DataSourceReader, "pushFilters"):
        raise InvalidArgumentError(
            "tandem.filterPushdown needs Spark 4.1: a Python source hears of no filters before"
        )
    kind = FilteringBatchReader if options.filter_pushdown else BatchReader
    return kind(options, RowShape.of(schema, headers=options.include_headers))


class BatchReader(Shipped, DataSourceReader):
    """Reads from the starting to the ending offsets."""

    def __init__(self, options: SourceOptions, shape: RowShape) -> None:
        self._options = options
        self._reading = Reading.of(options, shape)
        self._narrowing = Narrowing()

    @sentence_first
    def partitions(self) -> list[InputPartition]:
        """Return the ranges to read."""
        options = self._options
        with Cluster(options) as cluster:
            there = cluster.partitions()
            start = cluster.resolve(options.starting, there, starting=True)
            end = cluster.resolve(options.ending, there, starting=False)
            ranges = [OffsetRange(*tp, start[tp], end[tp]) for tp in sorted(there)]
            ranges = self._narrowing.apply(ranges, cluster)
        return split(
            ranges,
            min_partitions=options.min_partitions,
            max_records=options.max_records_per_partition,
        )

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Read one range; Spark plans a task without one where there is none."""
        return self._reading.read(partition) if isinstance(partition, OffsetRange) else iter(())


class FilteringBatchReader(BatchReader):
    """The same, for sessions that have filters pushed down: elsewhere Spark refuses to plan it."""

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802 - Spark's name
        """Take note of what makes ranges smaller; Spark still applies every filter itself."""
        self._narrowing = Narrowing.from_filters(filters)
        return filters
