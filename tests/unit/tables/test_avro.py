"""Avro becomes Arrow columns; values of other schemas are resolved."""

from __future__ import annotations

import datetime as dt
import json
import sys
import threading
import time
from decimal import Decimal
from typing import Any

import pytest

from tandem_kafka.errors import InvalidArgumentError
from tandem_kafka.runtime.native import native

pa = pytest.importorskip("pyarrow")
fastavro = pytest.importorskip("fastavro")

from tandem_kafka.tables import Avro  # noqa: E402 - it imports pyarrow
from tests.unit.tables.avro_values import (  # noqa: E402
    COLOR,
    FIXED,
    Registry,
    decoded,
    encoded,
    framed,
    logical,
    record,
)

UTC = dt.UTC


pytestmark = pytest.mark.usefixtures("native_extension")


TIME = dt.datetime(2026, 5, 1, 12, 0, 0, 123_000, UTC)


@pytest.mark.parametrize(
    ("schema", "value", "arrow", "expected"),
    [
        ("null", None, pa.null(), None),
        ("boolean", True, pa.bool_(), True),
        ("int", -(2**31), pa.int32(), -(2**31)),
        ("long", 2**63 - 1, pa.int64(), 2**63 - 1),
        ("long", -(2**63), pa.int64(), -(2**63)),
        ("float", 1.5, pa.float32(), 1.5),
        ("double", -0.1, pa.float64(), -0.1),
        ("bytes", b"\0\xff", pa.binary(), b"\0\xff"),
        ("string", "ü😀", pa.string(), "ü😀"),
        (FIXED, b"ab", pa.binary(2), b"ab"),
        ({**FIXED, "size": 0}, b"", pa.binary(0), b""),
        (COLOR, "GREEN", pa.string(), "GREEN"),
        (
            {"type": "array", "items": "int"},
            [1, 2],
            pa.list_(pa.field("item", pa.int32(), nullable=False)),
            [1, 2],
        ),
        (
            {"type": "map", "values": ["null", "long"]},
            {"a": 1, "b": None},
            pa.map_(pa.string(), pa.int64()),
            [("a", 1), ("b", None)],
        ),
        (["null", "string"], "x", pa.string(), "x"),
        (["string", "null"], None, pa.string(), None),
        (["int", "long"], 7, pa.int64(), 7),
        (["null", "float", "double"], 0.5, pa.float64(), 0.5),
        (
            ["null", "int", "string"],
            "x",
            pa.struct([("member0", pa.int32()), ("member1", pa.string())]),
            {"member0": None, "member1": "x"},
        ),
        (["null"], None, pa.null(), None),
        (logical("int", "date"), dt.date(1969, 12, 31), pa.date32(), dt.date(1969, 12, 31)),
        (logical("int", "time-millis"), dt.time(1, 2, 3), pa.time32("ms"), dt.time(1, 2, 3)),
        (logical("long", "time-micros"), dt.time(1, 2, 3), pa.time64("us"), dt.time(1, 2, 3)),
        (logical("long", "timestamp-millis"), TIME, pa.timestamp("ms", "UTC"), TIME),
        (logical("long", "timestamp-micros"), TIME, pa.timestamp("us", "UTC"), TIME),
        (
            logical("long", "local-timestamp-millis"),
            TIME.replace(tzinfo=None),
            pa.timestamp("ms"),
            TIME.replace(tzinfo=None),
        ),
        (
            logical("bytes", "decimal", precision=4, scale=2),
            Decimal("-1.25"),
            pa.decimal128(4, 2),
            Decimal("-1.25"),
        ),
        (
            logical("fixed", "decimal", name="D", size=20, precision=40, scale=0),
            Decimal("9" * 40),
            pa.decimal256(40, 0),
            Decimal("9" * 40),
        ),
        (
            logical("fixed", "duration", name="T", size=12),
            b"\1\0\0\0\2\0\0\0\3\0\0\0",
            pa.month_day_nano_interval(),
            (1, 2, 3_000_000),
        ),
        (
            logical("string", "uuid"),
            "c9a1e5b6-8f0e-4a1c-9a54-7c0a8a1f0b11",
            pa.string(),
            "c9a1e5b6-8f0e-4a1c-9a54-7c0a8a1f0b11",
        ),
        (logical("bytes", "decimal", precision=2, scale=3), b"\1", pa.binary(), b"\1"),
        (logical("int", "unheard-of"), 1, pa.int32(), 1),
        (
            record(("a", "int"), ("b", record(("c", ["null", "string"]), name="S"))),
            {"a": 1, "b": {"c": "x"}},
            pa.struct([("a", pa.int32()), ("b", pa.struct([("c", pa.string())]))]),
            {"a": 1, "b": {"c": "x"}},
        ),
        (record(), {}, pa.struct([]), {}),
    ],
)
def test_a_value(schema: Any, value: Any, arrow: Any, expected: Any) -> None:
    decoder = Avro(json.dumps(schema) if not isinstance(schema, str) else schema)
    try:
        data = encoded(schema, value)
    except (
        fastavro.schema.SchemaParseException
    ):  # fastavro rejects a scale that Avro says to ignore
        data = b"\2" + value
    assert decoder.schema == arrow
    assert decoded(decoder, data, None, data) == ([expected, None, expected], [])


