"""A Python source for Spark without a cluster: it shows the cost of Spark itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)

__all__ = ["Nothing"]

PARTITIONS = 4
ROWS = 1_000
#: Approximate size of a record batch, that of the Kafka source.
_BATCH_BYTES = 1 << 20


class Nothing(DataSource):
    """Rows in four partitions: a thousand small ones, or `rows` with values of `bytes`."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format()`."""
        return "nothing"

    def schema(self) -> str:
        """Return `columns`, or one column of bytes."""
        return str(self.options.get("columns", "value binary"))

    def reader(self, schema: Any) -> DataSourceReader:
        """Return a reader that creates the rows."""
        return _Reader(self._rows(schema))

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return a reader that makes them once, or in each micro-batch with `endless`."""
        return _StreamReader(self._rows(schema), endless=self.options.get("endless") == "true")

    def _rows(self, schema: Any) -> _Rows:
        rows, size = (int(self.options.get(*each)) for each in (("rows", ROWS), ("bytes", 5)))
        return _Rows(schema, rows // PARTITIONS, size)


@dataclass(frozen=True)
class _Rows:
    """Rows with the columns of the Kafka source, all with the same value."""

    schema: Any
    count: int
    size: int

    def batches(self, partition: int) -> Iterator[Any]:
        """Yield the same record batch until it has made all rows of a partition."""
        import pyarrow as pa  # noqa: PLC0415 - in the worker
        from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415

        constant = {
            "key": None,
            "value": bytes(self.size),
            "topic": f"records-of-{self.size}",
            "partition": partition,
            "offset": 0,
            "timestamp": 0,
            "timestampType": 0,
        }
        count = max(1, min(self.count, _BATCH_BYTES // (self.size + 50)))
        fields = to_arrow_schema(self.schema, timezone="UTC")
        arrays = [pa.array([constant[each.name]] * count, each.type) for each in fields]
        batch = pa.RecordBatch.from_arrays(arrays, schema=fields)
        for made in range(0, self.count, count):
            yield batch.slice(0, min(count, self.count - made))


class _Reader(DataSourceReader):
    def __init__(self, rows: _Rows) -> None:
        self._rows = rows

    def partitions(self) -> list[InputPartition]:
        return _partitions()

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return self._rows.batches(partition.value)


class _StreamReader(DataSourceStreamReader):
    def __init__(self, rows: _Rows, *, endless: bool) -> None:
        self._rows = rows
        self._endless = endless
        self._batches = 0

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        return {"batches": 0}

    def latestOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        self._batches = self._batches + 1 if self._endless else 1
        return {"batches": self._batches}

    def partitions(self, start: Any, end: Any) -> list[InputPartition]:  # noqa: ARG002 - Spark's
        return _partitions()

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return self._rows.batches(partition.value)


def _partitions() -> list[InputPartition]:
    return [InputPartition(number) for number in range(PARTITIONS)]
