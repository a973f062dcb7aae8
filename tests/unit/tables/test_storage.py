"""What each table and text stores for each type that a decoder can make."""

from __future__ import annotations

import datetime as dt
import json
import sqlite3
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tandem_kafka import TopicPartition
from tandem_kafka.errors import InvalidArgumentError, SchemaMismatchError
from tandem_kafka.tables import Database, DeltaLake, Json, ParquetDirectory
from tandem_kafka.tables.storage import KINDS, PLACES, kind_of, storage
from tandem_kafka_cli.records.queries import Query

pytestmark = pytest.mark.leaves("the runtime of deltalake")

ZERO: Final = TopicPartition("orders", 0)
UTC: Final = "2026-05-01T12:00:00"
SECOND: Final = 1_777_636_800
DAY: Final = SECOND // 86_400
MOMENT: Final = dt.datetime(2026, 5, 1, 12, tzinfo=dt.UTC)
MAP: Final = pa.map_(pa.string(), pa.uint32())

#: Where a type may be.
WITHIN: Final[dict[str, Callable[[pa.DataType], pa.DataType]]] = {
    "plain": lambda kind: kind,
    "struct": lambda kind: pa.struct([("f", kind)]),
    "list": pa.list_,
    "map": lambda kind: pa.map_(pa.string(), kind),
}

#: A value of each kind, as Python has it, or as a number.
VALUES: Final = {
    "null": (pa.null(), None),
    "struct without fields": (pa.struct([]), {}),
    "bool": (pa.bool_(), True),
    "int8 to int64": (pa.int64(), -(2**63)),
    "uint8, uint16": (pa.uint16(), 2**16 - 1),
    "uint32": (pa.uint32(), 2**32 - 1),
    "uint64": (pa.uint64(), 2**63 - 1),
    "float": (pa.float64(), 0.1),
    "decimal128": (pa.decimal128(20, 2), Decimal("1.50")),
    "decimal256": (pa.decimal256(64, 2), Decimal("1.50")),
    "string": (pa.string(), "\u00fc"),
    "binary": (pa.binary(), b"\xff"),
    "date32": (pa.date32(), MOMENT.date()),
    "time32, time64": (pa.time64("us"), dt.time(1, 2, 3, 4)),
    "time64[ns]": (pa.time64("ns"), 1_500_000_001),
    "timestamp": (pa.timestamp("us", "UTC"), MOMENT),
    "timestamp[ns]": (pa.timestamp("ns"), SECOND * 10**9 + 123_456_789),
    "duration": (pa.duration("us"), dt.timedelta(seconds=-90)),
    "duration[ns]": (pa.duration("ns"), 1),
    "interval": (pa.month_day_nano_interval(), pa.MonthDayNano([1, 2, 3_000_000_000])),
    "list, map, struct": (
        pa.struct([("l", pa.list_(MAP)), ("e", pa.struct([]))]),
        {"l": [[("a", 2**32 - 1)], None], "e": {}},
    ),
}
#: What is stored where it is not the value.
STORED: Final[dict[str, dict[str, Any]]] = {
    "Parquet": {
        "interval": "P1M2DT3S",
        "list, map, struct": {"l": [[("a", 2**32 - 1)], None]},
    },
    "Delta Lake": {
        "time32, time64": "01:02:03.000004",
        "time64[ns]": "00:00:01.500000001",
        "timestamp[ns]": dt.datetime(2026, 5, 1, 12, 0, 0, 123_456),  # noqa: DTZ001
        "duration": "-PT90S",
        "duration[ns]": "PT0.000000001S",
        "interval": "P1M2DT3S",
        "list, map, struct": {"l": [[("a", 2**32 - 1)], None]},
    },
    "SQLite": {
        "decimal128": "1.50",
        "decimal256": "1.50",
        "date32": "2026-05-01",
        "time32, time64": "01:02:03.000004",
        "time64[ns]": "00:00:01.500000001",
        "timestamp": f"{UTC}.000000+00:00",
        "timestamp[ns]": f"{UTC}.123456789",
        "duration": "-PT90S",
        "duration[ns]": "PT0.000000001S",
        "interval": "P1M2DT3S",
        "struct without fields": "{}",
        "list, map, struct": '{"l": [{"a": 4294967295}, null], "e": {}}',
    },
}
STORED["other databases"] = {
    kind: STORED["SQLite"][kind]
    for kind in (
        *("time64[ns]", "timestamp[ns]", "duration[ns]", "interval"),
        *("struct without fields", "list, map, struct"),
    )
}
STORED["JSON lines"] = {
    kind: STORED["SQLite"][kind]
    for kind in (
        *("date32", "time32, time64", "time64[ns]", "timestamp", "timestamp[ns]"),
        *("duration", "duration[ns]", "interval"),
    )
}
STORED["Spark"] = {
    "duration[ns]": dt.timedelta(0),
    **{
        kind: STORED["Delta Lake"][kind]
        for kind in ("time32, time64", "time64[ns]", "timestamp[ns]", "interval")
    },
}


