"""What each sink of `Landing` promises."""

from __future__ import annotations

import json
import math
import os
import shutil
import sqlite3
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest

from tandem_kafka import TopicPartition
from tandem_kafka.errors import InvalidArgumentError, SchemaMismatchError, SinkFencedError
from tests.implementations import require_implementation
from tests.integration.tables.landing_tables import (
    DeltaTable,
    DuckdbTable,
    ParquetTable,
    PostgresTable,
    SqliteTable,
    Table,
    postgres,
)

pa = pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")

from tandem_kafka.tables import Database, DeltaLake, Json, ParquetDirectory, TopicSink  # noqa: E402 - it imports pyarrow

pytestmark = pytest.mark.leaves("the runtime of deltalake")

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture(params=[ParquetTable, DeltaTable, SqliteTable, DuckdbTable])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    made: Table = request.param(tmp_path)
    if isinstance(made, SqliteTable | DuckdbTable):
        made.create()
    return made


def rows(offsets: range, partition: int = 0, **more: Any) -> Any:
    """Return records of a partition."""
    return pa.table(
        {
            "topic": pa.array(["t"] * len(offsets)).dictionary_encode(),
            "partition": pa.array([partition] * len(offsets), pa.int32()),
            "offset": pa.array(offsets, pa.int64()),
            "value": pa.array([b"%d" % each for each in offsets], pa.binary()),
            **more,
        }
    )


def landed(*parts: tuple[int, range]) -> list[tuple[int, int, bytes]]:
    return [(partition, each, b"%d" % each) for partition, offsets in parts for each in offsets]


def test_records_are_there_with_their_offsets(table: Table) -> None:
    sink = table.open()
    assert sink.acquire([ZERO, ONE]) == {ZERO: None, ONE: None}
    sink.commit({ZERO: 0, ONE: 5})
    sink.write(pa.concat_tables([rows(range(3)), rows(range(5, 7), 1)]))
    assert table.rows() == []
    sink.commit({ZERO: 3, ONE: 7})
    assert table.rows() == landed((0, range(3)), (1, range(5, 7)))
    sink.write(rows(range(3, 4)))
    sink.commit({ZERO: 4})
    sink.commit({ZERO: 9})  # what follows are no records, such as markers of transactions
    assert table.rows() == landed((0, range(4)), (1, range(5, 7)))
    assert table.open().acquire([ONE, ZERO]) == {ZERO: 9, ONE: 7}


def test_the_topics_are_there_with_the_offsets(table: Table) -> None:
    sink, tps = table.open(), [TopicPartition("t", each) for each in range(2)]
    assert isinstance(sink, TopicSink)
    sink.acquire(tps)
    assert sink.topics(tps) == dict.fromkeys(tps), "nobody has named them"
    sink.commit({tps[0]: 3}, {tps[0]: 2**63 - 1})
    sink.write(rows(range(3, 5)))
    sink.commit({tps[0]: 5})
    again = table.open()
    assert isinstance(again, TopicSink)
    assert again.acquire(tps) == {tps[0]: 5, tps[1]: None}
    assert again.topics(tps) == {tps[0]: 2**63 - 1, tps[1]: None}
    again.commit({tps[0]: 0, tps[1]: 0}, {tps[0]: 7, tps[1]: 8})
    assert again.topics(tps) == {tps[0]: 7, tps[1]: 8}


def test_what_is_aborted_is_not_there(table: Table) -> None:
    sink = table.open()
    sink.acquire([ZERO])
    sink.abort()
    sink.write(rows(range(3)))
    sink.abort()
    sink.write(rows(range(2)))
    sink.commit({ZERO: 2})
    assert table.rows() == landed((0, range(2)))
    assert table.open().acquire([ZERO]) == {ZERO: 2}


def test_a_writer_whose_partition_was_acquired_is_fenced(table: Table) -> None:
    old = table.open()
    old.acquire([ZERO, ONE])
    old.commit({ZERO: 0, ONE: 0})
    new = table.open()
    assert new.acquire([ONE]) == {ONE: 0}
    old.write(pa.concat_tables([rows(range(2)), rows(range(2), 1)]))
    with pytest.raises(SinkFencedError, match="another writer has acquired t-1") as caught:
        old.commit({ZERO: 2, ONE: 2})
    assert caught.value.partitions == [ONE]
    old.abort()
    assert table.rows() == []
    old.write(rows(range(2)))
    old.commit({ZERO: 2})
    new.write(rows(range(1), 1))
    new.commit({ONE: 1})
    assert table.rows() == landed((0, range(2)), (1, range(1)))
    assert old.acquire([ONE]) == {ONE: 1}
    with pytest.raises(SinkFencedError):
        new.commit({ONE: 2})


