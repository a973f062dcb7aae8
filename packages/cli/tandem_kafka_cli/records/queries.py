"""A query of DuckDB, and the topics that are its tables."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, Self

import duckdb
import pyarrow as pa

from tandem_kafka.tables.storage import storage
from tandem_kafka_cli.failures import CommandError

if TYPE_CHECKING:
    from tandem_kafka_cli.records.decoded import Decoded


#: What DuckDB may use; it writes the rest to the disk.
_MEMORY: Final = "256MB"
#: Times have no zone, and are in UTC; null alone is text.
_STORED: Final = storage("SQL of topics")
#: Rows of a result that are taken at once.
_ROWS: Final = 1_000
_DDL: Final = """
    CREATE TABLE {table} (
        topic VARCHAR, "partition" INTEGER, "offset" BIGINT, "timestamp" TIMESTAMP,
        timestamp_type TINYINT, key BLOB, value BLOB,
        headers STRUCT(key VARCHAR, value BLOB)[], leader_epoch INTEGER
    )
"""
_INSERT: Final = "INSERT INTO {table} BY NAME SELECT * FROM batch"
_VIEW: Final = """
    CREATE VIEW {view} AS
    SELECT topic, "partition", "offset" AS record_offset, "timestamp", {key} AS key,
        {value} AS value, headers, timestamp_type, leader_epoch,
        key AS key_bytes, value AS value_bytes
    FROM {table}
"""

#: Times of Python have no nanoseconds, and its durations no months. Names and texts are skipped.
_NOT_IN_PYTHON: Final = re.compile(
    r"""("(?:[^"]|"")*"|'(?:[^']|'')*')|\b(?:TIMESTAMP_NS|TIME_NS|INTERVAL)\b"""
)
#: A query may end with a comment.
_CHANGED: Final = "SELECT {columns} FROM ({query}\n)"