def column(kind: str) -> pa.Array:
    """A value of a kind, and a null."""
    of, value = VALUES[kind]
    return pa.array([value, None], of)


def rows(values: pa.Array) -> pa.Table:
    count = len(values)
    return pa.table(
        {
            "topic": pa.array(["orders"] * count),
            "partition": pa.array([0] * count, pa.int32()),
            "offset": pa.array(range(count), pa.int64()),
            "value": values,
        }
    )


def land(sink: Any, table: pa.Table) -> None:
    sink.acquire([ZERO])
    sink.write(table)
    sink.commit({ZERO: table.num_rows})


class _Recorded(sqlite3.Connection):
    """A connection of another module, whose parameters are kept."""

    taken: Final[list[Any]] = []

    def cursor(self, *_: Any) -> Any:
        return _Cursor(self)


class _Cursor(sqlite3.Cursor):
    def executemany(self, _statement: str, parameters: Any) -> Any:
        _Recorded.taken[:] = [row[-1] for row in parameters]
        return self


def from_parquet(table: pa.Table, place: Path) -> list[Any]:
    sink = ParquetDirectory(place)
    land(sink, table)
    found = sink.dataset().to_table().sort_by("offset")
    return _values(found)


def from_delta_lake(table: pa.Table, place: Path) -> list[Any]:
    land(DeltaLake(place), table)
    return _values(pa.table(DeltaTable(place).to_pyarrow_table()).sort_by("offset"))


def _values(found: pa.Table) -> list[Any]:
    if "value" not in found.column_names:
        return [None] * found.num_rows
    kind = found["value"].type
    nanoseconds = getattr(kind, "unit", "") == "ns"
    return (found["value"].cast(pa.int64()) if nanoseconds else found["value"]).to_pylist()


def from_duckdb(table: pa.Table, _place: Path) -> list[Any]:
    connection = duckdb.connect()
    stored = storage("DuckDB").table(table)
    connection.register("given", stored)
    connection.execute("CREATE TABLE landed AS SELECT * FROM given WHERE false")
    land(Database(connection, "landed"), table)
    return connection.execute('SELECT value FROM landed ORDER BY "offset"').fetchall()


def from_sqlite(table: pa.Table, place: Path) -> list[Any]:
    connection = sqlite3.connect(place / "db")
    connection.execute('CREATE TABLE landed (topic, "partition", "offset", value)')
    land(Database(connection, "landed"), table)
    return [value for (value,) in connection.execute('SELECT value FROM landed ORDER BY "offset"')]


def from_another(table: pa.Table, place: Path) -> list[Any]:
    connection = sqlite3.connect(place / "db", factory=_Recorded)
    connection.execute('CREATE TABLE landed (topic, "partition", "offset", value)')
    land(Database(connection, "landed", paramstyle="qmark"), table)
    return _Recorded.taken