def test_a_writer_that_ends_without_a_commit_leaves_nothing(table: Table) -> None:
    sink = table.open()
    sink.acquire([ZERO])
    sink.write(rows(range(3)))
    if isinstance(sink, Database):
        sink._connection.rollback()  # what the end of a process does
    del sink
    again = table.open()
    assert again.acquire([ZERO]) == {ZERO: None}
    again.write(rows(range(2)))
    again.commit({ZERO: 2})
    assert table.rows() == landed((0, range(2)))


def test_a_late_commit_of_a_fenced_writer_does_not_count(tmp_path: Path) -> None:
    table = ParquetTable(tmp_path)
    old = ParquetDirectory(table.place)
    old.acquire([ZERO])
    old.write(rows(range(2)))
    old.commit({ZERO: 2})
    old.write(rows(range(2, 4)))
    new = ParquetDirectory(table.place)
    new.acquire([ZERO])
    # It was paused between its check and its commit, and its file was removed meanwhile.
    old._is_fenced = lambda _tp: False  # type: ignore[method-assign]
    with pytest.raises(FileNotFoundError):
        old.commit({ZERO: 4})
    old.abort()
    old.write(rows(range(2, 4)))
    old.commit({ZERO: 4})
    assert table.rows() == landed((0, range(2)))
    new.write(rows(range(2, 3)))
    new.commit({ZERO: 3})
    assert table.rows() == landed((0, range(3)))
    assert ParquetDirectory(table.place).acquire([ZERO]) == {ZERO: 3}


