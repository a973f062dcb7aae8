"""JSON documents become Arrow columns of a schema; what does not fit is null, with the reason."""

from __future__ import annotations

import datetime as dt
import io
import json
import time
from decimal import Decimal
from functools import reduce
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem_kafka.errors import InvalidArgumentError
from tests.machine import slowness

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

from tandem_kafka.tables import Json, Text  # noqa: E402 - it imports pyarrow
from tests.tier import examples, sample  # noqa: E402

UTC = dt.UTC


pytestmark = pytest.mark.usefixtures("native_extension")


def decoded(schema: Any, *documents: bytes | None) -> tuple[list[Any], list[tuple[int, str]]]:
    column, failures = Json(schema).decode(pa.array(documents, pa.binary()))
    column.validate(full=True)
    assert len(column) == len(documents)
    return column.to_pylist(), list(failures)


def value_of(data_type: Any, text: str) -> Any:
    """Return the only field of a document, or the reason why there is none."""
    [row], failures = decoded(pa.schema([("f", data_type)]), f'{{"f":{text}}}'.encode())
    if failures:
        assert row is None
        return failures[0][1]
    return row["f"]


@pytest.mark.parametrize(
    ("data_type", "text", "expected"),
    [
        (pa.bool_(), "true", True),
        (pa.int8(), "-128", -128),
        (pa.int64(), "9223372036854775807", 2**63 - 1),
        (pa.uint64(), "18446744073709551615", 2**64 - 1),
        (pa.int32(), "2.0", 2),
        (pa.int32(), "1e3", 1_000),
        (pa.int64(), "1e16", 10**16),
        (pa.int64(), "-1E18", -(10**18)),
        (pa.int64(), "9007199254740992.0", 2**53),
        (pa.int64(), "9007199254740993.0", 2**53 + 1),
        (pa.uint64(), "1.8446744073709551615e19", 2**64 - 1),
        (pa.timestamp("ms", "UTC"), "1.5e3", dt.datetime(1970, 1, 1, 0, 0, 1, 500_000, UTC)),
        (pa.float32(), "1.00000005960464477540", 1 + 2**-23),
        (pa.float32(), "1.00000005960464477539", 1.0),
        (pa.float32(), "1e-46", 0.0),
        (pa.float32(), "3.4028235e38", 2.0**128 - 2.0**104),
        (pa.float64(), "0.1", 0.1),
        (pa.float64(), "1", 1.0),
        (pa.float64(), "9007199254740993.0", 9007199254740992.0),
        (pa.float64(), "2.2250738585072011e-308", 2.2250738585072011e-308),
        (pa.decimal128(18, 2), "1.25", Decimal("1.25")),
        (pa.decimal128(18, 2), '"1.25"', Decimal("1.25")),
        (pa.decimal128(38, 0), "9" * 38, Decimal("9" * 38)),
        (pa.decimal128(18, 2), "1250e-2", Decimal("12.50")),
        (pa.string(), r'"\u00fc\ud83d\ude00\n"', "ü😀\n"),
        (pa.large_string(), '"x"', "x"),
        (pa.binary(), '"AAE="', b"\0\1"),
        (pa.date32(), '"2026-05-01"', dt.date(2026, 5, 1)),
        (pa.date32(), "1", dt.date(1970, 1, 2)),
        (
            pa.timestamp("ms", "UTC"),
            '"2026-05-01T12:00:00.123+02:00"',
            dt.datetime(2026, 5, 1, 10, 0, 0, 123_000, UTC),
        ),
        (pa.timestamp("s"), '"2026-05-01 12:00:00"', dt.datetime(2026, 5, 1, 12)),  # noqa: DTZ001
        (pa.timestamp("ms", "UTC"), "1500", dt.datetime(1970, 1, 1, 0, 0, 1, 500_000, UTC)),
        (pa.list_(pa.int32()), "[1, null, 3]", [1, None, 3]),
        (pa.list_(pa.int32()), "[]", []),
        (pa.map_(pa.string(), pa.int64()), '{"a":1,"b":null}', [("a", 1), ("b", None)]),
        (pa.struct([("x", pa.int64())]), '{"x":1,"y":[{}]}', {"x": 1}),
        (pa.null(), "null", None),
    ],
)
def test_a_value(data_type: Any, text: str, expected: Any) -> None:
    assert value_of(data_type, text) == expected
    assert value_of(data_type, "null") is None


