"""A table of a database, by its DB-API (PEP 249)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final, Protocol, TypeVar

import pyarrow as pa

from tandem_kafka.errors import InvalidArgumentError, SchemaMismatchError, SinkFencedError
from tandem_kafka.tables.sink import NO_TOPICS
from tandem_kafka.tables.storage import storage
from tandem_kafka.types import TopicPartition

T = TypeVar("T")

_MARKS: Final = {"qmark": "?", "format": "%s", "pyformat": "%s"}
#: What stores the rows, by the module of a connection.
_PLACES: Final = {
    "duckdb": "DuckDB",
    "sqlite3": "SQLite",
    **dict.fromkeys(("psycopg", "psycopg2", "pg8000"), "PostgreSQL"),
}
_WHERE: Final = "WHERE topic = ? AND partition_number = ?"
#: Types of DuckDB with others in them.
_NESTED: Final = ("struct", "map", "list", "array")
#: Another writer may create the same table (PostgreSQL fails then, in spite of IF NOT EXISTS), or
#: acquire the same partition for the first time.
_ATTEMPTS: Final = 3


class Connection(Protocol):
    """What is used of a connection of PEP 249."""

    def cursor(self) -> Any:
        """Return a cursor."""
        ...

    def commit(self) -> object:
        """Commit the transaction."""
        ...

    def rollback(self) -> object:
        """Roll the transaction back."""
        ...


class Database:
    """A `TopicSink`: a table of SQLite, DuckDB, PostgreSQL or another database with a DB-API.

    The table must exist, with a column for each column of the records. Next offsets are in a second
    table, which is created if it is not there, and change in the same transaction. Lists, structs
    and maps are written as JSON, with bytes in base64 and NaN as text, but for DuckDB; the manual
    has a table of what becomes of each type.

    Args:
        connection: An open connection, not in autocommit mode. It is used for nothing else, on the
            thread that calls ``Landing.run()``, and stays open.
        table: The name of the table, as SQL writes it.
        insert: Called instead of inserting into the table, with a cursor (DuckDB: the connection)
            and a ``pyarrow.Table``: for statements of your own, such as ``COPY`` or an upsert. It
            must not commit.
        offsets_table: The name of the table of offsets, as SQL writes it.
        paramstyle: How statements mark parameters (PEP 249), if the module of the connection does
            not say it.

    Raises:
        InvalidArgumentError: The connection is in autocommit mode, or has no known ``paramstyle``.
    """

    def __init__(
        self,
        connection: Connection,
        table: str,
        *,
        insert: Callable[[Any, pa.Table], object] | None = None,
        offsets_table: str = "tandem_kafka_offsets",
        paramstyle: str | None = None,
    ) -> None:
        module = type(connection).__module__.partition(".")[0].removeprefix("_")
        self._duckdb, sqlite = module == "duckdb", module == "sqlite3"
        self.storage = storage(_PLACES.get(module, "other databases"))
        given: Any = connection
        level = getattr(given, "isolation_level", "")
        if getattr(given, "autocommit", False) is True or (sqlite and level is None):
            msg = "connection is in autocommit mode: records and offsets need one transaction"
            raise InvalidArgumentError(msg)
        style = paramstyle or getattr(sys.modules.get(module), "paramstyle", None)
        if style not in ("named", "numeric", *_MARKS):
            msg = f"paramstyle must be one of PEP 249, got {style!r} for {connection!r}"
            raise InvalidArgumentError(msg)
        self._style: str = style
        self._connection = connection
        # A cursor of DuckDB has transactions of its own.
        self._cursor: Any = given if self._duckdb else connection.cursor()
        self._table = table
        self._insert = self._insert_rows if insert is None else insert
        self._offsets = offsets_table
        self._epochs: dict[TopicPartition, int] = {}
        self._begun = False
        try:
            self._repeatedly(self._look)
        except Exception:  # noqa: BLE001 - each module has its own
            self._repeatedly(self._create)

    def __repr__(self) -> str:
        """Show the table and the kind of database."""
        if not hasattr(self, "_table"):  # in a traceback of its constructor
            return f"<{type(self).__name__} without a table>"
        module = type(self._connection).__module__.partition(".")[0].removeprefix("_")
        return f"<{type(self).__name__} {module}, table {self._table!r}>"

    def acquire(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, int | None]:
        """Raise the epochs of the partitions."""
        self.abort()
        found = self._repeatedly(lambda: {tp: self._raise_epoch(tp) for tp in sorted(partitions)})
        self._epochs |= {tp: epoch for tp, (epoch, _) in found.items()}
        return {tp: offset for tp, (_, offset) in found.items()}

    def write(self, table: pa.Table) -> None:
        """Insert the records."""
        self._begin()
        self._insert(self._cursor, self.storage.table(table))

    def topics(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int | None]:
        """Return the numbers in the table of offsets."""

        def look() -> dict[TopicPartition, int | None]:
            rows = {tp: self._stored(_place_of_topic(tp)) for tp in partitions}
            return {tp: None if row is None else row[1] for tp, row in rows.items()}

        return self._repeatedly(look)

    def commit(
        self,
        offsets: Mapping[TopicPartition, int],
        topics: Mapping[TopicPartition, int] = NO_TOPICS,
    ) -> None:
        """Change the offsets and commit the transaction."""
        self._begin()
        fenced = []
        for tp in sorted(offsets):
            epoch = self._epochs[tp]
            self._run(
                f"UPDATE {self._offsets} SET next_offset = ? {_WHERE} AND epoch = ?",
                *(offsets[tp], *tp, epoch),
            )
            # Not `rowcount`, which DuckDB lacks. A row that was updated is locked until the commit.
            stored = self._stored(tp)
            if stored is None or stored[0] != epoch:
                fenced.append(tp)
        if fenced:
            self.abort()
            raise SinkFencedError(fenced)
        for tp, topic in topics.items():
            place = _place_of_topic(tp)
            if self._stored(place) is None:
                self._run(f"INSERT INTO {self._offsets} VALUES (?, ?, 0, ?)", *place, topic)
            else:
                self._run(f"UPDATE {self._offsets} SET next_offset = ? {_WHERE}", topic, *place)
        self._end(self._connection.commit)

    def abort(self) -> None:
        """Roll the transaction back."""
        if not self._begun:
            return
        try:
            self._connection.rollback()
        except Exception as error:
            # DuckDB refuses if a commit has failed, or was interrupted after it had happened.
            if not (self._duckdb and "no transaction is active" in str(error)):
                raise
        self._begun = False

    def _begin(self) -> None:
        if self._begun:
            return
        self._begun = True  # first: after an interrupt, abort() ends what may have begun
        if self._duckdb:
            self._cursor.execute("BEGIN")

    def _end(self, call: Callable[[], object]) -> None:
        call()
        self._begun = False

    def _repeatedly(self, work: Callable[[], T]) -> T:
        """Do work in a transaction, and again if it fails."""
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                self._begin()
                done = work()
                self._end(self._connection.commit)
            except Exception:
                self.abort()
                if attempt == _ATTEMPTS:
                    raise
            else:
                break
        return done

    def _look(self) -> None:
        # First: PostgreSQL lets no user create a table that is there already without the right to.
        self._cursor.execute(f"SELECT epoch FROM {self._offsets} WHERE 1 = 0")

    def _create(self) -> None:
        self._cursor.execute(
            f"CREATE TABLE IF NOT EXISTS {self._offsets} (topic VARCHAR(249) NOT NULL, "
            "partition_number INTEGER NOT NULL, epoch BIGINT NOT NULL, next_offset BIGINT, "
            "PRIMARY KEY (topic, partition_number))"
        )

    def _raise_epoch(self, tp: TopicPartition) -> tuple[int, int | None]:
        self._run(f"UPDATE {self._offsets} SET epoch = epoch + 1 {_WHERE}", *tp)
        stored = self._stored(tp)
        if stored is None:
            self._run(f"INSERT INTO {self._offsets} VALUES (?, ?, 1, NULL)", *tp)
            return 1, None
        return stored

    def _stored(self, tp: TopicPartition) -> tuple[int, int | None] | None:
        """Return the epoch and the next offset in the table."""
        self._run(f"SELECT epoch, next_offset FROM {self._offsets} {_WHERE}", *tp)
        row: tuple[int, int | None] | None = self._cursor.fetchone()
        return row

    def _run(self, statement: str, *parameters: str | int) -> None:
        self._cursor.execute(self._marked(statement), parameters)

    def _marked(self, statement: str) -> str:
        """Return a statement with question marks in the style of the module."""
        first, *others = statement.split("?")
        marks = (_MARKS.get(self._style, f":{number}") for number in range(1, len(others) + 1))
        return first + "".join(mark + text for mark, text in zip(marks, others, strict=True))

    def _missing(self, cursor: Any, table: pa.Table) -> list[str]:
        """Return the columns that the table lacks; in DuckDB, also fields of structs."""
        empty = f"SELECT * FROM {self._table} WHERE 1 = 0"
        fold = str.lower if self.storage.one_case else str
        if self._duckdb:
            # Invariant: it leaves out the fields that a struct of the table lacks.
            found = cursor.sql(empty)
            present = dict(zip(map(fold, found.columns), found.types, strict=True))
        else:
            cursor.execute(empty)
            present = {fold(column[0]): None for column in cursor.description}
        missing: list[str] = []
        for field in table.schema:
            if fold(field.name) not in present:
                missing.append(field.name)
            elif self._duckdb:
                missing += _missing_fields(present[fold(field.name)], field.type, field.name)
        return missing

    def _insert_rows(self, cursor: Any, table: pa.Table) -> None:
        missing = self._missing(cursor, table)
        if missing:
            msg = (
                f"{self._table} has no column {', '.join(missing)}: add it with ALTER TABLE, or "
                "leave it out of columns="
            )
            raise SchemaMismatchError(msg)
        names = ", ".join(map(_quoted, table.column_names))
        if self._duckdb:
            cursor.register("tandem_kafka_rows", table)
            cursor.execute(f"INSERT INTO {self._table} ({names}) SELECT * FROM tandem_kafka_rows")
            cursor.unregister("tandem_kafka_rows")
            return
        marks = self._marked(", ".join("?" * table.num_columns))
        if _MARKS.get(self._style) == "%s":
            names = names.replace("%", "%%")
        statement = f"INSERT INTO {self._table} ({names}) VALUES ({marks})"
        columns = [column.to_pylist() for column in table.columns]
        cursor.executemany(statement, [*zip(*columns, strict=True)])


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _missing_fields(present: Any, added: pa.DataType, path: str) -> Iterator[str]:
    """Yield the fields of structs that a type of DuckDB lacks."""
    children = dict(present.children) if present.id in _NESTED else {}
    if present.id == "struct" and pa.types.is_struct(added):
        known = {name.lower(): kind for name, kind in children.items()}
        for child in added:
            name = f"{path}.{child.name}"
            if child.name.lower() in known:
                yield from _missing_fields(known[child.name.lower()], child.type, name)
            else:
                yield name
    elif present.id == "map" and pa.types.is_map(added):
        yield from _missing_fields(children["value"], added.item_type, path)
    elif children and (pa.types.is_list(added) or pa.types.is_large_list(added)):
        yield from _missing_fields(children["child"], added.value_type, f"{path}[]")


def _place_of_topic(tp: TopicPartition) -> TopicPartition:
    """Return the place of a topic's number: an offset of a partition that there cannot be."""
    return TopicPartition(tp.topic, -1 - tp.partition)