READ: Final[dict[str, Callable[[pa.Table, Path], list[Any]]]] = {
    "Parquet": from_parquet,
    "Delta Lake": from_delta_lake,
    "SQLite": from_sqlite,
    "other databases": from_another,
}


def test_each_kind_has_a_value_here() -> None:
    assert VALUES.keys() == KINDS.keys()
    assert all(kind_of(of) == kind for kind, (of, _) in VALUES.items())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", READ)
def test_a_value_comes_back_as_the_table_says(place: str, kind: str, tmp_path: Path) -> None:
    word = KINDS[kind][PLACES.index(place)]
    value = VALUES[kind][1]
    if word == "-":
        expected: Any = None
    else:
        expected = STORED[place].get(kind, value)
        assert (word in {"same", "years"}) <= (expected == value or kind == "list, map, struct")
    assert READ[place](rows(column(kind)), tmp_path) == [expected, None]


@pytest.mark.parametrize("kind", sorted(KINDS.keys() - {"null"}))
def test_duckdb_takes_each_type(kind: str, tmp_path: Path) -> None:
    (found,), (null,) = from_duckdb(rows(column(kind)), tmp_path)
    assert found is not None
    assert null is None


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_of_sql_has_each_type(kind: str) -> None:
    stored, failures = storage("SQL of topics").column(column(kind), "value")
    assert not failures
    with Query("SELECT value FROM given") as query:
        query._database.register("given", pa.table({"value": stored}))
        (first,), (second,) = [*query.result()[1]]
    assert (first is None) == (kind == "null")
    assert second is None
    if kind == "timestamp[ns]":
        assert first.endswith(".123456789")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", ["JSON lines", "Spark"])
def test_json_and_spark_have_each_type(place: str, kind: str) -> None:
    stored, failures = storage(place).column(column(kind), "value")
    assert not failures
    assert stored.to_pylist() == [STORED[place].get(kind, VALUES[kind][1]), None]


@pytest.mark.parametrize(
    ("place", "values", "reason"),
    [
        ("SQLite", pa.array([0, 2**63], pa.uint64()), "not in range"),
        ("SQLite", pa.array([0, 253_402_300_800_000], pa.timestamp("ms")), "years 1 to 9999"),
        ("other databases", pa.array([0, -62_135_596_801], pa.timestamp("s")), "years 1 to 9999"),
        ("JSON lines", pa.array([0, 2**30], pa.date32()), "years 1 to 9999"),
        ("PostgreSQL", pa.array([r"\u0000", "a\0b"]), "U+0000"),
        ("PostgreSQL", pa.array([[r"\u0000", r"\\u0000"], ["\0"]]), "U+0000"),
        ("PostgreSQL", pa.array([{"a": "b"}, {"a": "\\\0"}]), "U+0000"),
        ("PostgreSQL", pa.array(["x", "\0"], pa.large_string()), "U+0000"),
        ("Delta Lake", pa.array([Decimal(0), Decimal(10**40)], pa.decimal256(64, 2)), "38"),
        ("Delta Lake", pa.array([0, 2**62], pa.timestamp("s")), "out of bounds"),
        ("Parquet", pa.array([0, 2**62], pa.timestamp("s")), "64-bit milliseconds"),
        ("Parquet", pa.array([[0], [-(2**62)]], pa.list_(pa.timestamp("s", "UTC"))), "64-bit"),
        ("Delta Lake", pa.array([0, -(2**31)], pa.date32()), "years 1 to 9999"),
        ("SQLite", pa.array([0, 253_402_300_799], pa.timestamp("s", "Europe/Berlin")), "years"),
        ("other databases", pa.array([0, -62_135_596_800], pa.timestamp("s", "-01:00")), "years"),
        ("DuckDB", pa.array([0, 2**63 - 1], pa.timestamp("ms", "UTC")), "out of bounds"),
        ("Spark", pa.array([0, 2**62], pa.duration("ms")), "out of bounds"),
        ("SQL of topics", pa.array([0, 2**62], pa.timestamp("ms", "UTC")), "out of bounds"),
        ("SQL of topics", pa.array([0, -(2**63)], pa.timestamp("s")), "out of bounds"),
        ("SQL of topics", pa.array([0, 2**63 - 1], pa.timestamp("us", "UTC")), "infinity"),
        ("SQL of topics", pa.array([[0], [1 - 2**63]], pa.list_(pa.timestamp("ns"))), "infinity"),
        ("DuckDB", pa.array([0, 2**63 - 1], pa.timestamp("us", "UTC")), "infinity"),
        ("DuckDB", pa.array([0, 1 - 2**63], pa.timestamp("ns")), "infinity"),
        ("DuckDB", pa.array([0, 2**31 - 1], pa.date32()), "infinity"),
        ("DuckDB", pa.array([[None], [{"d": Decimal(10**40)}]],
            pa.list_(pa.struct([("d", pa.decimal256(64, 2))]))), "38"),
    ],
)  # fmt: skip
def test_a_value_without_a_place_is_found(place: str, values: pa.Array, reason: str) -> None:
    many = pa.concat_arrays([values.slice(0, 1)] * 100 + [values] + [values.slice(0, 1)] * 3)
    stored, ((row, why),) = storage(place).column(many, "value")
    assert row == 101
    assert reason in why
    assert len(stored) == len(many)
    assert stored.null_count == 1
    with pytest.raises(SchemaMismatchError, match=f"{place} has no place for a value of value: "):
        storage(place).table(pa.table({"value": many}))


