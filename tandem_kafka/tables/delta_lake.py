"""A table of Delta Lake."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError

from tandem_kafka.config.shown import show
from tandem_kafka.errors import SinkFencedError
from tandem_kafka.tables.sink import NO_TOPICS, merged_schema
from tandem_kafka.tables.storage import storage
from tandem_kafka.types import TopicPartition

_FIRST: Final = pa.schema(
    [("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64())]
)
#: Each attempt that fails is the commit of another writer.
_ATTEMPTS: Final = 100


class DeltaLake:
    """A `TopicSink`: a table of Delta Lake, which is created if there is none.

    Each commit carries the next offset of each partition as a transaction identifier
    (``tandem-kafka/TOPIC/PARTITION/offset``), and the epoch of its writer likewise. A commit
    succeeds only on the version of the table whose epochs it has seen. Columns are added as records
    bring them.

    Args:
        table: The path or the address of the table.
        storage_options: Options of the storage, as for ``deltalake.DeltaTable``.

    Raises:
        ImportError: deltalake is not installed.
    """

    storage: Final = storage("Delta Lake")

    def __init__(
        self, table: str | Path, *, storage_options: Mapping[str, str] | None = None
    ) -> None:
        self._address = str(table)
        self._options = None if storage_options is None else dict(storage_options)
        self._epochs: dict[TopicPartition, int] = {}
        self._written: pa.Table | None = None
        self._opened: DeltaTable | None = None

    def __repr__(self) -> str:
        """Show the address, without credentials."""
        if not hasattr(self, "_address"):  # in a traceback of its constructor
            return f"<{type(self).__name__} without an address>"
        return f"<{type(self).__name__} {show(self._address)}>"

    def acquire(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, int | None]:
        """Raise the epochs of the partitions."""
        self.abort()
        for _ in range(_ATTEMPTS):
            table = self._newest()
            for tp in partitions:
                self._epochs[tp] = (table.transaction_version(_app_id(tp, "epoch")) or 0) + 1
            raised = [Transaction(_app_id(tp, "epoch"), self._epochs[tp]) for tp in partitions]
            if self._append(table, _FIRST.empty_table(), raised):
                return {tp: table.transaction_version(_app_id(tp, "offset")) for tp in partitions}
        raise self._busy()

    def write(self, table: pa.Table) -> None:
        """Keep the records until the commit."""
        stored = self.storage.table(table)
        self._written = _with_fields_of(self._newest(), stored)

    def topics(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int | None]:
        """Return the numbers in the table."""
        table = self._newest()
        return {tp: table.transaction_version(_app_id(tp, "topic")) for tp in partitions}

    def commit(
        self,
        offsets: Mapping[TopicPartition, int],
        topics: Mapping[TopicPartition, int] = NO_TOPICS,
    ) -> None:
        """Append the records, with the offsets."""
        rows = _FIRST.empty_table() if self._written is None else self._written
        moved = [Transaction(_app_id(tp, "offset"), at) for tp, at in offsets.items()]
        moved += [Transaction(_app_id(tp, "topic"), topic) for tp, topic in topics.items()]
        for attempt in range(_ATTEMPTS):
            table = self._newest()
            # Also the topics: records of one that was made anew may end at the same offset.
            if attempt and all(
                table.transaction_version(each.app_id) == each.version for each in moved
            ):
                break  # the commit happened, and its answer was lost
            fenced = [
                tp
                for tp in offsets
                if table.transaction_version(_app_id(tp, "epoch")) != self._epochs.get(tp)
            ]
            if fenced:
                raise SinkFencedError(fenced)
            # Again: another writer may have added a column, and the writer casts what it can.
            if self._append(table, _with_fields_of(table, rows), moved):
                break
        else:
            raise self._busy()
        self._written = None

    def abort(self) -> None:
        """Drop the records."""
        self._written = None

    def _newest(self) -> DeltaTable:
        if self._opened is None:
            self._opened = DeltaTable.create(
                self._address, _FIRST, mode="ignore", storage_options=self._options
            )
        self._opened.update_incremental()
        return self._opened

    def _append(self, table: DeltaTable, rows: pa.Table, moved: Sequence[Transaction]) -> bool:
        """Append to exactly this version of the table; False if there is a newer one."""
        # Invariant: without retries, no commit of another writer is passed over unseen.
        once = CommitProperties(max_commit_retries=0, app_transactions=[*moved])
        version = table.version()
        try:
            write_deltalake(table, rows, mode="append", schema_mode="merge", commit_properties=once)
        except CommitFailedError:
            if self._newest().version() == version:
                raise
            return False
        return True

    def _busy(self) -> CommitFailedError:
        return CommitFailedError(
            f"{_ATTEMPTS} attempts to commit to {self._address} failed: others commit all the time"
        )


def _with_fields_of(table: DeltaTable, rows: pa.Table) -> pa.Table:
    """Return rows whose structs have all the fields of those in the table.

    Invariant: below lists and maps, the writer takes the fields of a struct by their position if
    the table has others, or leaves them out.

    Raises:
        SchemaMismatchError: A column has another type than in the table.
        InvalidArgumentError: A name differs from one in the table in case only.
    """
    present = pa.schema(table.schema().to_arrow())
    added = pa.schema(Schema.from_arrow(rows.schema).to_arrow())
    storage("Delta Lake").type_of(pa.struct([*merged_schema(present, added)]), "the table")
    merged = merged_schema(added, present)
    for at, name in enumerate(rows.column_names):
        kind = merged.field(name).type
        if kind != added.field(name).type:
            rows = rows.set_column(at, name, rows[name].cast(kind))
    return rows


def _app_id(tp: TopicPartition, kind: str) -> str:
    return f"tandem-kafka/{tp.topic}/{tp.partition}/{kind}"
