"""Random schemas are read as fastavro reads them; garbage is null, with a reason."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")
fastavro = pytest.importorskip("fastavro")

from tandem_kafka.tables import Avro  # noqa: E402 - it imports pyarrow
from tests.tier import examples  # noqa: E402
from tests.unit.tables.avro_values import (  # noqa: E402
    COLOR,
    Registry,
    decoded,
    encoded,
    logical,
    record,
)

pytestmark = pytest.mark.usefixtures("native_extension")


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
LEAVES: list[tuple[Any, Any]] = [
    ("null", st.none()),
    ("boolean", st.booleans()),
    ("int", st.integers(-(2**31), 2**31 - 1)),
    ("long", st.integers(-(2**63), 2**63 - 1)),
    ("double", st.floats(allow_nan=False)),
    ("float", st.floats(width=32, allow_nan=False)),
    ("bytes", st.binary(max_size=10)),
    ("string", TEXT),
    (logical("int", "date"), st.dates()),
    (
        logical("bytes", "decimal", precision=30, scale=5),
        st.decimals(-(10**24), 10**24, places=5),
    ),
]


def typed() -> Any:
    """Schemas with values of them."""

    def fields(parts: list[tuple[Any, Any]]) -> tuple[Any, Any]:
        schema = record(*((f"f{n}", kind) for n, (kind, _) in enumerate(parts)))
        return schema, st.fixed_dictionaries({f"f{n}": v for n, (_, v) in enumerate(parts)})

    def above(inner: Any) -> Any:
        return st.one_of(
            inner.map(lambda e: ({"type": "array", "items": e[0]}, st.lists(e[1], max_size=3))),
            inner.map(
                lambda e: (
                    {"type": "map", "values": e[0]},
                    st.dictionaries(TEXT, e[1], max_size=3),
                )
            ),
            inner.filter(lambda e: e[0] != "null" and not isinstance(e[0], list)).map(
                lambda e: (["null", e[0]], st.none() | e[1])
            ),
            st.lists(inner, max_size=3).map(fields),
        )

    return st.recursive(st.sampled_from(LEAVES), above, max_leaves=6)


def with_names(schema: Any, numbers: Iterator[int]) -> Any:
    """Return a schema in which each named type has a name of its own."""
    if isinstance(schema, list):
        return [with_names(each, numbers) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = dict(schema)
    if schema["type"] in {"record", "enum", "fixed"}:
        made["name"] = f"T{next(numbers)}"
    if "fields" in schema:
        made["fields"] = [
            {**each, "type": with_names(each["type"], numbers)} for each in schema["fields"]
        ]
    for part in ("items", "values"):
        if part in schema:
            made[part] = with_names(schema[part], numbers)
    return made


def same(ours: Any, theirs: Any) -> bool:
    """Whether both are the same; an empty map is a list here and a dict there."""
    if not ours and not theirs and isinstance(ours, list | dict):
        return True
    if isinstance(theirs, dict) and isinstance(ours, dict):
        return ours.keys() == theirs.keys() and all(same(ours[k], theirs[k]) for k in ours)
    if isinstance(theirs, dict):
        return len(ours) == len(theirs) and all(
            key in theirs and same(each, theirs[key]) for key, each in ours
        )
    if isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    return bool(ours == theirs)


@settings(max_examples=examples(200))
@given(st.data())
def test_it_returns_what_fastavro_returns(data: st.DataObject) -> None:
    schema, values = data.draw(typed())
    schema = with_names(schema, itertools.count())
    listed = data.draw(st.lists(values, max_size=4))
    parsed = fastavro.parse_schema(schema)
    encoded_values = [encoded(schema, value) for value in listed]
    expected = [fastavro.schemaless_reader(io.BytesIO(e), parsed) for e in encoded_values]
    rows, failures = decoded(Avro(schema), *encoded_values)
    assert not failures
    assert all(map(same, rows, expected)), (rows, expected)


FUZZED = record(
    ("a", {"type": "array", "items": ["null", record(("x", "int"), ("y", "string"), name="S")]}),
    ("b", {"type": "map", "values": logical("bytes", "decimal", precision=5, scale=2)}),
    ("c", ["null", "string", COLOR]),
    ("d", {"type": "array", "items": record(name="Empty")}),
)
NARROW = record(("c", ["null", "string", {**COLOR, "symbols": ["GREEN"]}]))
_GARBAGE = st.lists(
    st.sampled_from([b"\0", b"\1", b"\2", b"\4", b"\6", b"\2x", b"\xff\xff\xff\xff\x0f", b"RED"])
    | st.binary(max_size=3)
).map(b"".join)


@settings(max_examples=examples(300))
@given(st.lists(_GARBAGE, max_size=5))
def test_garbage_is_null_with_a_reason(values: list[bytes]) -> None:
    good = encoded(FUZZED, {"a": [{"x": 1, "y": "y"}], "b": {}, "c": "x", "d": [{}]})
    listed = [good, *values, good]
    column, failures = Avro(FUZZED).decode(pa.array(listed, pa.binary()))
    column.validate(full=True)
    failed = [row for row, _ in failures]
    assert [row for row, value in enumerate(column) if not value.is_valid] == failed
    assert failed == sorted(set(failed) - {0, len(listed) - 1})
    narrow = Avro(NARROW, registry=Registry(s1=FUZZED))
    framed_values = [b"\0\0\0\0\1" + value for value in listed]
    column, also = narrow.decode(pa.array(framed_values, pa.binary()))
    column.validate(full=True)
    assert {0, len(listed) - 1}.isdisjoint(row for row, _ in also)


def test_claims_are_not_believed() -> None:
    claim = b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\1"
    # To believe one of them would take years, or all memory.
    values = [b"\2\0" * 3 + claim, claim * 3, b"\0\0\0" + claim + b"\0" * 9] * 100
    rows, failures = decoded(Avro(FUZZED), *values)
    assert len(failures) == len(rows)