@pytest.mark.skipif(os.name != "posix", reason="other systems cannot sync folders")
def test_folders_survive_a_power_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When a commit returns, each folder has been synced since something was added to it."""
    synced: dict[int, set[str]] = {}
    sync = os.fsync

    def note(opened: int) -> None:
        sync(opened)
        status = os.fstat(opened)
        if stat.S_ISDIR(status.st_mode):
            synced[status.st_ino] = set(os.listdir(opened))

    monkeypatch.setattr(os, "fsync", note)
    sink = ParquetDirectory(tmp_path / "new" / "table")
    sink.acquire([ZERO, ONE])
    sink.write(rows(range(2)))
    sink.commit({ZERO: 2})
    folders = [tmp_path, tmp_path / "new", sink._root, *sink._root.iterdir()]
    assert len(folders) == 6
    for folder in folders:
        present = {each.name for each in folder.iterdir()}
        assert present - synced.get(folder.stat().st_ino, set()) == set(), folder


def test_files_of_crashes_are_removed(tmp_path: Path) -> None:
    table = ParquetTable(tmp_path)
    sink = ParquetDirectory(table.place)
    sink.acquire([ZERO])
    sink.write(rows(range(2)))
    sink.commit({ZERO: 2})
    (left,) = table.place.glob("*/*.parquet")
    (left.with_name("00000001-0001.parquet")).write_bytes(b"renamed, not in the manifest")
    sink.write(rows(range(2, 3)))
    ParquetDirectory(table.place).acquire([ZERO])
    assert [*table.place.glob("*/*.parquet")] == [left]
    assert not [*table.place.glob("*/*.tmp")]
    assert ParquetDirectory(table.place).files() == [left]


def test_many_files_are_in_several_manifests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tandem_kafka.tables.parquet_directory._FILES", 3)
    table = ParquetTable(tmp_path)
    sink = ParquetDirectory(table.place)
    sink.acquire([ZERO])
    for each in range(10):
        sink.write(rows(range(each, each + 1)))
        sink.commit({ZERO: each + 1})
    assert table.rows() == landed((0, range(10)))
    assert len([*table.place.glob("t-0/*.json")]) == 4


def test_a_directory_that_is_not_there_has_no_files(tmp_path: Path) -> None:
    assert ParquetDirectory(tmp_path / "nowhere").files() == []
    assert ParquetDirectory(tmp_path / "nowhere").dataset().count_rows() == 0


@pytest.mark.parametrize("kind", [ParquetTable, DeltaTable])
def test_columns_are_added(kind: Any, tmp_path: Path) -> None:
    table = kind(tmp_path)
    first, second = table.open(), table.open()
    first.acquire([ZERO])
    second.acquire([ONE])
    for sink, partition, more in (
        (first, 0, {"doc": pa.array([{"a": 1}])}),
        (second, 1, {"doc": pa.array([{"b": "x"}]), "new": pa.array([2])}),
        (first, 0, {}),
    ):
        at = 1 if not more else 0
        sink.write(rows(range(at, at + 1), partition, **more))
        sink.commit({(ZERO, ONE)[partition]: at + 1})
    if kind is DeltaTable:
        frame = pl.read_delta(str(table.place))
    else:
        frame = pl.from_arrow(ParquetDirectory(table.place).dataset().to_table())
    found = frame.sort("partition", "offset").select("doc", "new").rows()
    assert found == [({"a": 1, "b": None}, None), (None, None), ({"a": None, "b": "x"}, 2)]


#: Where a struct may be: the type of the column, and a value.
BELOW: Final[dict[str, tuple[Any, Any]]] = {
    "struct": (lambda of: pa.struct([("s", of)]), lambda doc: {"s": doc}),
    "list": (pa.list_, lambda doc: [doc]),
    "list of no nulls": (
        lambda of: pa.list_(pa.field("item", of, nullable=False)),
        lambda doc: [doc],
    ),
    "map": (lambda of: pa.map_(pa.string(), of), lambda doc: [("k", doc)]),
    "map of no nulls": (
        lambda of: pa.map_(pa.string(), pa.field("value", of, nullable=False)),
        lambda doc: [("k", doc)],
    ),
    "list of lists": (lambda of: pa.list_(pa.list_(of)), lambda doc: [[doc]]),
    "map of lists": (lambda of: pa.map_(pa.string(), pa.list_(of)), lambda doc: [("k", [doc])]),
}


@pytest.mark.parametrize(
    ("first", "second"),
    [("ab", "ba"), ("ab", "b"), ("a", "b"), ("ab", "bc"), ("ab", "cd"), ("abc", "ca")],
)
@pytest.mark.parametrize("place", BELOW)
@pytest.mark.parametrize("kind", [ParquetTable, DeltaTable])
def test_fields_of_structs_are_known_by_their_names(
    kind: Any, place: str, first: str, second: str, tmp_path: Path
) -> None:
    """All have the same type: Delta Lake's writer took fields below maps by their position."""
    table, (make, wrap) = kind(tmp_path), BELOW[place]
    for at, names in enumerate([first, second]):
        sink = table.open()
        sink.acquire([ZERO])
        of = make(pa.struct([(name, pa.string()) for name in names]))
        doc = wrap({name: f"{name}{at}" for name in names})
        sink.write(rows(range(at, at + 1), doc=pa.array([doc], of)))
        sink.commit({ZERO: at + 1})
    if kind is DeltaTable:
        deltalake = pytest.importorskip("deltalake")
        found = deltalake.DeltaTable(str(table.place)).to_pyarrow_table()
    else:
        found = ParquetDirectory(table.place).dataset().to_table()
    fields = [*dict.fromkeys(first + second)]
    expected = [
        wrap({name: f"{name}{at}" if name in names else None for name in fields})
        for at, names in enumerate([first, second])
    ]
    assert found.sort_by("offset")["doc"].to_pylist() == expected


def test_a_name_in_another_case_is_no_new_column_of_delta_lake(tmp_path: Path) -> None:
    table = DeltaTable(tmp_path)
    sink = table.open()
    sink.acquire([ZERO])
    sink.write(rows(range(1), doc=pa.array([[{"id": 1}]])))
    sink.commit({ZERO: 1})
    with pytest.raises(InvalidArgumentError, match=r"doc\[\] has id and ID: names that differ in"):
        sink.write(rows(range(1, 2), doc=pa.array([[{"ID": 1}]])))


def between(sink: Any, method: str, other: Any) -> None:
    """Let another writer do something within one call of a method of a sink."""
    original = getattr(sink, method)

    def call(*given: Any) -> Any:
        setattr(sink, method, original)
        found = original(*given) if method == "_newest_schema" else None
        other()
        return original(*given) if found is None else found

    setattr(sink, method, call)


