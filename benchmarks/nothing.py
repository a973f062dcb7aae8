"""A Python source of Spark that asks nobody: what is left is what Spark itself takes for one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

__all__ = ["Nothing"]

PARTITIONS = 4
ROWS = 1_000


class Nothing(DataSource):
    """A thousand rows in four partitions."""

    @classmethod
    def name(cls) -> str:
        """Return what goes into `format()`."""
        return "nothing"

    def schema(self) -> str:
        """Return one column of bytes."""
        return "value binary"

    def reader(self, schema: Any) -> DataSourceReader:  # noqa: ARG002 - Spark's interface
        """Return what makes the rows."""
        return _Reader()


class _Reader(DataSourceReader):
    def partitions(self) -> list[InputPartition]:
        return [InputPartition(number) for number in range(PARTITIONS)]

    def read(self, partition: InputPartition) -> Iterator[Any]:  # noqa: ARG002 - Spark's interface
        import pyarrow as pa  # noqa: PLC0415 - in the worker

        values = pa.array([b"value"] * (ROWS // PARTITIONS), pa.binary())
        yield pa.RecordBatch.from_arrays([values], names=["value"])