@pytest.mark.parametrize(
    ("data_type", "text", "reason"),
    [
        (pa.bool_(), "1", "$.f: expected bool, got 1"),
        (pa.int8(), "128", "$.f: 128 is out of the range of int8"),
        (pa.int64(), "9223372036854775808", "out of the range of int64"),
        (pa.int64(), "1e30", "out of the range of int64"),
        (pa.int64(), "1e300", "$.f: 1e300 is no int64"),
        (pa.int64(), "1.00000000000000000000001", "$.f: 1.00000000000000000000001 is no int64"),
        (pa.uint8(), "-1", "-1 is out of the range of uint8"),
        (pa.int64(), "1.5", "$.f: 1.5 is no int64"),
        (pa.int64(), '"1"', 'invalid type: string "1", expected int64'),
        (pa.float32(), "1e39", "$.f: 1e39 is no float32"),
        (pa.float64(), "1e400", "number out of range"),
        (pa.float64(), "NaN", "expected value"),
        (pa.decimal128(18, 2), "0.005", "0.005 is no decimal(18, 2)"),
        (pa.decimal128(4, 2), "100", "100 is no decimal(4, 2)"),
        (pa.decimal128(4, 2), "true", "true is no decimal(4, 2)"),
        (pa.string(), "1", "$.f: expected a string, got 1"),
        (pa.string(), "{}", "invalid type: map, expected a string"),
        (pa.string(), r'"\ud83d"', "unexpected end of hex escape"),
        (pa.binary(), '"?"', "is not base64"),
        (pa.date32(), '"2026-02-30"', "is no date"),
        (pa.timestamp("ns"), '"3000-01-01T00:00:00Z"', "is no timestamp in range"),
        (pa.timestamp("s"), '"2026-05-01T12:00:00.5Z"', "is no timestamp in range, or finer than"),
        (pa.timestamp("ms"), '"1969-12-31T23:59:59.9999"', "finer than its unit"),
        (pa.list_(pa.list_(pa.int8())), "[[1],[2,300]]", "$.f[1][1]: 300 is out of the range"),
        (pa.list_(pa.int8()), "{}", "$.f: invalid type: map, expected an array"),
        (pa.struct([("x", pa.int64())]), '{"x":"y"}', '$.f.x: invalid type: string "y"'),
        (
            pa.struct([("x", pa.int64())]),
            '{"x":1,"x":2}',
            "$.f.x: the field is in the object twice",
        ),
        (
            pa.map_(pa.string(), pa.int64()),
            r'{"x":1,"y":2,"\u0078":3}',
            '$.f: the name "x" is in the object twice',
        ),
    ],
)
def test_a_value_that_does_not_fit(data_type: Any, text: str, reason: str) -> None:
    assert reason in value_of(data_type, text)


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (b"", "EOF"),
        (b" ", "EOF"),
        (b"{", "EOF"),
        (b'{"f":1', "EOF"),
        (b'{"f":1}{"f":2}', "trailing characters"),
        (b'{"f":1},', "trailing characters"),
        (b'{"f":1 "g":2}', "expected `,` or `}`"),
        (b'{"f":1,}', "trailing comma"),
        (b"{'f':1}", "key must be a string"),
        (b'{"f":01}', "invalid number"),
        (b"[1]", "expected an object"),
        (b"1", "expected an object, got 1"),
        (b'{"f":1}\0', "trailing characters"),
        (b'\xef\xbb\xbf\xef\xbb\xbf{"f":1}', "expected value"),
        (b"\0\0\0\0", "4 bytes have no place for a schema id"),
        (b"\1" + bytes(15), "16 bytes have no place for a schema id"),
        (b"\0\0\0\0\7", "EOF"),
        (b'{"g":"\xff"}', "invalid unicode"),
        (b'{"f":1,"h":["\xff"]}', "invalid unicode after 13 bytes"),
    ],
)
def test_a_document_is_checked_whole(document: bytes, reason: str) -> None:
    schema = pa.schema([("f", pa.int64()), ("g", pa.string())])
    rows, [(row, told)] = decoded(schema, b'{"f":1}', document, b'{"f":2}')
    assert row == 1
    assert reason in told
    assert rows == [{"f": 1, "g": None}, None, {"f": 2, "g": None}]


