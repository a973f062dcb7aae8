"""Databases as sinks: statements, transactions, columns, connections."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import shutil
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tandem_kafka.errors import InvalidArgumentError, SchemaMismatchError, SinkFencedError

pa = pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")

from tandem_kafka.tables import Database  # noqa: E402 - it imports pyarrow
from tests.integration.tables.landing_tables import (  # noqa: E402
    DuckdbTable,
    PostgresTable,
    SqliteTable,
    postgres,
)
from tests.unit.tables.landings import ZERO, acquired, landed, put, rows  # noqa: E402

pytestmark = pytest.mark.leaves("the runtime of deltalake")


def test_a_database_takes_documents(tmp_path: Path) -> None:

    moment = dt.datetime(2026, 5, 1, 12, tzinfo=dt.UTC)
    more = {
        "moment": pa.array([moment, None], pa.timestamp("us", "UTC")),
        "amount": pa.array([decimal.Decimal("1.50"), None], pa.decimal128(5, 2)),
        "took": pa.array([dt.timedelta(seconds=90), None], pa.duration("us")),
        "doc": pa.array(
            [{"a": [1.0, math.nan], "b": b"\xff", "c": [("k", [("l", -math.inf)])]}, None],
            pa.struct(
                [
                    ("a", pa.list_(pa.float64())),
                    ("b", pa.binary()),
                    ("c", pa.map_(pa.string(), pa.map_(pa.string(), pa.float64()))),
                ]
            ),
        ),
    }
    connection = sqlite3.connect(tmp_path / "db")
    connection.execute(
        'CREATE TABLE landed (topic, partition, "offset", value, moment, amount TEXT, took, doc)'
    )
    sink = Database(connection, "landed")
    sink.acquire([ZERO])
    put(sink, range(2), **more)
    found = connection.execute(
        "SELECT moment, amount, took, doc FROM landed ORDER BY 1 DESC"
    ).fetchall()
    assert found == [
        (
            "2026-05-01T12:00:00.000000+00:00",
            "1.50",
            "PT90S",
            '{"a": [1.0, "NaN"], "b": "/w==", "c": {"k": {"l": "-Infinity"}}}',
        ),
        (None, None, None, None),
    ]


class Aborted(sqlite3.Connection):
    """After an error, it refuses all until the transaction is rolled back, as PostgreSQL does.

    `faster` is called in the first statement that begins with `word`, which fails then.
    """

    word = "CREATE"
    faster: Any = None
    failed = False

    def cursor(self, *_: Any) -> Any:  # type: ignore[override]
        return AbortedCursor(self)

    def rollback(self) -> None:
        self.failed = False
        super().rollback()


class AbortedCursor(sqlite3.Cursor):
    connection: Aborted

    def execute(self, statement: str, *given: Any) -> Any:
        connection = self.connection
        if connection.failed:
            raise sqlite3.OperationalError("current transaction is aborted")
        try:
            if connection.faster is not None and statement.startswith(connection.word):
                faster, connection.faster = connection.faster, None
                faster()
                raise sqlite3.IntegrityError("duplicate key value violates unique constraint")
            return super().execute(statement, *given)
        except sqlite3.Error:
            connection.failed = True
            raise


@pytest.mark.parametrize("word", ["CREATE", "UPDATE"])
def test_two_landings_begin_at_once(word: str, tmp_path: Path) -> None:
    """The other one makes the table of offsets, or the row of a partition, a moment before."""
    others: list[Database] = []

    def other() -> None:
        others.append(Database(sqlite3.connect(tmp_path / "db"), "landed"))
        others[0].acquire([ZERO])

    connection = sqlite3.connect(tmp_path / "db", factory=Aborted)
    connection.word = word
    if word == "CREATE":
        connection.faster = other
    sink = Database(connection, "landed", paramstyle="qmark")
    if word == "UPDATE":
        connection.faster = other
    assert sink.acquire([ZERO]) == {ZERO: None}
    sink.commit({ZERO: 5})
    with pytest.raises(SinkFencedError):
        others[0].commit({ZERO: 6})


@pytest.mark.full("it starts a server")
def test_many_landings_begin_at_once_in_postgresql(tmp_path: Path) -> None:
    pytest.importorskip("psycopg")
    if shutil.which("initdb") is None:
        pytest.skip("no PostgreSQL")
    with postgres(tmp_path) as address:
        table = PostgresTable(address)
        table.create()

        def begin(name: str, barrier: threading.Barrier) -> None:
            with closing(table.connect()) as connection:
                barrier.wait()
                sink = Database(connection, "landed", offsets_table=name)
                barrier.wait()
                sink.acquire([ZERO])

        for attempt in range(20):
            barrier = threading.Barrier(4)
            with ThreadPoolExecutor(4) as pool:
                begun = [pool.submit(begin, f"offsets_{attempt}", barrier) for _ in range(4)]
            assert [each.exception() for each in begun] == [None] * 4


def test_a_statement_of_the_user_is_in_the_transaction(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "db")
    connection.execute("CREATE TABLE sums (number INTEGER)")

    def add(cursor: Any, table: Any) -> None:
        cursor.execute("INSERT INTO sums VALUES (?)", [table.num_rows])

    sink = Database(connection, "-", insert=add, offsets_table="positions")
    sink.acquire([ZERO])
    sink.write(rows(range(2)))
    sink.abort()
    put(sink, range(2))
    assert connection.execute("SELECT * FROM sums").fetchall() == [(2,)]
    assert connection.execute("SELECT * FROM positions").fetchall() == [("t", 0, 1, 2)]


def test_duckdb_after_a_commit_that_failed(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect(str(tmp_path / "db"))
    connection.execute(
        'CREATE TABLE landed (topic TEXT, "partition" INT, "offset" INT PRIMARY KEY)'
    )
    sink, other = Database(connection, "landed"), connection.cursor()
    sink.acquire([ZERO])
    sink.write(rows(range(1)).drop_columns(["value"]))
    other.execute("INSERT INTO landed VALUES ('t', 0, 0)")
    with pytest.raises(duckdb.TransactionException, match="Failed to commit"):
        sink.commit({ZERO: 1})
    sink.abort()
    sink.write(rows(range(1, 2)).drop_columns(["value"]))
    assert other.execute('SELECT "offset" FROM landed').fetchall() == [(0,)]
    sink.commit({ZERO: 2})
    assert other.execute('SELECT "offset" FROM landed').fetchall() == [(0,), (1,)]


def test_a_column_that_the_table_lacks(tmp_path: Path) -> None:
    table = SqliteTable(tmp_path)
    table.create()
    sink = acquired(table)
    with pytest.raises(SchemaMismatchError, match="landed has no column new: add it with ALTER"):
        sink.write(rows(range(1), new=pa.array([1])))


@pytest.mark.parametrize(
    ("column", "value", "missing"),
    [
        ("STRUCT(A BIGINT)", {"a": 1, "c": 2}, r"doc\.c"),
        ("STRUCT(b BIGINT)", {"a": 1}, r"doc\.a"),
        ("STRUCT(a BIGINT)[]", [{"a": 1, "c": 2}], r"doc\[\]\.c"),
        ("MAP(VARCHAR, STRUCT(a BIGINT))", [("k", {"a": 1, "c": 2})], r"doc\.c"),
        ("STRUCT(a STRUCT(b BIGINT))", {"a": {"b": 1, "c": 2}}, r"doc\.a\.c"),
        ("STRUCT(a BIGINT, c BIGINT)", {"c": 2, "a": 1}, None),
        ("STRUCT(a BIGINT, c BIGINT)[1]", [{"c": 2, "a": 1}], None),
        ("JSON", {"a": 1}, None),
        ("JSON", [{"a": 1}], None),
    ],
)
def test_a_field_that_a_struct_of_duckdb_lacks(
    column: str, value: Any, missing: str | None, tmp_path: Path
) -> None:
    """DuckDB leaves it out."""
    table = DuckdbTable(tmp_path)
    table.create()
    sink = table.open()
    assert isinstance(sink, Database)
    sink._cursor.execute(f"ALTER TABLE landed ADD COLUMN doc {column}")
    sink.acquire([ZERO])
    of = pa.map_(pa.string(), pa.struct([("a", pa.int64()), ("c", pa.int64())]))
    record = rows(range(1), doc=pa.array([value], of if column.startswith("MAP") else None))
    if missing is None:
        sink.write(record)
        sink.commit({ZERO: 1})
        return
    with pytest.raises(SchemaMismatchError, match=f"landed has no column {missing}: add it with"):
        sink.write(record)


@pytest.mark.parametrize("kind", [SqliteTable, DuckdbTable])
def test_columns_whose_names_differ_in_case_are_the_same(kind: Any, tmp_path: Path) -> None:
    """ALTER TABLE could not add another one."""
    table = kind(tmp_path)
    table.create()
    sink = acquired(table)
    sink.write(rows(range(1)).rename_columns(["topic", "partition", "offset", "Value"]))
    sink.commit({ZERO: 1})
    with pytest.raises(InvalidArgumentError, match="has value and Value"):
        sink.write(rows(range(1, 2), Value=pa.array([1])))
    sink.abort()
    assert table.rows() == landed((0, range(1)))


def test_a_table_of_offsets_that_is_there_is_not_created(tmp_path: Path) -> None:
    """A user without the right to create tables can use it."""
    connection = sqlite3.connect(tmp_path / "db")
    Database(connection, "landed", paramstyle="qmark")
    statements: list[str] = []
    connection.set_trace_callback(statements.append)
    Database(connection, "landed", paramstyle="qmark")
    assert not [each for each in statements if each.startswith("CREATE")]


def test_connections_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="connection is in autocommit mode"):
        Database(sqlite3.connect(tmp_path / "db", isolation_level=None), "landed")
    with pytest.raises(InvalidArgumentError, match="paramstyle must be one of PEP 249, got None"):
        Database(_Wrapped(), "landed")
    with pytest.raises(InvalidArgumentError, match="paramstyle must be one of PEP 249, got 'x'"):
        Database(sqlite3.connect(tmp_path / "db"), "landed", paramstyle="x")


class _Wrapped:
    def cursor(self) -> None:
        raise AssertionError

    commit = rollback = cursor


@pytest.mark.parametrize(
    ("style", "expected"),
    [
        ("qmark", "a ? b ?"),
        ("pyformat", "a %s b %s"),
        ("format", "a %s b %s"),
        ("named", "a :1 b :2"),
    ],
)
def test_statements_in_the_style_of_the_module(style: str, expected: str, tmp_path: Path) -> None:
    sink = Database(sqlite3.connect(tmp_path / "db"), "landed", paramstyle=style)
    assert sink._marked("a ? b ?") == expected


def test_duckdb_has_a_transaction_after_an_interrupt(tmp_path: Path) -> None:
    table = DuckdbTable(tmp_path)
    table.create()
    connection = table.connect()
    sink = Database(connection, "landed")
    sink.acquire([ZERO])
    sink.write(rows(range(1)))

    def interrupted() -> None:
        connection.commit()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sink._end(interrupted)
    sink.abort()
    assert sink.acquire([ZERO]) == {ZERO: None}
    sink.write(rows(range(1, 3)))
    sink.abort()
    assert len(connection.execute("SELECT * FROM landed").fetchall()) == 1


@pytest.mark.parametrize("name", ["select", 'a"b', "paid?", "50%", "a:b"])
@pytest.mark.parametrize("kind", [SqliteTable, DuckdbTable])
def test_columns_of_a_database_have_any_name(kind: Any, name: str, tmp_path: Path) -> None:
    table = kind(tmp_path)
    table.create()
    sink = table.open()
    quoted = name.replace('"', '""')
    sink._cursor.execute(f'ALTER TABLE landed ADD COLUMN "{quoted}" INTEGER')
    sink._connection.commit()
    sink.acquire([ZERO])
    put(sink, range(1), **{name: pa.array([7])})
    assert sink._cursor.execute("SELECT * FROM landed").fetchall()[0][-1] == 7
