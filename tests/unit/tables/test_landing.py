"""`Landing` on a simulated cluster: what becomes of records that sinks cannot store as they are."""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tandem_kafka import TopicPartition
from tandem_kafka_testing.simulation import Simulation
from tests.integration.tables.landing_tables import (
    DeltaTable,
    DuckdbTable,
    ParquetTable,
    SqliteTable,
)

pa = pytest.importorskip("pyarrow")
deltalake = pytest.importorskip("deltalake")

from tandem_kafka.tables import Json, Landing, ParquetDirectory, Progress  # noqa: E402 - it imports pyarrow

pytestmark = pytest.mark.leaves("the runtime of deltalake")

TP = TopicPartition("orders", 0)
COLUMNS = ["topic", "partition", "offset", "timestamp", "value"]


def created(kind: Any, place: Path, *columns: str) -> Any:
    """Return a table, with more columns than those of `COLUMNS` if it must be created."""
    table = kind(place)
    if isinstance(table, SqliteTable | DuckdbTable):
        table.create()
        with closing(table.connect()) as connection:
            for column in columns:
                connection.execute(f"ALTER TABLE landed ADD COLUMN {column}")
            connection.commit()
    return table


def landing_of(simulation: Simulation, sink: Any, **given: Any) -> Landing:
    consumer = simulation.consumer(
        "orders",
        group_id="landing",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    )
    return Landing(consumer, sink, **({"columns": COLUMNS, "every": timedelta(0)} | given))


def column(table: Any, name: str) -> list[Any]:
    """Return a column of a table in the order of offsets."""
    if isinstance(table, SqliteTable | DuckdbTable):
        with closing(table.connect()) as connection:
            rows = connection.execute('SELECT * FROM landed ORDER BY "offset"')
            names = [each[0] for each in rows.description]
            return [row[names.index(name)] for row in rows.fetchall()]
    if isinstance(table, DeltaTable):
        found = deltalake.DeltaTable(table.place).to_pyarrow_table()
        found = found.filter(found["offset"].is_valid())
    else:
        found = ParquetDirectory(table.place).dataset().to_table()
    values = found.sort_by("offset")[name]
    return (values.cast(pa.int64()) if pa.types.is_timestamp(values.type) else values).to_pylist()


@pytest.mark.parametrize(
    ("kind", "stored"),
    [
        (ParquetTable, [1, 1_700_000_000_000_000, 2**63 - 1]),
        (DeltaTable, [1_000, 1_700_000_000_000_000_000, None]),
        (DuckdbTable, ["1970-01-01 00:00:00.001", "55840-11-08 22:13:20", None]),
        (SqliteTable, ["1970-01-01T00:00:00.001+00:00", None, None]),
    ],
)
def test_a_timestamp_without_a_place_stops_no_landing(
    kind: Any, stored: list[Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = created(kind, tmp_path, '"timestamp"' + " VARCHAR" * (kind is DuckdbTable))
    with Simulation() as simulation:
        simulation.cluster.create_topic("orders", 1)
        for at in (1, 1_700_000_000_000_000, 2**63 - 1):
            simulation.cluster.produce(TP, b"%d" % at, timestamp=at)
        landing = landing_of(simulation, table.open(), every=timedelta(hours=1), rows=3)
        landing.run(lambda: landing.total == 3)
    assert column(table, "value") == [b"1", b"1700000000000000", b"9223372036854775807"]
    found = column(table, "timestamp")
    if kind is DuckdbTable:
        found = [each and each.removesuffix("+00") for each in found]
    assert found == stored
    lines = [each.getMessage() for each in caplog.records if "no place" in each.getMessage()]
    missing = stored.count(None)
    assert len(lines) == (missing > 0)
    for line in lines:
        assert f"no place for {missing} values of the column timestamp, which are null" in line
        assert f"the first is of orders-0 at offset {stored.index(None)}: a time " in line


def test_each_commit_tells_how_far_the_landing_is(tmp_path: Path) -> None:
    seen: list[Progress] = []
    with Simulation() as simulation:
        simulation.cluster.create_topic("orders", 1)
        simulation.cluster.produce(TP, *[b"x"] * 10)
        landing = landing_of(
            simulation, ParquetDirectory(tmp_path), every=timedelta(hours=1), rows=4
        )
        landing.run(lambda: landing.total >= 8, progress=seen.append)
    assert [(each.records, each.share) for each in seen] == [(4, 0.4), (8, 0.8)]
    assert 0 < seen[0].bytes < seen[1].bytes


def test_positions_that_move_without_records_are_committed(tmp_path: Path) -> None:
    with Simulation() as simulation:
        simulation.cluster.create_topic("orders", 1)
        transaction = simulation.cluster.transaction()
        transaction.produce(TP, b"dropped")
        transaction.abort()
        landing, until_ms = landing_of(simulation, ParquetDirectory(tmp_path)), 20_000

        def over() -> bool:
            late = simulation.clock.now_ms() > until_ms
            return late or simulation.cluster.committed("landing", TP) == 2

        landing.run(over)
        assert simulation.clock.now_ms() < until_ms


def test_a_landing_of_what_is_not_committed_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Not to those who ask for it."""
    with Simulation() as simulation:
        simulation.cluster.create_topic("orders", 1)

        def told(**options: str) -> list[str]:
            caplog.clear()
            consumer = simulation.consumer(
                "orders", client_id="orders-1", group_id="g", enable_auto_commit=False, **options
            )
            Landing(consumer, ParquetDirectory(tmp_path))
            return [each for each in caplog.messages if "transactions" in each]

        assert told(isolation_level="read_committed") == []
        assert told(isolation_level="read_uncommitted") == []
        (line,) = told()
        assert line.startswith("[orders-1] The landing copies records of open and aborted")


@pytest.mark.parametrize("kind", [ParquetTable, DeltaTable, DuckdbTable, SqliteTable])
@pytest.mark.usefixtures("native_extension")
def test_fields_are_columns(kind: Any, tmp_path: Path) -> None:
    """What a table stores of a struct, such as JSON, is not what it stores of the fields."""
    lines = "lines " + ("TEXT" if kind is SqliteTable else "STRUCT(sku VARCHAR)[]")
    table = created(kind, tmp_path, "name TEXT", lines)
    of = pa.list_(pa.struct([("sku", pa.string())]))
    value = Json(pa.schema([("name", pa.string()), ("lines", of)]), flatten=True)
    with Simulation() as simulation:
        simulation.cluster.create_topic("orders", 1)
        for text in (b'{"name": "a", "lines": [{"sku": "x"}]}', b'{"name": "b"}', None):
            simulation.cluster.produce(TP, text)
        landing = landing_of(simulation, table.open(), columns=COLUMNS[:3], value=value)
        landing.run(lambda: landing.total == 3)
    assert column(table, "name") == ["a", "b", None]
    of_a = '[{"sku": "x"}]' if kind is SqliteTable else [{"sku": "x"}]
    assert column(table, "lines") == [of_a, None, None]