@pytest.mark.parametrize("kind", [ParquetTable, DeltaTable])
@pytest.mark.parametrize("added", ["other", "same"])
def test_two_writers_add_columns_at_once(kind: Any, added: str, tmp_path: Path) -> None:
    table = kind(tmp_path)
    first, second = table.open(), table.open()
    first.acquire([ZERO])
    second.acquire([ONE])
    name = "theirs" if added == "other" else "ours"

    def faster() -> None:
        second.write(rows(range(1), 1, **{name: pa.array([2])}))
        second.commit({ONE: 1})

    # Parquet: it has read the schema, and not yet added to it. Delta Lake: it has read the version.
    between(first, "_newest_schema" if kind is ParquetTable else "_append", faster)
    first.write(rows(range(1), ours=pa.array([1])))
    first.commit({ZERO: 1})
    if kind is DeltaTable:
        found = pl.read_delta(str(table.place)).drop_nulls("offset")
    else:
        found = pl.from_arrow(ParquetDirectory(table.place).dataset().to_table())
    (zero, one) = found.sort("partition").to_dicts()
    assert (zero["ours"], one[name]) == (1, 2)
    assert len(zero) == 4 + len({"ours", name})


@pytest.mark.parametrize(
    ("kind", "late"), [(ParquetTable, True), (DeltaTable, False), (DeltaTable, True)]
)
def test_two_writers_add_a_column_with_two_types(kind: Any, late: bool, tmp_path: Path) -> None:
    """The second one gets the error of any change, though its text could be cast."""
    table = kind(tmp_path)
    first, second = table.open(), table.open()
    first.acquire([ZERO])
    second.acquire([ONE])

    def faster() -> None:
        second.write(rows(range(1), 1, new=pa.array([2])))
        second.commit({ONE: 1})

    if late:
        between(first, "_newest_schema" if kind is ParquetTable else "_append", faster)

    def land() -> None:
        first.write(rows(range(1), new=pa.array(["1"])))
        if not late:
            faster()
        first.commit({ZERO: 1})

    with pytest.raises(SchemaMismatchError, match="column new is int64 in the table and string"):
        land()
    first.abort()
    assert table.rows() == landed((1, range(1)))


@pytest.mark.parametrize("kind", [ParquetTable, DeltaTable])
def test_types_that_tell_more_or_less(kind: Any, tmp_path: Path) -> None:
    table = kind(tmp_path)
    sink = table.open()
    sink.acquire([ZERO])
    words = pa.array(["x"])
    for at, more in enumerate(
        [
            {"list": pa.array([[]]), "word": words.dictionary_encode()},
            {"list": pa.array([[{"a": 1}]]), "word": words},
            {"list": pa.array([[{"b": "y"}]]), "word": words.dictionary_encode()},
            {"at": pa.array([1_000], pa.timestamp("ns"))},
            {"at": pa.array([2_000], pa.timestamp("ns"))},
        ]
    ):
        if kind is DeltaTable:  # its writer casts no lists
            more.pop("list", None)
        sink.write(rows(range(at, at + 1), **more))
        sink.commit({ZERO: at + 1})
    assert table.rows() == landed((0, range(5)))
    if kind is ParquetTable:
        found = ParquetDirectory(table.place).dataset().to_table().sort_by("offset")
        lists = found["list"].to_pylist()
        assert lists == [[], [{"a": 1, "b": None}], [{"a": None, "b": "y"}], None, None]
        assert found["word"].to_pylist() == ["x", "x", "x", None, None]


@pytest.mark.parametrize("kind", [ParquetTable, DeltaTable])
def test_types_do_not_change(kind: Any, tmp_path: Path) -> None:
    table = kind(tmp_path)
    sink = table.open()
    sink.acquire([ZERO])
    sink.write(rows(range(1), doc=pa.array([{"a": [1]}])))
    sink.commit({ZERO: 1})
    again = table.open()
    again.acquire([ZERO])
    message = r"column doc\.a\[\] is int64 in the table and string"
    with pytest.raises(SchemaMismatchError, match=message):
        again.write(rows(range(1, 2), doc=pa.array([{"a": ["x"]}])))
    again.abort()
    again.write(rows(range(1, 2)))
    again.commit({ZERO: 2})
    assert table.rows() == landed((0, range(2)))


