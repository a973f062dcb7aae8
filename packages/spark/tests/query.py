"""Spark's part of a query, without a JVM: what it calls of the data source, and in which order.

Everything crosses between Spark's processes as it does there: the source, readers, ranges and
writers pickled by Spark's pickler, offsets and limits as JSON, rows as record batches that Spark
has checked.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa

import packages.spark.tests.session  # noqa: F401 - skips what imports this without pyspark

from pyspark.serializers import CloudPickleSerializer  # isort: skip - see session
from pyspark.sql.datasource import CaseInsensitiveDict, InputPartition  # isort: skip
from pyspark.sql.pandas.types import from_arrow_schema  # isort: skip
from pyspark.sql.types import StructType  # isort: skip
from pyspark.sql.worker.plan_data_source_read import records_to_arrow_batches  # isort: skip
from pyspark_tandem_kafka import TandemKafkaDataSource  # isort: skip
from pyspark_tandem_kafka.schema import full_schema  # isort: skip

__all__ = [
    "Crash",
    "Query",
    "Row",
    "columns",
    "plan",
    "read",
    "shipped",
    "source",
    "tasks",
    "write",
    "writer",
]

#: The values of a row's columns, by name.
Row = dict[str, Any]

_PICKLER = CloudPickleSerializer()


def shipped(what: Any) -> Any:
    """Return what arrives in another of Spark's processes."""
    return _PICKLER.loads(_PICKLER.dumps(what))


def source(servers: str, **options: Any) -> TandemKafkaDataSource:
    """Return the data source with options; `__` in their names is a dot."""
    given = {name.replace("__", "."): str(value) for name, value in options.items()}
    given.setdefault("kafka.bootstrap.servers", servers)
    made = shipped(TandemKafkaDataSource(CaseInsensitiveDict(given)))
    assert isinstance(made, TandemKafkaDataSource)
    return made


def columns(names: str) -> StructType:
    """Return columns of the source, given as their names with commas."""
    known = full_schema(headers=True)
    return StructType([known[name] for name in names.replace(" ", "").split(",")])


def _rows(
    of: TandemKafkaDataSource, schema: StructType, reader: Any, partition: InputPartition
) -> list[Row]:
    """Return the rows of a task, in the order of the task."""
    batches = records_to_arrow_batches(reader.read(shipped(partition)), 1_000, schema, of)
    rows = [row for batch in batches for row in batch.to_pylist()]
    offsets = [row["offset"] for row in rows if "offset" in row]
    assert offsets == sorted(set(offsets)), f"{partition} is read out of order, or twice"
    return rows


# --- batch queries -----------------------------------------------------------------------------


def plan(servers: str, columns: StructType | None = None, **options: Any) -> list[str]:
    """Return the ranges of a batch query, in the order of its tasks."""
    of = source(servers, **options)
    return [str(each) for each in of.reader(columns or of.schema()).partitions()]


def tasks(
    servers: str,
    columns: StructType | None = None,
    *,
    before: Callable[[], object] | None = None,
    **options: Any,
) -> list[list[Row]]:
    """Run a batch query, and return the rows of each task.

    Args:
        servers: The brokers' addresses.
        columns: The columns of the query; None for all.
        before: Called between planning and reading.
        **options: The source's options.
    """
    of = source(servers, **options)
    schema = columns or of.schema()
    reader = of.reader(schema)
    # A plan without ranges has one task nevertheless.
    partitions = reader.partitions() or [InputPartition(None)]
    if before is not None:
        before()
    return [_rows(of, schema, shipped(reader), each) for each in partitions]


def read(servers: str, columns: StructType | None = None, **options: Any) -> list[Row]:
    """Run a batch query, and return its rows."""
    return [row for rows in tasks(servers, columns, **options) for row in rows]


# --- streams -----------------------------------------------------------------------------------


class Crash(Exception):  # noqa: N818 - an event of the test, and no error
    """The query's driver is killed."""