def test_deep_documents() -> None:
    depth = 100_000
    deep = b"[" * depth + b"]" * depth
    schema = pa.schema([("f", pa.list_(pa.int8()))])
    rows, failures = decoded(schema, b'{"g":%s,"f":[1]}' % deep, b'{"f":%s}' % deep, deep)
    assert rows == [{"f": [1]}, None, None]
    assert [row for row, _ in failures] == [1, 2]
    assert Json.infer().decode(pa.array([deep, b'{"f":1}']))[0].to_pylist() == [None, {"f": 1}]


def test_null_documents_and_tombstones_are_null() -> None:
    assert decoded(pa.schema([("f", pa.int64())]), b"null", None, b' {"f":1} ') == (
        [None, None, {"f": 1}],
        [],
    )


def test_a_field_that_must_be_there() -> None:
    schema = pa.schema([pa.field("a", pa.int64(), nullable=False), ("b", pa.string())])
    rows, failures = decoded(schema, b'{"b":"x"}', b'{"a":null}', b'{"a":1}', None)
    assert rows == [None, None, {"a": 1, "b": None}, None]
    assert [reason.split(" at ")[0] for _, reason in failures] == [
        "$.a: the field is missing",
        "$.a: null, but the schema does not allow it",
    ]


def test_fields_are_nullable_as_tombstones_have_none() -> None:
    inner = pa.struct([pa.field("x", pa.int64(), nullable=False)])
    fields = [
        pa.field("s", inner, nullable=False),
        pa.field("l", pa.list_(pa.field("item", inner, nullable=False)), nullable=False),
        pa.field("m", pa.map_(pa.string(), pa.field("value", inner, nullable=False))),
    ]
    decoder = Json(pa.struct(fields), errors="null")
    document = b'{"s":{"x":1},"l":[{"x":2}],"m":{"k":{"x":3}}}'
    column, _ = decoder.decode(pa.array([document, None, b"{}"]))
    assert decoder.schema == column.type == pa.struct([
        ("s", pa.struct([("x", pa.int64())])),
        ("l", pa.list_(pa.field("item", pa.struct([("x", pa.int64())]), nullable=False))),
        ("m", pa.map_(pa.string(), pa.field("value", pa.struct([("x", pa.int64())]), False))),
    ])  # fmt: skip
    file = io.BytesIO()
    pq.write_table(pa.table({"value": column}), file)
    assert pq.read_table(file)["value"].to_pylist() == column.to_pylist()


def test_what_was_read_of_a_wrong_document_is_gone() -> None:
    item = pa.struct([pa.field("x", pa.int64(), nullable=False), ("y", pa.list_(pa.string()))])
    schema = pa.schema([("a", pa.list_(pa.field("item", item, nullable=False))), ("b", pa.int64())])
    good = b'{"a":[{"x":1,"y":["p","q"]}],"b":2}'
    bad = b'{"a":[{"x":1,"y":["p"]},{"x":2,"y":["q",3]}],"b":2}'
    column, failures = Json(schema).decode(pa.array([good, bad, good, bad]))
    column.validate(full=True)
    assert [row for row, _ in failures] == [1, 3]
    assert failures[0][1].startswith("$.a[1].y[1]: expected a string, got 3")
    assert column.to_pylist()[2] == json.loads(good)
    assert len(column.field("a").values) == 2


def test_a_type_that_is_no_struct() -> None:
    assert decoded(pa.list_(pa.int64()), b"[1]", b"null") == ([[1], None], [])
    assert decoded(pa.int64(), b"7", b"x")[0] == [7, None]


