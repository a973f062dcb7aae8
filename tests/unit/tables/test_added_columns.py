"""Columns and fields that are added to Parquet files and Delta Lake, and types that change."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from tandem_kafka.errors import InvalidArgumentError, SchemaMismatchError

pa = pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")

from tandem_kafka.tables import ParquetDirectory  # noqa: E402 - it imports pyarrow
from tests.integration.tables.landing_tables import (  # noqa: E402
    DeltaTable,
    ParquetTable,
)
from tests.unit.tables.landings import ONE, ZERO, acquired, between, landed, put, rows  # noqa: E402

pytestmark = pytest.mark.leaves("the runtime of deltalake")


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
        put(sink, range(at, at + 1), doc=pa.array([doc], of))
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
    sink = acquired(table)
    put(sink, range(1), doc=pa.array([[{"id": 1}]]))
    with pytest.raises(InvalidArgumentError, match=r"doc\[\] has id and ID: names that differ in"):
        sink.write(rows(range(1, 2), doc=pa.array([[{"ID": 1}]])))


@pytest.mark.parametrize("kind", [ParquetTable, DeltaTable])
@pytest.mark.parametrize("added", ["other", "same"])
def test_two_writers_add_columns_at_once(kind: Any, added: str, tmp_path: Path) -> None:
    table = kind(tmp_path)
    first, second = table.open(), table.open()
    first.acquire([ZERO])
    second.acquire([ONE])
    name = "theirs" if added == "other" else "ours"

    def faster() -> None:
        put(second, range(1), 1, **{name: pa.array([2])})

    # Parquet: it has read the schema, and not yet added to it. Delta Lake: it has read the version.
    between(first, "_newest_schema" if kind is ParquetTable else "_append", faster)
    put(first, range(1), ours=pa.array([1]))
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
        put(second, range(1), 1, new=pa.array([2]))

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
    sink = acquired(table)
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
        put(sink, range(at, at + 1), **more)
    assert table.rows() == landed((0, range(5)))
    if kind is ParquetTable:
        found = ParquetDirectory(table.place).dataset().to_table().sort_by("offset")
        lists = found["list"].to_pylist()
        assert lists == [[], [{"a": 1, "b": None}], [{"a": None, "b": "y"}], None, None]
        assert found["word"].to_pylist() == ["x", "x", "x", None, None]


@pytest.mark.parametrize("kind", [ParquetTable, DeltaTable])
def test_types_do_not_change(kind: Any, tmp_path: Path) -> None:
    table = kind(tmp_path)
    sink = acquired(table)
    put(sink, range(1), doc=pa.array([{"a": [1]}]))
    again = table.open()
    again.acquire([ZERO])
    message = r"column doc\.a\[\] is int64 in the table and string"
    with pytest.raises(SchemaMismatchError, match=message):
        again.write(rows(range(1, 2), doc=pa.array([{"a": ["x"]}])))
    again.abort()
    put(again, range(1, 2))
    assert table.rows() == landed((0, range(2)))
