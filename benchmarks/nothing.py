"""A Python source for Spark that reads nothing: it shows the cost of Spark itself."""

from __future__ import annotations

from collections.abc import Iterator
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


class Nothing(DataSource):
    """A thousand rows in four partitions."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format()`."""
        return "nothing"

    def schema(self) -> str:
        """Return one column of bytes."""
        return "value binary"

    def reader(self, schema: Any) -> DataSourceReader:  # noqa: ARG002 - Spark's interface
        """Return a reader that creates the rows."""
        return _Reader()

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: ARG002, N802 - Spark's
        """Return a reader that makes them once, or in each micro-batch with `endless`."""
        return _StreamReader(endless=self.options.get("endless") == "true")


class _Reader(DataSourceReader):
    def partitions(self) -> list[InputPartition]:
        return _partitions()

    def read(self, partition: InputPartition) -> Iterator[Any]:  # noqa: ARG002 - Spark's interface
        return _rows()


class _StreamReader(DataSourceStreamReader):
    def __init__(self, *, endless: bool) -> None:
        self._endless = endless
        self._batches = 0

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        return {"batches": 0}

    def latestOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        self._batches = self._batches + 1 if self._endless else 1
        return {"batches": self._batches}

    def partitions(self, start: Any, end: Any) -> list[InputPartition]:  # noqa: ARG002 - Spark's
        return _partitions()

    def read(self, partition: InputPartition) -> Iterator[Any]:  # noqa: ARG002 - Spark's interface
        return _rows()


def _partitions() -> list[InputPartition]:
    return [InputPartition(number) for number in range(PARTITIONS)]


def _rows() -> Iterator[Any]:
    import pyarrow as pa  # noqa: PLC0415 - in the worker

    values = pa.array([b"value"] * (ROWS // PARTITIONS), pa.binary())
    yield pa.RecordBatch.from_arrays([values], names=["value"])
