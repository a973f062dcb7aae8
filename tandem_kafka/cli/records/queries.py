"""A query of DuckDB, and the topics that are its tables."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, Self

import duckdb

from tandem_kafka.cli.failures import CommandError
from tandem_kafka.reads.reader import SpanReader
from tandem_kafka.reads.span import Span
from tandem_kafka.runtime import Clock

if TYPE_CHECKING:
    from tandem_kafka import KafkaConsumer


#: What DuckDB may use; it writes the rest to the disk.
_MEMORY: Final = "256MB"
#: Rows of a result that are taken at once.
_ROWS: Final = 1_000
_DDL: Final = """
    CREATE TABLE {table} (
        topic VARCHAR, "partition" INTEGER, "offset" BIGINT, "timestamp" TIMESTAMP,
        timestamp_type TINYINT, key BLOB, value BLOB,
        headers STRUCT(key VARCHAR, value BLOB)[], leader_epoch INTEGER
    )
"""
_INSERT: Final = """
    INSERT INTO {table}
    SELECT topic, "partition", "offset", "timestamp" AT TIME ZONE 'UTC', timestamp_type, key, value,
        headers, leader_epoch
    FROM batch
"""
_VIEW: Final = """
    CREATE VIEW {view} AS
    SELECT topic, "partition", "offset" AS record_offset, "timestamp", TRY(decode(key)) AS key,
        TRY(decode(value)) AS value, headers, timestamp_type, leader_epoch,
        key AS key_bytes, value AS value_bytes
    FROM {table}
"""


class Query:
    """A query; as a context manager, it deletes its database.

    Args:
        text: The query.

    Attributes:
        tables: The topics that it names.

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
        self.tables = self._named_tables()
        if not self.tables:
            raise CommandError("the query names no topic: write SELECT ... FROM topic", usage=True)

    def _named_tables(self) -> list[str]:
        """Return the tables of the query. DuckDB's `get_table_names` needs them to exist."""
        parsing = self._database.execute("SELECT json_serialize_sql(?::VARCHAR)", [self._text])
        (text,) = parsing.fetchone() or ("",)
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

    def load(self, topic: str, consumer: KafkaConsumer, span: Span, clock: Clock) -> None:
        """Read a topic into its table.

        Raises:
            CommandError: It cannot be read.
        """
        table, view = _quoted(f"{topic} (raw)"), _quoted(topic)
        self._database.execute(_DDL.format(table=table))
        for batch in SpanReader(consumer, span, clock).arrow_batches():
            self._database.register("batch", batch)
            self._database.execute(_INSERT.format(table=table))
        self._database.execute(_VIEW.format(table=table, view=view))

    def result(self) -> tuple[dict[str, type], Iterator[tuple[Any, ...]]]:
        """Return the names of the columns with their types in Python, and the rows.

        Raises:
            CommandError: DuckDB cannot run the query.
        """
        try:
            done = self._database.execute(self._text)
            names = [each[0] for each in done.description or ()]
            first = done.fetchone()
        except duckdb.Error as error:
            raise _explained(error) from None
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


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _explained(error: duckdb.Error) -> CommandError:
    # The text after an empty line shows the query again.
    line = " ".join(str(error).split("\n\n", maxsplit=1)[0].split())
    return CommandError(f"the query cannot run: {line}")