def test_names_have_namespaces() -> None:
    inner = record(("x", "int"), name="Inner")
    schema = record(
        ("a", inner), ("b", "Inner"), ("c", "n.Inner"), ("d", ["null", "Inner"]), namespace="n"
    )
    one = {"x": 1}
    data = encoded(schema, {"a": one, "b": one, "c": one, "d": one})
    assert decoded(Avro(schema), data) == ([{"a": one, "b": one, "c": one, "d": one}], [])


ITEMS = {"type": "array", "items": "null"}


@pytest.mark.parametrize(
    ("schema", "data", "reason"),
    [
        ("int", b"", "$: the value ends within a number"),
        ("int", b"\x80", "ends within a number"),
        ("int", b"\x80\x80\x80\x80\x10", "2147483648 is out of the range of int"),
        ("long", b"\xff" * 9 + b"\2", "more than 64 bits"),
        ("int", b"\2\2", "bytes are left after the value: 1"),
        ("boolean", b"\2", "2 is no boolean"),
        ("double", b"1234567", "8 bytes were to come, and there are 7"),
        ("string", b"\1", "the length -1 is negative"),
        ("string", b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\1", "bytes were to come"),
        ("string", b"\2\xff", "invalid utf-8"),
        (COLOR, b"\4", "there is no symbol 2"),
        (["null", "int"], b"\4", "there is no branch 2"),
        (["null", "int"], b"\1", "there is no branch -1"),
        (ITEMS, b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\1\0", "too many objects that are null"),
        (ITEMS, b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\1\0", "number of items is out of range"),
        (logical("bytes", "decimal", precision=2), b"\2\x64", "more than 2 digits"),
        (logical("bytes", "decimal", precision=38), b"\x22" + b"\x7f" * 17, "more than 38 digits"),
        (logical("bytes", "decimal", precision=76), b"\x42" + b"\x7f" * 33, "more than 76 digits"),
        (logical("fixed", "duration", name="T", size=12), b"\xff" * 12, "out of range"),
        (logical("int", "time-millis"), b"\1", "$: -1 is no time of a day, which has 86400000"),
        (logical("int", "time-millis"), b"\x80\xf0\xb2\x52", "86400000 is no time of a day"),
        (logical("long", "time-micros"), b"\1", "-1 is no time of a day, which has 86400000000"),
        (
            record(("a", record(("b", {"type": "array", "items": "string"}), name="S"))),
            b"\4\2x\2\xff\0",
            "$.a.b[1]: invalid utf-8",
        ),
    ],
)
def test_a_value_that_is_wrong(schema: Any, data: bytes, reason: str) -> None:
    schema = record(("first", "string"), ("f", schema), name="Top")
    good = b"\2x"
    rows, [(row, told)] = decoded(Avro(schema), good + data, None)
    assert (rows, row) == ([None, None], 0)
    assert reason.replace("$", "$.f") in told


def test_what_was_read_of_a_wrong_value_is_gone() -> None:
    entries = {"type": "map", "values": ["string", FIXED]}
    schema = record(("a", {"type": "array", "items": entries}), ("b", "boolean"))
    value = {"a": [{"k": "x", "l": b"ab"}, {}], "b": True}
    good = encoded(schema, value)
    bad = [good[:-1] + b"\7", good[:-1], good + b"\0", good[:7], b"\2\2\2\xff"]
    column, failures = Avro(schema).decode(pa.array([good, *bad, good]))
    column.validate(full=True)
    assert [row for row, _ in failures] == [1, 2, 3, 4, 5]
    assert len(column.field("a").values) == 4
    assert column[0] == column[6]


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ("{", "Avro: the schema is not JSON"),
        ("Unknown", "Avro: the schema is not JSON"),
        ('"Unknown"', "the type 'Unknown' is not defined"),
        ({"type": "record", "name": "R"}, "'fields' is missing"),
        (record(("a", "int"), ("a", "int")), "the field 'a' is in a record twice"),
        (record(("a", FIXED), ("b", FIXED)), "the type 'F' is defined twice"),
        ([["int"]], "a union is directly in a union"),
        (
            record(("b", record(("a", ["null", "R"]), name="S"))),
            r"\$.b.a: the schema refers to itself, .* give a schema without that field",
        ),
        ({"type": "fixed", "name": "F", "size": 10**6}, "too many or too wide fields"),
        (7, "7 is no type"),
    ],
)
def test_a_schema_that_cannot_be(schema: Any, told: str) -> None:
    with pytest.raises(InvalidArgumentError, match=told.replace("'", '"')):
        Avro(schema)


def test_a_short_schema_may_mean_many_columns() -> None:
    first = record(("a", "int"), name="R0")
    doubled = [record(("a", f"R{n - 1}"), ("b", f"R{n - 1}"), name=f"R{n}") for n in range(1, 60)]
    with pytest.raises(InvalidArgumentError, match="too many or too wide fields"):
        Avro([first, *doubled])
    listed = [record(("a", f"R{n - 1}"), name=f"R{n}") for n in range(1, 100)]
    with pytest.raises(InvalidArgumentError, match="deeper than 64 levels"):
        Avro([first, *listed])


def test_names_and_defaults_that_a_short_schema_repeats_are_bounded() -> None:
    space = "s" * 10_000
    types = [{"type": "fixed", "name": f"F{number}", "size": 1} for number in range(1_000)]
    fields = [(f"f{number}", each) for number, each in enumerate(types)]
    for schema in (
        record(*fields, namespace=space),
        {**FIXED, "namespace": space, "aliases": [f"A{number}" for number in range(1_000)]},
    ):
        with pytest.raises(InvalidArgumentError, match="the names with their namespaces are too"):
            Avro(schema)
    long = record(("n" * 20_000, "int"), name="Long")
    repeated = [(f"f{number}", "Long") for number in range(1_000)]
    with pytest.raises(InvalidArgumentError, match="too many or too wide fields"):
        Avro(record(("a", long), *repeated))
    text = record(("t", "string", "x" * 20_000), name="Text")
    empty = [(f"f{number}", "Text", {}) for number in range(1_000)]
    reader = record(("a", text, {}), *empty)
    writer = record(("b", "int"))
    decoder = Avro(reader, registry=Registry(s1=writer))
    assert decoded(decoder, framed(1, writer, {"b": 1}))[1] == [
        (0, "schema 1: the schemas are too large")
    ]


def test_the_parts_of_a_schema_are_counted_while_it_is_parsed() -> None:
    for part in ("symbols", "aliases"):
        schema = {"type": "enum", "name": "E", "symbols": ["A"]}
        schema[part] = [f"S{number}" for number in range(100_000)]
        with pytest.raises(InvalidArgumentError, match="has more than 100000 types, symbols and"):
            Avro(schema)
    with pytest.raises(InvalidArgumentError, match="has more than 100000 types, symbols and"):
        Avro(["int"] * 100_001)


def test_an_error_of_a_schema_is_short() -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        Avro("X" * 100_000 + "{")
    assert len(str(caught.value)) < 400
    with pytest.raises(InvalidArgumentError) as caught:
        Avro({"type": "record", "name": "R", "fields": [{"name": "a", "type": "X" * 100_000}]})
    assert len(str(caught.value)) < 400


def test_other_threads_run_while_a_schema_is_parsed() -> None:
    fixed = [{"type": "fixed", "name": f"F{number}", "size": 1} for number in range(4_000)]
    assert native is not None
    text, counted, stop = json.dumps(record(("a", ["null", *fixed]))), [0], threading.Event()

    def count() -> None:
        while not stop.is_set():
            counted[0] += 1
            time.sleep(0)  # it gives back the GIL

    interval, other = sys.getswitchinterval(), threading.Thread(target=count, daemon=True)
    # From here on, a thread has the GIL until it releases it itself.
    sys.setswitchinterval(3_600)
    try:
        other.start()
        found = False
        for _ in range(20):
            before = counted[0]
            native.ColumnDecoder.avro([text], None, 76)
            found = found or counted[0] > before
    finally:
        stop.set()
        sys.setswitchinterval(interval)
    assert found


def test_the_last_entry_of_a_key_counts() -> None:
    schema = {"type": "map", "values": {"type": "map", "values": "long"}}
    values = [
        b"\6\2a\2\2x\2\0\2b\4\2x\4\2x\6\0\2a\4\2x\10\2y\12\0\0",
        b"\2\2a\6\2x\2\2y\4\2x\6\0",  # ends too early
        b"\4\2a\0\2a\2\2z\2\0\0",
        b"\0",
    ]
    rows, [(row, _)] = decoded(Avro(schema), *values)
    assert row == 1
    assert rows == [
        [("b", [("x", 3)]), ("a", [("x", 4), ("y", 5)])],
        None,
        [("a", [("z", 1)])],
        [],
    ]


def test_items_without_bytes_are_bounded_by_what_they_take() -> None:
    empty = record(*((f"f{number}", "null") for number in range(1_000)), name="E")
    for item, most, too_many in (("null", 100_000, 2_000_000), (empty, 100, 2_000)):
        schema = {"type": "array", "items": item}
        value = [None if item == "null" else dict.fromkeys(f"f{each}" for each in range(1_000))]
        column, failures = Avro(schema).decode(pa.array([encoded(schema, value * most)]))
        assert (failures, len(column[0])) == ([], most)
        claim = encoded("long", too_many) + b"\0"
        [row], [(_, told)] = decoded(Avro(schema), claim)
        assert row is None
        assert "the value has too many objects that are null or almost empty" in told
        skipping = Avro(record(("b", "int", 1)), registry=Registry(s1=record(("a", schema))))
        _, [(_, told)] = decoded(skipping, b"\0\0\0\0\1" + encoded("long", 2**60) + b"\0")
        assert "the value has too many objects that are null or almost empty" in told


def test_decimals_of_kafka_connect() -> None:
    schema = logical("bytes", "decimal", precision=64, scale=2)
    narrow = logical("bytes", "decimal", precision=9, scale=2)
    digits = "9" * 36 + ".99"
    fits = [Decimal(digits), Decimal(f"-{digits}")]
    values = [
        encoded("bytes", number.to_bytes(17, "big", signed=True))
        for number in (10**38 - 1, 1 - 10**38, 10**38)
    ]
    decoder = Avro(schema, max_precision=38)
    assert decoder.schema == pa.decimal128(38, 2)
    rows, [(row, told)] = decoded(decoder, *values)
    assert (rows, row) == ([*fits, None], 2)
    assert told == "$: the decimal has more than 38 digits"
    assert Avro(schema).schema == pa.decimal256(64, 2)
    assert Avro(narrow, max_precision=38).schema == pa.decimal128(9, 2)
    with pytest.raises(
        InvalidArgumentError, match=r"\$.f: a decimal with 39 digits after the point"
    ):
        Avro(record(("f", logical("bytes", "decimal", precision=64, scale=39))), max_precision=38)
    with pytest.raises(InvalidArgumentError, match="max_precision must be 38 or 76, got 37"):
        Avro(schema, max_precision=37)  # type: ignore[arg-type]


WIDE = record(*((f"f{number}", "long") for number in range(2_000)), name="Wide")


@pytest.mark.parametrize("item", [WIDE, ["string", WIDE], {"type": "fixed", "size": 16_000}])
def test_nulls_may_not_take_all_memory(item: Any) -> None:
    branches = item if isinstance(item, list) else ["null", {**item, "name": "Wide"}]
    items: Any = [None if "null" in branches else ""] * 10_000
    schema = {"type": "array", "items": branches}
    values = [encoded(schema, items * 4), encoded(schema, items[:500])]
    column, [(row, told)] = Avro(schema).decode(pa.array(values, pa.binary()))
    assert (row, len(column[1])) == (0, 500)
    assert "the value has too many objects that are null or almost empty" in told


def test_defaults_may_not_take_all_memory() -> None:
    writer = {"type": "array", "items": record(("a", "boolean"))}
    item = record(("a", "boolean"), ("b", "string"))
    item["fields"][1]["default"] = "x" * 80_000
    told = resolved(writer, {"type": "array", "items": item}, [{"a": True}] * 1_000)
    assert ".b: the value has too many objects that are null or almost empty" in told


def test_wrong_arguments() -> None:
    for schema in (b'"int"', {"int"}, 1j):
        with pytest.raises(InvalidArgumentError, match="schema must be JSON, or what JSON stands"):
            Avro(schema)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="Null byte"):
        Avro(record(("a\0b", "int")))
    with pytest.raises(InvalidArgumentError, match="a schema, a registry, or both"):
        Avro()
    with pytest.raises(InvalidArgumentError, match=r"registry must have get_schema\(id\)"):
        Avro(registry="http://localhost:8081")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="flatten needs values with fields"):
        Avro("int", flatten=True)