@pytest.mark.parametrize("kind", [ParquetTable, DeltaTable, SqliteTable, DuckdbTable])
def test_decoded_tombstones(kind: Any, tmp_path: Path) -> None:
    """All sinks take null in place of a struct, whose fields the schema does not let be null."""
    require_implementation("native")
    inner = pa.struct([pa.field("a", pa.int64(), nullable=False)])
    decoder = Json(pa.struct([pa.field("s", inner, nullable=False)]), errors="null")
    parts = [
        decoder.decode(pa.array(documents, pa.binary()))[0]
        for documents in ([b'{"s":{"a":1}}'], [None, b'{"s":{}}'])
    ]
    table = kind(tmp_path)
    if isinstance(table, SqliteTable | DuckdbTable):
        table.create()
    sink = table.open()
    sink.acquire([ZERO])
    if isinstance(table, SqliteTable | DuckdbTable):
        of_type = "" if kind is SqliteTable else "STRUCT(s STRUCT(a BIGINT))"
        sink._cursor.execute(f"ALTER TABLE landed ADD COLUMN doc {of_type}")
        sink._connection.commit()
    for begin, part in enumerate(parts):
        sink.write(rows(range(begin, begin + len(part)), doc=part))
        sink.commit({ZERO: begin + len(part)})
    if kind is ParquetTable:
        found = [row["doc"] for row in sink.dataset().sort_by("offset").to_table().to_pylist()]
    elif kind is DeltaTable:
        found = pl.read_delta(str(table.place)).drop_nulls("offset").sort("offset")["doc"].to_list()
    else:
        query = sink._cursor.execute('SELECT doc FROM landed ORDER BY "offset"')
        found = [
            doc if doc is None else json.loads(str(doc).replace("'", '"'))
            for (doc,) in query.fetchall()
        ]
    assert found == [{"s": {"a": 1}}, None, None]


def test_a_database_takes_documents(tmp_path: Path) -> None:
    import datetime as dt
    import decimal

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
    sink.write(rows(range(2), **more))
    sink.commit({ZERO: 2})
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
    sink.write(rows(range(2)))
    sink.commit({ZERO: 2})
    assert connection.execute("SELECT * FROM sums").fetchall() == [(2,)]
    assert connection.execute("SELECT * FROM positions").fetchall() == [("t", 0, 1, 2)]


def test_acquiring_drops_what_was_not_committed(table: Table) -> None:
    sink = table.open()
    sink.acquire([ZERO])
    sink.write(rows(range(3)))
    sink.acquire([ZERO, ONE])
    sink.commit({ONE: 1})
    assert table.rows() == []


def test_a_commit_whose_answer_is_lost_is_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = pytest.importorskip("tandem_kafka.tables.delta_lake")
    table = DeltaTable(tmp_path)
    sink = table.open()
    sink.acquire([ZERO])
    sink.write(rows(range(3)))
    write = module.write_deltalake

    def lose(*given: Any, **named: Any) -> None:
        write(*given, **named)
        raise module.CommitFailedError("the version is there: a repeated request found its own")

    monkeypatch.setattr(module, "write_deltalake", lose)
    sink.commit({ZERO: 3})
    assert table.rows() == landed((0, range(3)))


def test_a_commit_behind_that_of_another_writer_is_not_taken_for_its_own(tmp_path: Path) -> None:
    """A topic was made anew, and its records end at the offset that is in the table."""
    table = DeltaTable(tmp_path)
    sink, other = table.open(), table.open()
    assert isinstance(sink, DeltaLake)
    sink.acquire([ZERO])
    other.acquire([ONE])
    sink.write(rows(range(3)))
    sink.commit({ZERO: 3}, {ZERO: 7})
    sink.write(rows(range(3)))
    between(sink, "_append", lambda: other.commit({ONE: 1}))
    sink.commit({ZERO: 3}, {ZERO: 8})
    assert len(table.rows()) == 6
    assert sink.topics([ZERO]) == {ZERO: 8}


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
    sink = table.open()
    sink.acquire([ZERO])
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
    sink = table.open()
    sink.acquire([ZERO])
    sink.write(rows(range(1)).rename_columns(["topic", "partition", "offset", "Value"]))
    sink.commit({ZERO: 1})
    with pytest.raises(InvalidArgumentError, match="has value and Value"):
        sink.write(rows(range(1, 2), Value=pa.array([1])))
    sink.abort()
    assert table.rows() == landed((0, range(1)))


def test_others_create_the_table_of_offsets_at_the_same_time(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "db", factory=_Racing)
    sink = Database(connection, "landed", paramstyle="qmark")
    assert connection.created == 2
    assert sink.acquire([ZERO]) == {ZERO: None}
    Database(connection, "landed", paramstyle="qmark")
    assert connection.created == 2, "a user without the right to create tables can use this one"