class Query:
    """A query; as a context manager, it deletes its database.

    Args:
        text: The query.

    Attributes:
        tables: The topics that it names.
        unplaced: How many records have a timestamp that DuckDB lacks, which is null.

    Raises:
        CommandError: It is not a SELECT statement, or it names no topic.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._folder = TemporaryDirectory(prefix="tandem-kafka-")
        # Blocks instead of the whole topic stay in memory; they are written when it is full.
        self._database = duckdb.connect(
            config={"memory_limit": _MEMORY, "temp_directory": self._folder.name}
        )
        self._database.execute("SET enable_progress_bar = false")
        #: Columns whose type no record has told.
        self._unknown: list[str] = []
        self.unplaced = 0
        self.tables = self._named_tables()
        if not self.tables:
            raise CommandError("the query names no topic: write SELECT ... FROM topic", usage=True)

    def _named_tables(self) -> list[str]:
        """Return the tables of the query. DuckDB's `get_table_names` needs them to exist."""
        parsing = self._database.execute("SELECT json_serialize_sql(?::VARCHAR)", [self._text])
        ((text,),) = parsing.fetchall()
        tree = json.loads(text)
        if tree["error"]:
            raise CommandError(f"the query cannot run: {tree['error_message']}", usage=True)
        tables: set[str] = set()
        local: set[str] = set()
        _collect(tree, tables, local)
        return sorted(tables - local)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._database.close()
        self._folder.cleanup()

    def load(
        self, topic: str, batches: Iterator[pa.RecordBatch], decoded: Decoded | None = None
    ) -> None:
        """Read a topic into its table.

        Args:
            topic: Its name.
            batches: Its records.
            decoded: Decodes them.

        Raises:
            CommandError: It cannot be read.
        """
        table, view = _quoted(f"{topic} (raw)"), _quoted(topic)
        shown = {name: f"TRY(decode({name}))" for name in ("key", "value")}
        try:
            self._database.execute(_DDL.format(table=table))
            if decoded is None:
                for batch in batches:
                    self._insert(table, batch)
            else:
                shown |= self._load_decoded(table, batches, decoded)
            self._database.execute(_VIEW.format(table=table, view=view, **shown))
        except duckdb.Error as error:
            advice = "; without -s, they have one" if decoded is not None else ""
            explained = _explained(error, f"the records of {topic} have no table in DuckDB")
            raise CommandError(f"{explained}{advice}") from None
        self._unknown += [f"{name} of {topic}" for name, each in shown.items() if each == "NULL"]

    def _insert(self, table: str, batch: pa.RecordBatch) -> None:
        rows, unplaced = _STORED.placed(pa.Table.from_batches([batch]), ["timestamp"])
        self.unplaced += len(unplaced.get("timestamp", ()))
        self._database.register("batch", rows)
        self._database.execute(_INSERT.format(table=table))

    def _load_decoded(
        self, table: str, batches: Iterator[pa.RecordBatch], decoded: Decoded
    ) -> dict[str, str]:
        """Read a topic into its table; returns the expressions of the decoded columns.

        A column is added once its type is known; the rows that the table has then are null there.
        """
        columns: dict[str, pa.DataType] = {}
        for batch, found in decoded.batches(batches, _STORED):
            columns |= self._added(table, decoded, columns)
            wider = batch
            for name in columns:
                wider = wider.append_column(f"decoded {name}", found[name])
            self._insert(table, wider)
        columns |= self._added(table, decoded, columns)
        return {
            name: _quoted(f"decoded {name}") if name in columns else "NULL"
            for name in decoded.types(None)
        }

    def _added(
        self, table: str, decoded: Decoded, columns: dict[str, pa.DataType]
    ) -> dict[str, pa.DataType]:
        added: dict[str, pa.DataType] = {}
        for name, kind in decoded.types(None).items():
            if name in columns or pa.types.is_null(kind):
                continue
            added[name] = decoded.types(_STORED)[name]
            column = _quoted(f"decoded {name}")
            empty = pa.table({"empty": pa.array([], added[name])})
            self._database.register("batch", empty)
            self._database.execute("SELECT empty FROM batch")
            for _, its_type, *_ in self._database.description or ():
                self._database.execute(f"ALTER TABLE {table} ADD COLUMN {column} {its_type}")
        return added

    def _as_python_has_it(self) -> str:
        """Return the query, with texts for what Python has no type for."""
        described = self._database.execute(f"DESCRIBE {self._text}").fetchall()
        types = [(name, kind, _NOT_IN_PYTHON.sub(_text, kind)) for name, kind, *_ in described]
        if all(kind == its_type for _, kind, its_type in types):
            return self._text
        columns = ", ".join(
            f"#{number}{'' if kind == its_type else f'::{its_type}'} AS {_quoted(name)}"
            for number, (name, kind, its_type) in enumerate(types, 1)
        )
        return _CHANGED.format(columns=columns, query=self._text.rstrip().rstrip(";"))

    def result(self) -> tuple[dict[str, type], Iterator[tuple[Any, ...]]]:
        """Return the names of the columns with their types in Python, and the rows.

        Raises:
            CommandError: DuckDB cannot run the query.
        """
        try:
            done = self._database.execute(self._as_python_has_it())
            names = [each[0] for each in done.description or ()]
            first = done.fetchone()
        except duckdb.Error as error:
            explained = _explained(error)
            if self._unknown:
                unknown = " and ".join(self._unknown)
                raise CommandError(f"{explained}; the range has no {unknown} to decode") from None
            raise explained from None
        repeated = Counter(names)
        names = [
            name if repeated[name] == 1 else f"{name}_{number}"
            for number, name in enumerate(names, 1)
        ]
        if first is None:
            return dict.fromkeys(names, str), iter(())
        kinds = {name: type(each) for name, each in zip(names, first, strict=True)}
        return kinds, chain([first], _rows(done))


def _rows(done: duckdb.DuckDBPyConnection) -> Iterator[tuple[Any, ...]]:
    """Yield the other rows of a result, which is never whole in memory."""
    while True:
        try:
            rows = done.fetchmany(_ROWS)
        except duckdb.Error as error:
            raise _explained(error) from None
        if not rows:
            return
        yield from rows


def _collect(node: Any, tables: set[str], local: set[str]) -> None:
    """Add the names of tables, and those of common table expressions (`WITH name AS ...`)."""
    if isinstance(node, list):
        for each in node:
            _collect(each, tables, local)
    elif isinstance(node, dict):
        if node.get("type") == "BASE_TABLE":
            tables.add(node["table_name"])
        if "cte_map" in node:
            local.update(each["key"] for each in node["cte_map"]["map"])
        for each in node.values():
            _collect(each, tables, local)


def _text(found: re.Match[str]) -> str:
    return found[1] or "VARCHAR"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _explained(error: duckdb.Error, what: str = "the query cannot run") -> CommandError:
    # The text after an empty line shows the query again.
    line = " ".join(str(error).split("\n\n", maxsplit=1)[0].split())
    return CommandError(f"{what}: {line}")
