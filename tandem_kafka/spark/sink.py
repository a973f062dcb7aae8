"""Writes rows to Kafka, at least once: a task that fails is repeated, with all its rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from tandem_kafka.errors import InvalidArgumentError
from tandem_kafka.spark.client import producer_options
from tandem_kafka.spark.options import SinkOptions
from tandem_kafka.spark.producing import deliver
from tandem_kafka.spark.rows import check_columns

try:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
except ImportError:  # before Spark 4.1
    from pyspark.sql.datasource import DataSourceStreamWriter

    class DataSourceStreamArrowWriter(  # type: ignore[no-redef]
        DataSourceArrowWriter, DataSourceStreamWriter
    ):
        """Spark 4.0 hands record batches to the first of the two, also in a stream."""


__all__ = ["BatchWriter", "StreamWriter"]


class _Writer:
    """What both kinds have in common; made on the driver, used in the workers."""

    def __init__(self, options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> None:
        parsed = SinkOptions.parse(options)
        if overwrite:
            raise InvalidArgumentError(
                'a topic cannot be overwritten: write with mode("append"), or outputMode("append")'
                ' or ("update") of a stream'
            )
        check_columns(schema, parsed.topic)
        producer_options(parsed.kafka)
        self._options = parsed

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Produce all rows of a task and wait until every one is delivered."""
        deliver(iterator, self._options)
        return WriterCommitMessage()

    def commit(self, messages: list[Any], *batch: int) -> None:
        """Nothing: what is delivered is visible."""

    def abort(self, messages: list[Any], *batch: int) -> None:
        """Nothing: what is delivered cannot be taken back."""


class BatchWriter(_Writer, DataSourceArrowWriter):
    """Writes the rows of a batch query."""


class StreamWriter(_Writer, DataSourceStreamArrowWriter):
    """Writes the rows of a stream's micro-batches."""
