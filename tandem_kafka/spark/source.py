"""The data source that Spark registers: `spark.read.format("tandem_kafka")` and its siblings."""

from __future__ import annotations

from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from tandem_kafka.errors import InvalidArgumentError
from tandem_kafka.spark.columns import RowShape, full_schema
from tandem_kafka.spark.options import SinkOptions, SourceOptions

__all__ = ["TandemKafkaDataSource"]


class TandemKafkaDataSource(DataSource):
    """Kafka as a table and as a stream, with the options of Spark's own connector.

    Spark makes it anew for every step of planning, so it opens nothing and keeps nothing; the
    client is imported by what uses it.
    """

    @classmethod
    def name(cls) -> str:
        """Return what goes into `format()`."""
        return "tandem_kafka"

    def schema(self) -> StructType:
        """Return the columns of Spark's own connector."""
        return full_schema(headers=self._flag("includeHeaders"))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch query."""
        from tandem_kafka.spark.batch import (  # noqa: PLC0415 - see the class
            BatchReader,
            FilteringBatchReader,
        )

        options = SourceOptions.parse(dict(self.options), streaming=False)
        if options.filter_pushdown and not hasattr(DataSourceReader, "pushFilters"):
            raise InvalidArgumentError(
                "tandem.filterPushdown needs Spark 4.1: a Python source hears of no filters before"
            )
        shape = RowShape.of(schema, headers=options.include_headers)
        kind = FilteringBatchReader if options.filter_pushdown else BatchReader
        return kind(options, shape)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's
        """Return the reader of a stream."""
        from tandem_kafka.spark.stream import StreamReader, limits_supported  # noqa: PLC0415

        options = SourceOptions.parse(dict(self.options), streaming=True)
        limited = options.max_offsets_per_trigger or options.min_offsets_per_trigger
        if limited and not limits_supported():
            raise InvalidArgumentError(
                "maxOffsetsPerTrigger and minOffsetsPerTrigger need Spark 4.2: before, it does "
                "not tell a Python source where a batch starts"
            )
        return StreamReader(options, RowShape.of(schema, headers=options.include_headers))

    def writer(self, schema: StructType, overwrite: bool) -> Any:
        """Return the writer of a batch query."""
        from tandem_kafka.spark.sink import BatchWriter  # noqa: PLC0415

        return BatchWriter(SinkOptions.parse(dict(self.options)), schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:  # noqa: N802 - Spark's
        """Return the writer of a stream."""
        from tandem_kafka.spark.sink import StreamWriter  # noqa: PLC0415

        return StreamWriter(SinkOptions.parse(dict(self.options)), schema, overwrite=overwrite)

    def _flag(self, name: str) -> bool:
        return str(self.options.get(name, "false")).lower() == "true"
