"""Writes rows to Kafka: at least once, or exactly once in transactions.

Spark repeats a failed task with all its rows.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from pyspark_tandem_kafka.client import producer_options
from pyspark_tandem_kafka.failures import sentence_first
from pyspark_tandem_kafka.options import SinkOptions
from pyspark_tandem_kafka.schema import check_columns
from pyspark_tandem_kafka.shipping import Shipped, imported
from tandem_kafka.errors import InvalidArgumentError

try:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
except ImportError:  # before Spark 4.1
    from pyspark.sql.datasource import DataSourceStreamWriter

    class DataSourceStreamArrowWriter(  # type: ignore[no-redef]
        DataSourceArrowWriter, DataSourceStreamWriter
    ):
        """In Spark 4.0, the first base class makes streams pass record batches, too."""


class _Writer(Shipped):
    """Base of both writers; created on the driver, used in the workers.

    Spark creates it for each micro-batch, and the driver needs neither a producer nor pyarrow.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> None:
        parsed = SinkOptions.parse(options)
        if overwrite:
            raise InvalidArgumentError(
                'a topic cannot be overwritten: use mode("append"), or for a stream '
                'outputMode("append") or outputMode("update")'
            )
        check_columns(schema, parsed.topic)
        producer_options(parsed.kafka)
        self._options = parsed
        #: Names the write of a batch query; all attempts of its tasks share it.
        self._write_name = parsed.transaction_epoch or uuid.uuid4().hex

    @sentence_first
    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Produce all rows of a task and wait for their delivery."""
        if self._options.transactional_id_prefix is None:
            imported("pyspark_tandem_kafka.producing").deliver(iterator, self._options)
        else:
            task = TaskContext.get()
            assert task is not None  # noqa: S101 - Spark calls this in tasks only
            epoch, batch = self._epoch(task)
            prefix = self._options.transactional_id_prefix
            transactions = imported("pyspark_tandem_kafka.transactions")
            write = transactions.TaskWrite(prefix, epoch, task.partitionId(), batch)
            transactions.deliver_once(iterator, self._options, write)
        return WriterCommitMessage()

    def _epoch(self, task: TaskContext) -> tuple[str, int]:  # noqa: ARG002 - for streams
        """Return the name of the write, the same for every attempt, and its number."""
        return f"write {self._write_name}", 0

    def commit(self, messages: list[Any], *batch: int) -> None:
        """Do nothing: delivered rows are already visible."""

    def abort(self, messages: list[Any], *batch: int) -> None:
        """Do nothing: delivered rows cannot be withdrawn."""


class BatchWriter(_Writer, DataSourceArrowWriter):
    """Writes the rows of a batch query."""


class StreamWriter(_Writer, DataSourceStreamArrowWriter):
    """Writes the rows of a stream's micro-batches."""

    def _epoch(self, task: TaskContext) -> tuple[str, int]:
        """Return the query and the micro-batch; a repeated batch has the same ones."""
        query = task.getLocalProperty("sql.streaming.queryId")
        batch = task.getLocalProperty("streaming.sql.batchId")
        if query is None or batch is None:
            from pyspark_tandem_kafka.producing import DeliveryError  # noqa: PLC0415

            raise DeliveryError(
                "this version of Spark does not pass the number of the micro-batch to tasks, so "
                "rows cannot be written exactly once: remove tandem.transactionalIdPrefix"
            )
        return f"query {query}", int(batch)
