"""The batch reader: the driver resolves all offsets when it plans the query."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from pyspark_tandem_kafka.cluster import Cluster, DataLossError
from pyspark_tandem_kafka.columns import RowShape
from pyspark_tandem_kafka.failures import sentence_first
from pyspark_tandem_kafka.narrowing import Narrowing
from pyspark_tandem_kafka.options import SourceOptions
from pyspark_tandem_kafka.ranges import OffsetRange, split
from pyspark_tandem_kafka.reading import Reading
from pyspark_tandem_kafka.shipping import Shipped
from tandem_kafka.errors import InvalidArgumentError
from tandem_kafka.logs import client_logger
from tandem_kafka.types import names_of

if TYPE_CHECKING:
    import pyarrow as pa

log = client_logger(__name__)


def batch_reader(given: Mapping[str, str], schema: StructType) -> DataSourceReader:
    """Return the reader of a batch query.

    Raises:
        InvalidArgumentError: An option or a column is wrong, or needs a newer Spark.
    """
    options = SourceOptions.parse(given, streaming=False)
    if options.filter_pushdown and not hasattr(DataSourceReader, "pushFilters"):
        raise InvalidArgumentError(
            "tandem.filterPushdown needs Spark 4.1 or newer: older versions pass no filters to a "
            "Python source"
        )
    kind = FilteringBatchReader if options.filter_pushdown else BatchReader
    return kind(options, RowShape.of(schema, headers=options.include_headers))


class BatchReader(Shipped, DataSourceReader):
    """Reads from the starting offsets to the ending offsets."""

    def __init__(self, options: SourceOptions, shape: RowShape) -> None:
        self._options = options
        self._reading = Reading.of(options, shape)
        self._narrowing = Narrowing()

    @sentence_first
    def partitions(self) -> list[InputPartition]:
        """Return the ranges to read."""
        options = self._options
        with Cluster(options) as cluster:
            existing = cluster.partitions()
            start = cluster.resolve(options.starting, existing, starting=True)
            end = cluster.resolve(options.ending, existing, starting=False)
            ranges = [OffsetRange(*tp, start[tp], end[tp], existing[tp]) for tp in sorted(existing)]
            self._check_order(ranges)
            ranges = self._narrowing.apply(ranges, cluster)
        return split(
            ranges,
            min_partitions=options.min_partitions,
            max_records=options.max_records_per_partition,
        )

    def _check_order(self, ranges: Iterable[OffsetRange]) -> None:
        """Say which partitions start beyond their end: nothing would be read of them."""
        wrong = [each for each in ranges if each.size < 0]
        if not wrong:
            return
        what = ", ".join(
            f"{names_of([r.tp])} starts at {r.start} and ends at {r.end}" for r in wrong
        )
        if self._options.fail_on_data_loss:
            raise DataLossError(
                f"{what}: the topic was recreated, its records were deleted, or the starting and "
                "ending offsets are mistaken. To read nothing of such partitions, set "
                "failOnDataLoss to false"
            )
        log.warning("records may have been lost: %s", what)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one range; a plan without ranges still has a task, which reads nothing."""
        return self._reading.read(partition) if isinstance(partition, OffsetRange) else iter(())


class FilteringBatchReader(BatchReader):
    """A batch reader with filter pushdown; Spark rejects it if the session disables pushdown."""

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802 - Spark's name
        """Note the filters that reduce the ranges; Spark still applies every filter itself."""
        self._narrowing = Narrowing.from_filters(filters)
        return filters