class _Racing(sqlite3.Connection):
    """A connection whose first CREATE TABLE fails, as in PostgreSQL if another one is faster."""

    created = 0

    def cursor(self, *_: Any) -> Any:
        return super().cursor(_RacingCursor)


class _RacingCursor(sqlite3.Cursor):
    def execute(self, statement: str, parameters: Any = ()) -> Any:
        if statement.startswith("CREATE"):
            self.connection.created += 1
            if self.connection.created == 1:
                raise sqlite3.IntegrityError(
                    "duplicate key value violates pg_type_typname_nsp_index"
                )
        return super().execute(statement, parameters)


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


def test_delta_lake_names_others_that_commit_all_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deltalake = pytest.importorskip("deltalake")
    sink = DeltaLake(tmp_path / "table")
    sink.acquire([ZERO])
    tried = []
    monkeypatch.setattr(sink, "_append", lambda *_: tried.append(1) and False)
    with pytest.raises(deltalake.exceptions.CommitFailedError, match="100 attempts to commit"):
        sink.commit({ZERO: 1})
    assert len(tried) == 100


def test_positions_that_go_backwards_hide_nothing(table: Table) -> None:
    sink = table.open()
    sink.acquire([ZERO])
    sink.write(rows(range(5, 8)))
    sink.commit({ZERO: 8})
    sink.write(rows(range(2)))  # the topic was deleted and created again
    sink.commit({ZERO: 2})
    assert table.open().acquire([ZERO]) == {ZERO: 2}
    assert table.rows() == landed((0, range(2)), (0, range(5, 8)))


def test_a_full_manifest_is_not_continued_behind_another_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tandem_kafka.tables.parquet_directory._FILES", 2)
    table = ParquetTable(tmp_path)
    old, new = ParquetDirectory(table.place), ParquetDirectory(table.place)
    old.acquire([ZERO])
    old.write(rows(range(1)))
    old.commit({ZERO: 1})
    new.acquire([ZERO])
    # It was paused between its check and its commit.
    with monkeypatch.context() as paused:
        paused.setattr(old, "_is_fenced", lambda _tp: False)
        old.write(rows(range(1, 2)))
        old.commit({ZERO: 2})
    with pytest.raises(SinkFencedError):
        old.commit({ZERO: 3})
    new.write(rows(range(1, 3)))
    new.commit({ZERO: 3})
    assert table.rows() == landed((0, range(3)))


def test_a_removed_file_of_a_paused_acquirer_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused, others = ParquetDirectory(tmp_path), [ParquetDirectory(tmp_path) for _ in range(2)]
    hardlink_to = Path.hardlink_to

    def overtaken(path: Path, target: Path) -> None:
        monkeypatch.setattr(Path, "hardlink_to", hardlink_to)
        for each in others:
            each.acquire([ZERO])
        path.hardlink_to(target)

    monkeypatch.setattr(Path, "hardlink_to", overtaken)
    assert paused.acquire([ZERO]) == {ZERO: None}
    paused.commit({ZERO: 1})


def test_files_are_in_the_order_of_partitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    sink = ParquetDirectory("landed")
    monkeypatch.chdir("/")
    for partition in (10, 2):
        sink.acquire([TopicPartition("t", partition)])
        sink.write(rows(range(1), partition))
        sink.commit({TopicPartition("t", partition): 1})
    found = ParquetDirectory(tmp_path / "landed").files()
    assert [path.parent.name for path in found] == ["t-2", "t-10"]


def test_a_dataset_has_the_columns_of_all_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = ParquetDirectory(tmp_path)
    sink.acquire([ZERO])
    reader = ParquetDirectory(tmp_path)
    newest = reader._newest_schema

    def slow() -> Any:
        found = newest()
        sink.write(rows(range(1), new=pa.array([1])))
        sink.commit({ZERO: 1})
        return found

    monkeypatch.setattr(reader, "_newest_schema", slow)
    read = reader.dataset().to_table()
    assert read.num_rows == 0 or "new" in read.column_names


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
    sink.write(rows(range(1), **{name: pa.array([7])}))
    sink.commit({ZERO: 1})
    assert sink._cursor.execute("SELECT * FROM landed").fetchall()[0][-1] == 7