def nested(depth: int) -> Any:
    """Return int64 in so many structs."""
    return reduce(lambda inner, _: pa.struct([("f", inner)]), range(depth), pa.int64())


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        (pa.schema([("t", pa.list_(pa.time64("us")))]), r"\$.t\[\]: JSON cannot be read as time64"),
        (pa.schema([("m", pa.map_(pa.int64(), pa.int64()))]), r"\$.m: the keys of a map must be"),
        (pa.schema([("f", pa.int64()), ("f", pa.string())]), r"the field .f is twice"),
        (nested(64), "types are nested more than 64 deep"),
        (nested(10_000), "types are nested more than 64 deep"),
        (pa.list_(pa.int64()), "flatten needs values with fields, and this schema is list"),
    ],
)
def test_a_schema_that_cannot_be(schema: Any, told: str) -> None:
    with pytest.raises(InvalidArgumentError, match=told):
        Json(schema, flatten=True)


def test_messages_are_short() -> None:
    _, [(_, reason)] = decoded(pa.schema([("f", pa.int64())]), b'{"f":"%s"}' % (b"x" * 10**6))
    assert len(reason) < 400


def test_the_schema_of_the_first_documents() -> None:
    documents = [b'{"a":1,"b":[1,2.5],"c":null}', None, b"{", b'{"c":{"x":true},"d":"t"}']
    decoder = Json.infer()
    assert decoder.schema == pa.null()
    assert decoder.decode(pa.array([None, None], pa.binary()))[0].type == pa.null()
    column, failures = decoder.decode(pa.array(documents))
    assert (
        column.type
        == decoder.schema
        == pa.struct(
            [
                ("a", pa.int64()),
                ("b", pa.list_(pa.float64())),
                ("c", pa.struct([("x", pa.bool_())])),
                ("d", pa.string()),
            ]
        )
    )
    assert [row for row, _ in failures] == [2]
    assert decoder.decode(pa.array([b'{"e":1}']))[0].type == column.type, "it stays"
    one = Json.infer(samples=1)
    assert one.decode(pa.array(documents))[0].type.num_fields == 3
    with pytest.raises(InvalidArgumentError, match=r"\$.a is both int64 and a string: give"):
        Json.infer().decode(pa.array([b'{"a":1}', b'{"a":"x"}']))
    with pytest.raises(InvalidArgumentError, match="samples must be a positive int, got 0"):
        Json.infer(0)


@pytest.mark.parametrize(
    ("documents", "expected"),
    [
        (["18446744073709551615", "9223372036854775809", "7"], pa.uint64()),
        (["-9223372036854775808", "9223372036854775807"], pa.int64()),
        (["9007199254740992", "1.5", "-9007199254740992"], pa.float64()),
        (
            [r'{"f":1e20,"g":"\",100000000000000000000,\\"}', '{"f":1.5,"g":""}'],
            pa.struct([("f", pa.float64()), ("g", pa.string())]),
        ),
    ],
)
def test_an_inferred_type_has_all_digits(documents: list[str], expected: Any) -> None:
    column, failures = Json.infer().decode(pa.array(documents))
    assert (column.type, failures) == (expected, [])
    assert column.to_pylist() == [json.loads(each) for each in documents]