# --- Resolution ----------------------------------------------------------------------------------


def resolved(writer: Any, reader: Any, value: Any) -> Any:
    """Return what a reader sees of a value, or the reason why it sees nothing."""
    decoder = Avro(reader, registry=Registry(s1=writer))
    [row], failures = decoded(decoder, framed(1, writer, value))
    return failures[0][1] if failures else row


ALIASED = record(("x", "int"), name="New")
ALIASED["aliases"] = ["Old"]
ALIASED["fields"][0]["aliases"] = ["y"]
LISTED = {"type": "array", "items": "string"}
REUSED = record(("x", "int", 1), ("a", "int", 2))
REUSED["fields"][0]["aliases"] = ["a"]


@pytest.mark.parametrize(
    ("writer", "reader", "value", "expected"),
    [
        ("int", "long", 7, 7),
        ("int", "float", 7, 7.0),
        ("long", "double", 7, 7.0),
        ("float", "double", 0.5, 0.5),
        ("string", "bytes", "ü", "ü".encode()),
        ("bytes", "string", b"x", "x"),
        ("int", ["null", "long"], 7, 7),
        (["null", "int"], ["null", "long"], None, None),
        (["null", "int"], "long", 7, 7),
        (["int", "string"], ["null", "string", "int"], 7, {"member0": None, "member1": 7}),
        ("float", ["int", "double", "string"], 1.5,
         {"member0": None, "member1": 1.5, "member2": None}),
        ({"type": "array", "items": "int"}, {"type": "array", "items": "double"}, [1], [1.0]),
        ({"type": "map", "values": "int"}, {"type": "map", "values": "long"}, {"k": 1}, [("k", 1)]),
        (record(("y", "int"), name="Old"), ALIASED, {"y": 7}, {"x": 7}),
        (record(("a", "int")), REUSED, {"a": 7}, {"x": 7, "a": 2}),
        (record(("a", "int"), ("x", "int")), REUSED, {"a": 7, "x": 8}, {"x": 8, "a": 7}),
        (
            record(("y", "int"), name="Old"),
            ["null", record(("y", "int"), name="Other"), ALIASED],
            {"y": 7},
            {"member0": None, "member1": {"x": 7}},
        ),
        (
            record(("y", "int"), name="Old"),
            [ALIASED, record(("y", "int"), name="Old")],
            {"y": 7},
            {"member0": None, "member1": {"y": 7}},
        ),
        (record(("a", "int"), ("b", "string")), record(("b", "string"), ("a", "long")),
         {"a": 1, "b": "x"}, {"b": "x", "a": 1}),
        (
            record(
                *(("null", "null"), ("flag", "boolean"), ("i", "int"), ("l", "long")),
                *(("f", "float"), ("d", "double"), ("b", "bytes"), ("s", "string")),
                *(("x", FIXED), ("e", COLOR), ("a", LISTED), ("m", {"type": "map", "values": "R"}),
                  ("u", ["null", "R"]), ("last", "int")),
            ),
            record(("last", "int")),
            {"null": None, "flag": True, "i": 1, "l": 2, "f": 1.0, "d": 2.0, "b": b"b", "s": "s",
             "x": b"xx", "e": "RED", "a": ["p", "q"], "m": {}, "u": None, "last": 7},
            {"last": 7},
        ),
        (
            record(("a", "int")),
            record(
                *(("a", "int"), ("i", "int", 7), ("s", "string", "ü")),
                *(("n", ["null", "int"], None), ("b", "bytes", "\u00ff"), ("x", FIXED, "ab"),
                  ("e", COLOR, "GREEN"), ("l", LISTED, ["p"]),
                  ("m", {"type": "map", "values": "long"}, {"k": 1}),
                  ("r", record(("q", "int", 5), ("p", "boolean"), name="S"), {"p": True}),
                  ("u", ["string", "int"], "z"), ("f", "float", 1), ("d", "double", 0.5)),
            ),
            {"a": 1},
            {"a": 1, "i": 7, "s": "ü", "n": None, "b": b"\xff", "x": b"ab", "e": "GREEN",
             "l": ["p"], "m": [("k", 1)], "r": {"q": 5, "p": True},
             "u": {"member0": "z", "member1": None}, "f": 1.0, "d": 0.5},
        ),
        (COLOR, {**COLOR, "symbols": ["BLACK", "GREEN"], "default": "BLACK"}, "RED", "BLACK"),
        (COLOR, {**COLOR, "symbols": ["BLACK", "GREEN"]}, "GREEN", "GREEN"),
        (
            logical("long", "timestamp-millis"),
            logical("long", "timestamp-micros"),
            TIME,
            TIME,
        ),
        (
            logical("int", "time-millis"),
            logical("long", "time-micros"),
            dt.time(1, 2, 3),
            dt.time(1, 2, 3),
        ),
        (logical("int", "date"), "int", dt.date(1970, 1, 2), 1),
        ("long", logical("long", "timestamp-millis"), 0, dt.datetime(1970, 1, 1, tzinfo=UTC)),
        (
            logical("bytes", "decimal", precision=4, scale=2),
            logical("bytes", "decimal", precision=9, scale=2),
            Decimal("1.25"),
            Decimal("1.25"),
        ),
    ],
)  # fmt: skip
def test_a_value_of_another_schema(writer: Any, reader: Any, value: Any, expected: Any) -> None:
    assert resolved(writer, reader, value) == expected