def test_parquet_has_bytes_of_no_size(tmp_path: Path) -> None:
    """A fixed type of Avro may have the size 0."""
    parquet = pytest.importorskip("pyarrow.parquet")
    plain = pa.array([b"", None], pa.binary(0))
    for values in (
        plain,
        pa.StructArray.from_arrays([plain], ["f"]),
        pa.array([[b""]], pa.list_(pa.binary(0))),
    ):
        stored = storage("Parquet").table(pa.table({"value": values}))
        parquet.write_table(stored, tmp_path / "f.parquet")
        found = parquet.read_table(tmp_path / "f.parquet")
        assert found["value"].to_pylist() == values.to_pylist()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", PLACES)
def test_without_values_the_type_is_the_same(place: str, kind: str) -> None:
    """A batch may have no records, and a field no value in any record of a batch."""
    without = {
        "plain": [None, None],
        "struct": [{"f": None}, None],
        "list": [[None, None], None, []],
        "map": [[("k", None)], None, []],
    }
    for within, make in WITHIN.items():
        of = make(VALUES[kind][0])
        expected = storage(place).type_of(of, "value")
        for values in ([], [None] * 3, without[within]):
            stored, failures = storage(place).column(pa.array(values, of), "value")
            stored.validate(full=True)
            assert stored.type == (pa.null() if expected is None else expected)
            assert (len(stored), [*failures]) == (len(values), [])


@pytest.mark.parametrize("place", ["Parquet", "Delta Lake"])
def test_keys_stay_where_the_values_of_a_map_are_left_out(place: str) -> None:
    """`map<string, google.protobuf.Empty>` is a set."""
    of = pa.list_(pa.map_(pa.string(), pa.struct([("nothing", pa.struct([]))])))
    sets = [[("a", {"nothing": {}}), ("b", None)], []]
    given = pa.array([sets, None, [None], [[("c", None)]]], of)
    stored, failures = storage(place).column(given, "value")
    assert stored.to_pylist() == [[["a", "b"], []], None, [None], [["c"]]]
    assert not failures
    assert storage(place).column(given.slice(3), "value")[0].to_pylist() == [[["c"]]]


