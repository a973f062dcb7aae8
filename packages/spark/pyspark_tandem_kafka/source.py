"""The data source that Spark registers: `format("tandem_kafka")` of readers and writers."""

from __future__ import annotations

import functools
import gc
from collections.abc import MutableMapping
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from pyspark_tandem_kafka.failures import sentence_first
from pyspark_tandem_kafka.needs import check_workers_python, require
from pyspark_tandem_kafka.schema import full_schema
from pyspark_tandem_kafka.shipping import Shipped

try:
    from pyspark import SparkContext, SparkFiles
except ImportError:  # `pyspark-client` has neither a driver nor workers
    SparkContext = SparkFiles = None


class TandemKafkaDataSource(Shipped, DataSource):
    """Kafka as a table and as a stream, with the options of Spark's own connector.

    Spark creates it again for every step of planning, in separate processes. It therefore opens
    no connections, keeps no state, and delays imports.
    """

    @sentence_first
    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        require("pyarrow")
        _freeze_modules()

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore it for the next step of planning."""
        self.__dict__.update(state)
        _freeze_modules()

    @classmethod
    def name(cls) -> str:
        """Return the name for `format()`; Spark calls this on the driver during registration."""
        context = SparkContext and SparkContext._active_spark_context  # noqa: SLF001 - there is no other way
        if context is not None:
            check_workers_python(context)
        return "tandem_kafka"

    def schema(self) -> StructType:
        """Return the columns of Spark's own connector."""
        return full_schema(headers=self._flag("includeHeaders"))

    @sentence_first
    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch query."""
        from pyspark_tandem_kafka.batch import batch_reader  # noqa: PLC0415 - see the class

        return batch_reader(dict(self.options), schema)

    @sentence_first
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's
        """Return the reader of a stream."""
        from pyspark_tandem_kafka.stream import stream_reader  # noqa: PLC0415

        return stream_reader(dict(self.options), schema)

    @sentence_first
    def writer(self, schema: StructType, overwrite: bool) -> Any:
        """Return the writer of a batch query."""
        require("confluent_kafka")
        from pyspark_tandem_kafka.sink import BatchWriter  # noqa: PLC0415

        return BatchWriter(dict(self.options), schema, overwrite=overwrite)

    @sentence_first
    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:  # noqa: N802 - Spark's
        """Return the writer of a stream."""
        require("confluent_kafka")
        from pyspark_tandem_kafka.sink import StreamWriter  # noqa: PLC0415

        return StreamWriter(dict(self.options), schema, overwrite=overwrite)

    def _flag(self, name: str) -> bool:
        return str(self.options.get(name, "false")).lower() == "true"


@functools.cache
def _freeze_modules() -> None:
    """Exclude imported modules from garbage collection, once in each process that Spark starts.

    Spark runs the collector after each step of planning. Without this, it scans every imported
    module, which takes longer than most steps.
    """
    # The objects of a driver are the application's.
    if SparkFiles is not None and SparkFiles._is_running_on_worker:  # noqa: SLF001 - no other way
        gc.freeze()