@pytest.mark.parametrize(
    ("writer", "reader", "value", "reason"),
    [
        ("long", "int", 7, "schema 1: $: the writer has long, which is no int"),
        ("string", "int", "7", "the writer has string, which is no int"),
        ("string", ["null", "int"], "7", "which is no"),
        (["int", "string"], "int", "x", "$: the writer has string, which is no int"),
        (record(("a", "int")), record(("a", "int"), ("b", "int")), {"a": 1},
         "schema 1: $.b: the writer does not have the field, and it has no default"),
        (record(("a", "int")), record(("b", "int", "x")), {"a": 1}, 'default "x" is not of its'),
        (COLOR, {**COLOR, "symbols": ["GREEN"]}, "RED", 'enum lacks the symbol "RED"'),
        (FIXED, {**FIXED, "size": 3}, b"ab", "fixed of 2 bytes, which is no fixed of 3 bytes"),
        (logical("long", "timestamp-micros"), logical("long", "timestamp-millis"), TIME,
         "which is no long (timestamp-millis)"),
        (logical("bytes", "decimal", precision=4, scale=2),
         logical("bytes", "decimal", precision=4, scale=1), Decimal("1.25"), "which is no bytes"),
        (logical("bytes", "decimal", precision=4, scale=2),
         logical("bytes", "decimal", precision=2, scale=2), Decimal("1.25"), "more than 2 digits"),
        (record(("f", "int")), record(("a", "int", 1), ("f", "string")), {"f": 1},
         "schema 1: $.f: the writer has int, which is no string"),
    ],
)  # fmt: skip
def test_a_value_of_a_schema_that_does_not_fit(
    writer: Any, reader: Any, value: Any, reason: str
) -> None:
    assert reason in resolved(writer, reader, value)