@pytest.mark.parametrize("place", ["Delta Lake", "DuckDB", "SQL of topics"])
def test_scales_that_have_no_place(place: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"value is of type decimal128\(5, -2\)"):
        storage(place).type_of(pa.decimal128(5, -2), "value")
    with pytest.raises(InvalidArgumentError, match=r"value is of type decimal256\(64, 39\)"):
        storage(place).type_of(pa.decimal256(64, 39), "value")
    assert storage(place).type_of(pa.decimal256(64, 38), "value") == pa.decimal128(38, 38)


def test_delta_lake_has_times_in_utc(tmp_path: Path) -> None:
    moment = pa.array([MOMENT], pa.timestamp("ms", "Europe/Berlin"))
    assert from_delta_lake(rows(moment), tmp_path) == [MOMENT]


def test_sqlite_makes_null_of_nan(tmp_path: Path) -> None:
    values = pa.array([float("nan"), float("inf"), -0.0])
    assert from_sqlite(rows(values), tmp_path) == [None, float("inf"), 0.0]


#: A type with times below all others, and a value with four of them.
TIMES: Final = pa.struct(
    [
        ("plain", pa.timestamp("us", "UTC")),
        ("list", pa.list_(pa.list_(pa.date32()))),
        ("map", pa.map_(pa.string(), pa.struct([("t", pa.timestamp("s"))]))),
        ("large", pa.large_list(pa.timestamp("s", "Europe/Berlin"))),
    ]
)


def times(*wrong: str) -> dict[str, Any]:
    far = 10**18
    return {
        "plain": far if "plain" in wrong else 0,
        "list": [[], [0, 10**9 if "list" in wrong else 0], [0]],
        "map": [("a", None), ("b", {"t": far if "map" in wrong else 0})],
        "large": [0, 253_402_300_799 if "large" in wrong else 0],
    }