@pytest.mark.parametrize(
    ("documents", "told"),
    [
        (["9007199254740993", "1.5"], "has fractions, and integers beyond 2^53"),
        (["1.5", "-9007199254740993"], "has fractions, and integers beyond 2^53"),
        (["9223372036854775808", "-1"], "has negative integers, and integers of 2^63 or more"),
        (["18446744073709551616"], "has integers outside int64 and uint64"),
        (["-9223372036854775809"], "has integers outside int64 and uint64"),
        (["[1e20, 7, 100000000000000000000]"], "has integers outside int64 and uint64"),
    ],
)
def test_no_digit_is_lost_to_an_inferred_type(documents: list[str], told: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        Json.infer().decode(pa.array([f'{{"f":{each}}}' for each in documents]))
    assert f"{told}: give a schema" in str(caught.value)


def test_a_later_document_loses_no_digit_to_an_inferred_type() -> None:
    decoder = Json.infer()
    decoder.decode(pa.array(["1.5"]))
    column, [(row, told)] = decoder.decode(pa.array(["9007199254740993", "9007199254740992"]))
    assert (column.to_pylist(), row) == ([None, 2.0**53], 0)
    assert "9007199254740993 is an integer beyond 2^53 among fractions: give a schema" in told


@pytest.mark.parametrize(
    "integer",
    ["9007199254740994", "9223372036854775808", "18446744073709551616", "-9223372036854775809",
     "100000000000000000001", "-" + "9" * 40],
)  # fmt: skip
@pytest.mark.parametrize("shape", ["{}", '{{"f":{}}}', "[1.5,{}]"])
def test_an_integer_of_any_size_loses_no_digit_to_an_inferred_float(
    shape: str, integer: str
) -> None:
    """From 2^64 on, and below -2^63, it was read as a float, and rounded."""
    decoder = Json.infer()
    decoder.decode(pa.array([shape.format("1.5")]))
    floats = [integer + ".0", integer + "e0", "-1.5e300", "-0", "0.1"]
    told = [shape.format(each) for each in [integer, *floats]]
    column, [(row, why)] = decoder.decode(pa.array(told))
    assert row == 0
    assert f"{integer} is an integer beyond 2^53 among fractions: give a schema" in why
    assert column.to_pylist() == [None, *map(json.loads, told[1:])]
    schema = Json(column.type)
    assert schema.decode(pa.array(told))[0].to_pylist()[0] == json.loads(shape.format(floats[0]))


def test_the_id_of_a_schema_and_a_byte_order_mark_may_come_first() -> None:
    documents = [
        b'{"f":1}',
        b'\0\0\0\0\7{"f":2}',
        b"\1" + bytes(range(16)) + b'{"f":3}',
        b'\xef\xbb\xbf{"f":4}',
        b'\0\0\0\0\7\xef\xbb\xbf{"f":5}',
    ]
    expected = [{"f": number} for number in range(1, 6)]
    assert decoded(pa.schema([("f", pa.int64())]), *documents) == (expected, [])
    column, failures = Json.infer().decode(pa.array(documents))
    assert (column.to_pylist(), failures) == (expected, [])


@pytest.mark.parametrize("document", ['{"a":1} x', '["\\ud800"]', "[1e999]", '{"a":+1}'])
def test_a_document_that_tells_no_schema_is_no_json(document: str) -> None:
    _, [(_, told)] = Json.infer().decode(pa.array([document]))
    assert "line 1" in told
    assert "expected null" not in told


@pytest.mark.parametrize(
    "text",
    [
        "2026-05-01T12:00Z",
        "2026-05-01 12:00",
        "2026-05-01t12:00:00z",
        "2026-05-01T14:00:00+0200",
        "2026-05-01T14:00:00+02",
        "2026-05-01T07:30:00.000-04:30",
        "2026-05-01T12:00:00,000Z",
        "20260501T120000Z",
        "20260501T1200Z",
        "20260501T140000.000+0200",
    ],
)
def test_times_in_iso_8601(text: str) -> None:
    expected = dt.datetime(2026, 5, 1, 12, tzinfo=UTC)
    assert value_of(pa.timestamp("us", "UTC"), f'"{text}"') == expected
    assert value_of(pa.date32(), '"20260501"') == dt.date(2026, 5, 1)


@pytest.mark.parametrize(
    "text",
    ["2026-05-01T12:00,5Z", "2026-05-01T12Z", "2026-05-01T12:00+", "2026-05-01T12:00+2", "T12:00Z",
     "202605-01T12:00Z", "2026-05-01T1200000Z", "2026-05-01T12:00:00+1:00", "2026-05-01T12:00Zz",
     "2026-05-01T25:00Z", "20260230T120000Z", "2026-05-01T12:00:00.Z", "é026-05-01T12:00Z"],
)  # fmt: skip
def test_what_is_no_time_in_iso_8601(text: str) -> None:
    assert "is no timestamp" in value_of(pa.timestamp("us", "UTC"), f'"{text}"')


@pytest.mark.parametrize("document", [b"{", b"null"])
def test_what_tells_no_schema_leaves_it_open(document: bytes) -> None:
    decoder = Json.infer()
    assert decoder.decode(pa.array([document]))[0].to_pylist() == [None]
    assert decoder.decode(pa.array([b'{"a":1}', b'{"a":2}'])) == (
        pa.array([{"a": 1}, {"a": 2}]),
        [],
    )


@pytest.mark.parametrize(
    ("document", "told"),
    [
        (b'{"a":{"\\u0000b":1}}', r"\$.a.\x00b has U\+0000 in its name: give a schema"),
        (b'{"a":' * 64 + b"1" + b"}" * 64, r"\$(.a){64} is nested more than 64 deep"),
        (b"[" * 64 + b"]" * 64, r"\$(\[\]){63} is nested more than 64 deep"),
        (
            json.dumps([{f"f{number}": {"a": 1} for number in range(5_001)}]).encode(),
            r"\$\[\].f5000 has more than 10000 fields: give a schema",
        ),
    ],
)
def test_a_schema_that_cannot_be_inferred(document: bytes, told: str) -> None:
    with pytest.raises(InvalidArgumentError, match=told):
        Json.infer().decode(pa.array([document]))


def test_the_deepest_schema_is_inferred() -> None:
    column, _ = Json.infer().decode(pa.array([b'{"f":' * 63 + b"1" + b"}" * 63]))
    assert column.type == nested(63)


def many_names() -> float:
    """Decode documents with many names, once with a schema of them; return the CPU time."""
    names = [f"f{number}" for number in range(5_000)]
    backwards = json.dumps(dict.fromkeys(reversed(names), 1)).encode()
    unknown = json.dumps({f"g{name}": 1 for name in names}).encode()
    schema = pa.schema([(name, pa.int8()) for name in names])
    documents = pa.array([backwards, unknown] * 10)
    others = pa.array([json.dumps({f"{n}{name}": 1 for name in names[:250]}) for n in range(40)])
    begun = time.process_time()
    column, failures = Json(schema).decode(documents)
    inferred, _ = Json.infer().decode(others)
    used_s = time.process_time() - begun
    assert (column.field("f0")[:2].to_pylist(), failures) == ([1, None], [])
    assert inferred.type.num_fields == 10_000
    return used_s


def test_many_names() -> None:
    many_names()


@pytest.mark.full("it measures CPU time")
def test_many_names_take_no_longer_each() -> None:
    assert many_names() < 0.5 * slowness(), "seconds with a search for each name"


def test_an_array_is_imported_once() -> None:
    class Exporter:
        capsules = pa.array([b"1"]).__arrow_c_array__()

        def __arrow_c_array__(self) -> Any:
            return self.capsules

    exporter: Any = Exporter()
    assert Text().decode(exporter)[0].to_pylist() == ["1"]
    with pytest.raises(ValueError, match="the array has been imported before"):
        Text().decode(exporter)


@pytest.mark.parametrize("item", sample([b"{}", b"null", b'{"f1": null}'], 1))
def test_empty_objects_may_not_take_all_memory(item: bytes) -> None:
    wide = pa.struct([(f"f{number}", pa.int64()) for number in range(2_000)])
    documents = [b"[" + b",".join([item] * count) + b"]" for count in (100_000, 500)]
    column, [(row, told)] = Json(pa.list_(wide)).decode(pa.array(documents))
    assert (row, len(column[1])) == (0, 500)
    assert "the value has too many objects that are null or almost empty" in told


def test_text() -> None:
    column, failures = Text().decode(pa.array([b"\xc3\xbc", None, b"a\xff", b""]))
    assert column.equals(pa.array(["ü", None, None, ""]))
    assert [row for row, _ in failures] == [2]


@pytest.mark.parametrize("schema", ["x", None, {"a": pa.int64()}, pa.int64])
def test_a_schema_is_one_of_arrow(schema: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"schema must be a pyarrow\.Schema .*, got"):
        Json(schema)


def test_wrong_arguments() -> None:
    with pytest.raises(InvalidArgumentError, match="errors must be one of raise, null, drop, got"):
        Text(errors="ignore")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a column of type binary or string is needed, got Int64"):
        Text().decode(pa.array([1]))


@pytest.mark.parametrize(
    "data_type", [pa.binary(), pa.large_binary(), pa.binary_view(), pa.string(), pa.large_string()]
)
def test_columns_of_every_kind(data_type: Any) -> None:
    column = pa.array(["skipped", "1", None, "2" * 18], data_type)[1:]
    assert Json(pa.int64()).decode(column)[0].to_pylist() == [1, None, int("2" * 18)]


def test_many_documents_on_several_threads() -> None:
    documents = [b'{"f":%d,"s":["%s"]}' % (n, b"x" * 100) for n in range(50_000)]
    documents[40_000] = b"{"
    schema = pa.schema([("f", pa.int64()), ("s", pa.list_(pa.string()))])
    column, failures = Json(schema).decode(pa.array(documents))
    column.validate(full=True)
    assert [row for row, _ in failures] == [40_000]
    fields = column.field("f").to_pylist()
    assert [fields[n] for n in range(50_000) if n != 40_000] == [
        n for n in range(50_000) if n != 40_000
    ]


TEXT = st.text(st.characters(exclude_categories=["Cs"]))
#: The names of fields cross to Rust as C strings.
NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
SCALARS: list[tuple[Any, Any]] = [
    (pa.bool_(), st.booleans()),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.float64(), st.floats(allow_nan=False, allow_infinity=False)),
    (pa.string(), TEXT),
]