def test_a_writer_may_refer_to_itself() -> None:
    tree = record(("n", "int"), ("next", ["null", "R"]), ("last", "int"))
    value: Any = None
    for n in range(10):
        value = {"n": n, "next": value, "last": n}
    assert resolved(tree, record(("last", "int")), value) == {"last": 9}
    deep = b"\0\0\0\0\1" + b"\2\2" * 10_000
    decoder = Avro(record(("last", "int")), registry=Registry(s1=tree))
    assert "deeper than 500 levels" in decoded(decoder, deep)[1][0][1]


def test_schemas_mixed_in_a_batch() -> None:
    old, new = record(("id", "int")), record(("id", "long"), ("name", "string", "?"))
    registry = Registry(s1=old, s2=new, s3="string")
    decoder = Avro(registry=registry)
    assert decoder.schema == pa.null()
    assert decoded(decoder, None) == ([None], [])
    values = [None, framed(2, new, {"id": 1, "name": "x"}), framed(1, old, {"id": 2}),
              framed(3, "string", "x"), framed(2, new, {"id": 3, "name": "y"})]  # fmt: skip
    rows, [(row, reason)] = decoded(decoder, *values)
    assert rows == [None, {"id": 1, "name": "x"}, {"id": 2, "name": "?"}, None,
                    {"id": 3, "name": "y"}]  # fmt: skip
    assert (row, reason) == (3, "schema 3: $: the writer has string, which is no record")
    assert decoded(decoder, *values)[0] == rows
    assert registry.asked == ["s2", "s1", "s3"], "once"
