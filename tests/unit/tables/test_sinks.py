"""What every sink of `Landing` promises."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tandem_kafka import TopicPartition
from tandem_kafka.errors import SinkFencedError

pa = pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")

from tandem_kafka.tables import Database, Json, TopicSink  # noqa: E402 - it imports pyarrow
from tests.integration.tables.landing_tables import (  # noqa: E402
    DeltaTable,
    DuckdbTable,
    ParquetTable,
    SqliteTable,
    Table,
)
from tests.unit.tables.landings import ONE, ZERO, acquired, landed, put, rows  # noqa: E402

pytestmark = pytest.mark.leaves("the runtime of deltalake")


@pytest.fixture(params=[ParquetTable, DeltaTable, SqliteTable, DuckdbTable])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    made: Table = request.param(tmp_path)
    if isinstance(made, SqliteTable | DuckdbTable):
        made.create()
    return made


def test_records_are_there_with_their_offsets(table: Table) -> None:
    sink = table.open()
    assert sink.acquire([ZERO, ONE]) == {ZERO: None, ONE: None}
    sink.commit({ZERO: 0, ONE: 5})
    sink.write(pa.concat_tables([rows(range(3)), rows(range(5, 7), 1)]))
    assert table.rows() == []
    sink.commit({ZERO: 3, ONE: 7})
    assert table.rows() == landed((0, range(3)), (1, range(5, 7)))
    put(sink, range(3, 4))
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
    sink = acquired(table)
    sink.abort()
    sink.write(rows(range(3)))
    sink.abort()
    put(sink, range(2))
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
    put(old, range(2))
    put(new, range(1), 1)
    assert table.rows() == landed((0, range(2)), (1, range(1)))
    assert old.acquire([ONE]) == {ONE: 1}
    with pytest.raises(SinkFencedError):
        new.commit({ONE: 2})


def test_a_writer_that_ends_without_a_commit_leaves_nothing(table: Table) -> None:
    sink = acquired(table)
    sink.write(rows(range(3)))
    if isinstance(sink, Database):
        sink._connection.rollback()  # what the end of a process does
    del sink
    again = table.open()
    assert again.acquire([ZERO]) == {ZERO: None}
    put(again, range(2))
    assert table.rows() == landed((0, range(2)))


def test_acquiring_drops_what_was_not_committed(table: Table) -> None:
    sink = acquired(table)
    sink.write(rows(range(3)))
    sink.acquire([ZERO, ONE])
    sink.commit({ONE: 1})
    assert table.rows() == []


def test_positions_that_go_backwards_hide_nothing(table: Table) -> None:
    sink = acquired(table)
    put(sink, range(5, 8))
    sink.write(rows(range(2)))  # the topic was deleted and created again
    sink.commit({ZERO: 2})
    assert table.open().acquire([ZERO]) == {ZERO: 2}
    assert table.rows() == landed((0, range(2)), (0, range(5, 8)))


@pytest.mark.parametrize("kind", [ParquetTable, DeltaTable, SqliteTable, DuckdbTable])
@pytest.mark.usefixtures("native_extension")
def test_decoded_tombstones(kind: Any, tmp_path: Path) -> None:
    """All sinks take null in place of a struct, whose fields the schema does not let be null."""
    inner = pa.struct([pa.field("a", pa.int64(), nullable=False)])
    decoder = Json(pa.struct([pa.field("s", inner, nullable=False)]), errors="null")
    parts = [
        decoder.decode(pa.array(documents, pa.binary()))[0]
        for documents in ([b'{"s":{"a":1}}'], [None, b'{"s":{}}'])
    ]
    table = kind(tmp_path)
    if isinstance(table, SqliteTable | DuckdbTable):
        table.create()
    sink = acquired(table)
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