class Query:
    """A streaming query with its checkpoint and its sink, which outlive the runs.

    Attributes:
        offsets: Spark's offset log: the end of each batch, as text.
        commits: Spark's commit log: the number of finished batches.
        batches: The rows that the sink has, by the number of their batch.
        before: Called before each step with its name; it may raise `Crash`.
    """

    def __init__(self, servers: str, columns: StructType | None = None, **options: Any) -> None:
        self.servers = servers
        self.columns = columns
        self.options = options
        self.offsets: list[str] = []
        self.commits = 0
        self.batches: dict[int, list[Row]] = {}
        self.before: Callable[[str], object] = lambda _step: None

    @property
    def rows(self) -> list[Row]:
        """The rows of all batches."""
        return [row for number in sorted(self.batches) for row in self.batches[number]]

    @property
    def counts(self) -> list[int]:
        """The number of rows of each batch."""
        return [len(self.batches[number]) for number in sorted(self.batches)]

    def end_of(self, topic: str) -> dict[int, int]:
        """Return the end of the last batch in the offset log, by partition."""
        end = json.loads(self.offsets[-1]).get(topic, {})
        return {int(partition): offset for partition, offset in end.items()}

    def run(self, trigger: str = "availableNow", *, triggers: int = 100) -> None:
        """Run the query until there is nothing new, or for a number of triggers.

        Args:
            trigger: `availableNow`, `once`, or `processingTime`.
            triggers: How often the query looks for new records at most.
        """
        run = _Run(self, trigger)
        for _ in range(triggers):
            if not run.execute() and trigger != "processingTime":
                return
            if trigger == "once":
                return
        assert trigger == "processingTime", f"the query does not end: {self.offsets[-3:]}"


class _Run:
    """The process of one run: Spark's MicroBatchExecution and its Python runner."""

    def __init__(self, query: Query, trigger: str) -> None:
        self._query = query
        self._source = source(query.servers, **query.options)
        self._schema = query.columns or self._source.schema()
        self._reader: Any = self._source.streamReader(self._schema)
        if trigger == "availableNow":
            self._step("prepareForTriggerAvailableNow")
            self._reader.prepareForTriggerAvailableNow()
        self._limit = _limit(self._reader.getDefaultReadLimit(), once=trigger == "once")

    def _step(self, name: str) -> None:
        self._query.before(name)

    def execute(self) -> bool:
        """Plan a batch unless one is left from before, and read it; False if nothing is new."""
        query, number = self._query, self._query.commits
        if number == len(query.offsets) and not self._construct():
            return False
        start = json.loads(query.offsets[number - 1]) if number else self._initial()
        end = json.loads(query.offsets[number])
        self._step("partitions")
        partitions = self._reader.partitions(start, end)
        # Workers get the reader of another process.
        worker = shipped(self._source.streamReader(self._schema))
        rows: list[Row] = []
        for each in partitions:
            self._step("read")
            rows += _rows(self._source, self._schema, worker, each)
        self._step("sink")
        assert query.batches.setdefault(number, rows) == rows, "a repeated batch differs"
        self._step("commit log")
        query.commits += 1
        self._step("end of the batch")
        return True

    def _construct(self) -> bool:
        query = self._query
        start = query.offsets[-1] if query.offsets else json.dumps(self._initial())
        self._step("latestOffset")
        end = json.dumps(self._reader.latestOffset(json.loads(start), self._limit))
        json.dumps(self._reader.reportLatestOffset())
        if query.offsets and end == start:
            return False
        self._step("offset log")
        query.offsets.append(end)
        if len(query.offsets) > 1:
            self._step("commit")
            self._reader.commit(json.loads(start))
        return True

    def _initial(self) -> Any:
        self._step("initialOffset")
        return json.loads(json.dumps(self._reader.initialOffset()))


def _limit(default: Any, *, once: bool) -> Any:
    """Return a reader's limit as it arrives from the JVM."""
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    if once:
        return ReadAllAvailable()
    return type(default)(**json.loads(json.dumps(dataclasses.asdict(default))))


# --- writing -----------------------------------------------------------------------------------


def writer(
    servers: str,
    schema: pa.Schema,
    *,
    streaming: bool = False,
    overwrite: bool = False,
    **options: Any,
) -> Any:
    """Return the writer of a data frame with a schema."""
    of, columns_of_frame = source(servers, **options), from_arrow_schema(schema)
    if streaming:
        return of.streamWriter(columns_of_frame, overwrite)
    return of.writer(columns_of_frame, overwrite)


def write(servers: str, *batches: pa.RecordBatch, streaming: bool = False, **options: Any) -> None:
    """Write record batches in one task, and commit."""
    made = writer(servers, batches[0].schema, streaming=streaming, **options)
    message = shipped(shipped(made).write(iter(batches)))
    made.commit([message], *([0] if streaming else []))
