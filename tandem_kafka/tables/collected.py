"""The records that a landing has read and not yet written."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from tandem_kafka.errors import SchemaMismatchError

#: So many tables are joined to one: each takes kilobytes, even with a single record.
_TABLES: Final = 500


class Collected:
    """Record batches, whose schemas may differ in columns whose type no record has told yet.

    Attributes:
        rows: The number of records.
        size_bytes: Their memory.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget all records."""
        self._tables: list[pa.Table] = []
        self.rows = self.size_bytes = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Add records."""
        self._tables.append(pa.Table.from_batches([batch]))
        self.rows += batch.num_rows
        self.size_bytes += batch.nbytes
        if len(self._tables) > _TABLES:
            self._tables = [self._joined()]

    def table(self) -> pa.Table:
        """Return all records, without columns whose type is not known.

        Raises:
            SchemaMismatchError: A column has several types.
        """
        table = self._joined()
        unknown = [field.name for field in table.schema if pa.types.is_null(field.type)]
        return table.drop_columns(unknown)

    def _joined(self) -> pa.Table:
        try:
            return pa.concat_tables(self._tables, promote_options="default").combine_chunks()
        except pa.ArrowException as error:
            msg = f"a column has another type in later records: {error}; give its decoder a schema"
            raise SchemaMismatchError(msg) from error