@pytest.mark.parametrize("place", ["SQLite", "other databases", "JSON lines", "PostgreSQL"])
def test_all_values_without_a_place_are_found_at_once(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By halves, each takes a millisecond, and an application that drops them polls too late."""
    monkeypatch.setattr(pa, "concat_arrays", _never_by_halves(pa.concat_arrays))
    names = [*TIMES.names, ""] * 20
    values = [times(name) for name in names]
    values[3:3] = [None, times("map", "plain")]
    expected = [row for row, each in enumerate(values) if each and each != times()]
    given = pa.array([times(), *values], TIMES)
    for begin in (1, 8):
        stored, failures = storage(place).column(given.slice(begin), "value")
        stored.validate(full=True)
        left = [row + 1 - begin for row in expected if row + 1 >= begin]
        assert sorted(row for row, _ in failures) == left
        assert [row for row, each in enumerate(stored.to_pylist()) if each is None] == sorted(
            {*left, *([4 - begin] if begin <= 4 else [])}
        )


def _never_by_halves(concat: Any) -> Any:
    def call(arrays: Any) -> Any:
        assert all(pa.types.is_integer(each.type) for each in arrays)
        return concat(arrays)

    return call


@pytest.mark.usefixtures("native_extension")
def test_it_goes_the_way_of_what_cannot_be_decoded() -> None:
    decoder = storage("SQLite").decoder(Json(pa.uint64(), errors="null"), "value")
    assert decoder is not None
    assert decoder.errors == "null"
    given = pa.array([b"1", str(2**63).encode(), b"no", None], pa.binary())
    stored, failures = decoder.decode(given)
    assert stored.to_pylist() == [1, None, None, None]
    assert [row for row, _ in failures] == [2, 1]


def test_a_type_without_a_place_is_found_first() -> None:
    union = pa.dense_union([pa.field("a", pa.int64())])
    with pytest.raises(InvalidArgumentError, match=r"value\.a\[\] is of type dense_union"):
        storage("Parquet").type_of(pa.struct([("a", pa.list_(union))]), "value")


@pytest.mark.parametrize("place", ["Delta Lake", "DuckDB", "SQL of topics", "Spark"])
def test_decimals_have_38_digits_after_the_point_too(place: str) -> None:
    storage(place).type_of(pa.decimal256(64, 38), "value")
    with pytest.raises(InvalidArgumentError, match=rf"value\.d is of .* {place} has no place"):
        storage(place).type_of(pa.struct([("d", pa.decimal256(64, 39))]), "value")


@pytest.mark.parametrize(
    ("place", "flatten"),
    [("Delta Lake", False), ("DuckDB", False), ("DuckDB", True), ("SQLite", True)],
)
@pytest.mark.usefixtures("native_extension")
def test_names_of_tables_differ_in_more_than_case(place: str, flatten: bool) -> None:
    names = Json(pa.schema([("id", pa.int64()), ("ID", pa.int64())]), flatten=flatten)
    with pytest.raises(InvalidArgumentError, match=rf"value has id and ID: .* of {place}"):
        storage(place).decoder(names, "value")
    storage("Parquet").decoder(names, "value")
    storage("other databases").decoder(names, "value")


@pytest.mark.parametrize("place", ["SQLite", "other databases", "PostgreSQL"])
@pytest.mark.usefixtures("native_extension")
def test_fields_that_become_columns_are_stored_by_themselves(place: str) -> None:
    fields = [("id", pa.int64()), ("on", pa.date32()), ("tags", pa.list_(pa.string()))]
    decoder = storage(place).decoder(Json(pa.struct(fields), flatten=True), "value")
    assert decoder is not None
    text = '{{"id": {}, "on": {}, "tags": ["x"]}}'
    texts = [text.format(1, 19_000), text.format(2, 2**30), None]
    stored, failures = decoder.decode(pa.array(texts).cast(pa.binary()))
    on: Any = dt.date(2022, 1, 8)
    first = {"id": 1, "on": on.isoformat() if place == "SQLite" else on, "tags": '["x"]'}
    assert stored.to_pylist() == [first, None, None]
    [(row, reason)] = failures
    assert row == 1
    assert "years 1 to 9999" in reason


@pytest.mark.parametrize("large", [pa.list_, pa.large_list])
def test_slices_and_nulls_of_nested_types(large: Any) -> None:
    kind = large(pa.struct([("n", pa.uint32()), ("m", MAP), ("e", pa.struct([]))]))
    given = [
        [{"n": 1, "m": [("a", 1)], "e": {}}],
        None,
        [],
        [None, {"n": None, "m": None, "e": None}, {"n": 2**32 - 1, "m": [], "e": {}}],
        [{"n": 5, "m": [("b", None), ("c", 7)], "e": {}}],
    ]
    for begin in range(5):
        for end in range(begin, 6):
            part = pa.array(given, kind).slice(begin, end - begin)
            stored, failures = storage("Delta Lake").column(part, "value")
            stored.validate(full=True)
            assert not failures
            without = json.loads(json.dumps(given[begin:end]))
            for each in [item for items in without for item in items or () if item]:
                del each["e"]
                each["m"] = each["m"] and [tuple(pair) for pair in each["m"]]
            assert stored.to_pylist() == without
            assert stored.type == storage("Delta Lake").type_of(kind, "value")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", PLACES)
def test_a_dictionary_is_stored_as_its_values(place: str, kind: str) -> None:
    given = pa.DictionaryArray.from_arrays(pa.array([0, None, 1]), column(kind))
    stored, failures = storage(place).column(given, "value")
    stored.validate(full=True)
    assert not failures
    assert stored.type == storage(place).type_of(given.type, "value") or stored.type == pa.null()
    plain, _ = storage(place).column(column(kind).take(pa.array([0, None, 1])), "value")
    values = stored.dictionary_decode() if pa.types.is_dictionary(stored.type) else stored
    assert values.equals(plain)