def typed() -> Any:
    """Types with values of them."""
    leaf = st.sampled_from(SCALARS)
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            inner.map(lambda each: (pa.list_(each[0]), st.lists(st.none() | each[1], max_size=3))),
            st.dictionaries(NAMES, inner, max_size=3).map(
                lambda fields: (
                    pa.struct([(name, kind) for name, (kind, _) in fields.items()]),
                    st.fixed_dictionaries(
                        {name: st.none() | value for name, (_, value) in fields.items()}
                    ),
                )
            ),
        ),
        max_leaves=5,
    )


@settings(max_examples=examples(200))
@given(st.data())
def test_it_returns_what_json_loads_returns(data: st.DataObject) -> None:
    data_type, values = data.draw(typed())
    rows = data.draw(st.lists(st.none() | values, max_size=4))
    escaped = data.draw(st.booleans())
    documents = [json.dumps(row, ensure_ascii=escaped).encode() for row in rows]
    assert decoded(data_type, *documents) == (rows, [])


FUZZED = pa.schema(
    [
        ("a", pa.list_(pa.struct([pa.field("x", pa.int8(), nullable=False), ("y", pa.string())]))),
        ("b", pa.map_(pa.string(), pa.decimal128(5, 2))),
        ("c", pa.timestamp("us")),
    ]
)
_PIECES = [
    *(b'{"a":[', b'{"x":', b'"y":"', b'"b":{"', b'"c":', b'"', b"}", b"]", b",", b":", b"null"),
    *(b"1", b"1e9", b"-", b"0.25", b"2026-05-01", b"\\u00", b"\xff", b" ", b"true"),
]


@settings(max_examples=examples(500))
@given(st.lists(st.lists(st.sampled_from(_PIECES) | st.binary(max_size=3)).map(b"".join)))
def test_garbage_is_null_with_a_reason(documents: list[bytes]) -> None:
    rows, failures = decoded(FUZZED, *documents)
    failed = {row for row, _ in failures}
    for number, document in enumerate(documents):
        try:
            expected = json.loads(document)
        except (ValueError, RecursionError):
            assert number in failed, document
        else:
            assert (rows[number] is None) == (expected is None or number in failed)
