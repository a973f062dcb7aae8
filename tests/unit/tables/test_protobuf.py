"""Protobuf becomes Arrow columns as google.protobuf reads it; garbage is null with a reason."""

from __future__ import annotations

import base64
import datetime as dt
import json
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem_kafka.errors import InvalidArgumentError
from tests.implementations import require_implementation

pa = pytest.importorskip("pyarrow")
pytest.importorskip("google.protobuf")

from google.protobuf import (  # noqa: E402
    any_pb2,
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    json_format,
    message_factory,
    struct_pb2,
    text_format,
    timestamp_pb2,
    wrappers_pb2,
)
from google.protobuf.message import DecodeError  # noqa: E402
from google.protobuf.unknown_fields import UnknownFieldSet  # noqa: E402

from tandem_kafka.tables import Protobuf  # noqa: E402 - it imports pyarrow
from tests.tier import examples  # noqa: E402
from tests.unit.tables.avro_values import status  # noqa: E402

UTC = dt.UTC
EPOCH = dt.datetime(1970, 1, 1, tzinfo=UTC)
OPTIONAL, REQUIRED, REPEATED = "LABEL_OPTIONAL", "LABEL_REQUIRED", "LABEL_REPEATED"
SCALARS = {
    "double": pa.float64(),
    "float": pa.float32(),
    "int64": pa.int64(),
    "uint64": pa.uint64(),
    "int32": pa.int32(),
    "fixed64": pa.uint64(),
    "fixed32": pa.uint32(),
    "bool": pa.bool_(),
    "string": pa.string(),
    "bytes": pa.binary(),
    "uint32": pa.uint32(),
    "sfixed32": pa.int32(),
    "sfixed64": pa.int64(),
    "sint32": pa.int32(),
    "sint64": pa.int64(),
}


@pytest.fixture(autouse=True)
def _native() -> None:
    require_implementation("native")


def field(number: int, name: str, kind: str, label: str = OPTIONAL, more: str = "") -> str:
    """Return the text of a field; a kind with a dot is a message, or an enum with `enum`."""
    typed = f"type: TYPE_{kind.upper()}"
    if "." in kind:
        what, _, named = kind.rpartition(" ")
        typed = f'type: TYPE_{(what or "message").upper()} type_name: "{named}"'
    return f'field {{ name: "{name}" number: {number} label: {label} {typed} {more} }}'


def entry(name: str, key: str, value: str) -> str:
    fields = field(1, "key", key) + field(2, "value", value)
    return f'nested_type {{ name: "{name}" {fields} options {{ map_entry: true }} }}'


COLOR = """enum_type {
    name: "Color"
    value { name: "RED" number: 0 }
    value { name: "LOW" number: -7 }
    value { name: "FAR" number: 900 }
    value { name: "DARK" number: 900 }
    options { allow_alias: true }
}"""
COLOR2 = COLOR.replace("0 }", "1 }", 1).replace("LOW", "TWO").replace("-7", "2")
WRAPPED = ["Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes"]


def _three() -> str:
    inner = field(1, "a", "int32") + field(2, "b", "string", REPEATED)
    inner += field(3, "at", ".google.protobuf.Timestamp") + field(4, "low", ".t.Low")
    low = field(1, "x", "sint64") + field(2, "m", ".t.Low.MEntry", REPEATED)
    low += entry("MEntry", "int32", "bool")
    top = "".join(field(n, f"s_{kind}", kind) for n, kind in enumerate(SCALARS, 1))
    top += "".join(field(n, f"r_{kind}", kind, REPEATED) for n, kind in enumerate(SCALARS, 21))
    for n, kind in enumerate(SCALARS):
        optional = f"proto3_optional: true oneof_index: {n + 1}"
        top += field(n + 41, f"o_{kind}", kind, more=optional)
    top += field(61, "color", "enum .t.Color") + field(62, "colors", "enum .t.Color", REPEATED)
    top += field(63, "inner", ".t.Inner") + field(64, "inners", ".t.Inner", REPEATED)
    top += field(65, "at", ".google.protobuf.Timestamp")
    top += field(66, "ats", ".google.protobuf.Timestamp", REPEATED)
    top += field(67, "took", ".google.protobuf.Duration")
    top += field(68, "m1", ".t.Top.M1Entry", REPEATED) + entry("M1Entry", "string", ".t.Inner")
    top += field(69, "m2", ".t.Top.M2Entry", REPEATED) + entry("M2Entry", "sint32", "enum .t.Color")
    top += field(70, "m3", ".t.Top.M3Entry", REPEATED)
    top += entry("M3Entry", "bool", ".google.protobuf.Timestamp")
    top += field(71, "c_text", "string", more="oneof_index: 0")
    top += field(72, "c_inner", ".t.Inner", more="oneof_index: 0")
    top += field(73, "c_color", "enum .t.Color", more="oneof_index: 0")
    for n, kind in enumerate(WRAPPED, 74):
        top += field(n, f"w_{kind}", f".google.protobuf.{kind}Value")
    top += field(100, "any", ".google.protobuf.Any") + field(2**29 - 1, "last", "int32")
    top += field(101, "ws", ".google.protobuf.Int64Value", REPEATED)
    top += 'oneof_decl { name: "c" }'
    top += "".join(f'oneof_decl {{ name: "_o_{kind}" }}' for kind in SCALARS)
    messages = {"Inner": inner, "Low": low, "Top": top}
    text = "".join(f'message_type {{ name: "{name}" {each} }}' for name, each in messages.items())
    needed = ("timestamp", "duration", "wrappers", "any")
    imports = "".join(f'dependency: "google/protobuf/{name}.proto"' for name in needed)
    return f'name: "three.proto" package: "t" syntax: "proto3" {imports} {COLOR} {text}'


def _two() -> str:
    inner = field(1, "a", "int32") + field(2, "need", "int32", OPTIONAL)
    top = field(1, "id", "int64", REQUIRED) + field(2, "plain", "int64")
    defaults = {
        "double": "-inf",
        "float": "1.5",
        "int64": "-5",
        "uint64": "18446744073709551615",
        "int32": "-1",
        "fixed64": "7",
        "fixed32": "8",
        "bool": "true",
        "string": "h\u00fc",
        "bytes": r"\\000\\377a\\n\\x4a\\\\",
        "uint32": "4294967295",
        "sfixed32": "-9",
        "sfixed64": "-10",
        "sint32": "-11",
        "sint64": "-12",
    }
    for n, (kind, default) in enumerate(defaults.items(), 3):
        top += field(n, f"d_{kind}", kind, more=f'default_value: "{default}"')
    top += field(30, "color", "enum .p.Color", more='default_value: "TWO"')
    top += field(31, "bare", "enum .p.Color")
    top += field(32, "packed", "sint32", REPEATED, "options { packed: true }")
    top += field(33, "group", "group .p.Top.Group")
    top += field(34, "groups", "group .p.Top.Group", REPEATED)
    top += f'nested_type {{ name: "Group" {inner} }} extension_range {{ start: 200 end: 300 }}'
    return f'name: "two.proto" package: "p" {COLOR2} message_type {{ name: "Top" {top} }}'


def file_set(*texts: str) -> Any:
    whole = descriptor_pb2.FileDescriptorSet()
    for module in (timestamp_pb2, duration_pb2, wrappers_pb2, any_pb2, struct_pb2):
        module.DESCRIPTOR.CopyToProto(whole.file.add())
    for text in texts:
        text_format.Parse(text, whole.file.add())
    return whole


SET = file_set(_three(), _two())


def message_class(name: str, files: Any = SET) -> Any:
    pool = descriptor_pool.DescriptorPool()
    for each in files.file:
        pool.Add(each)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def small(message: str, syntax: str = 'syntax: "proto3"', more: str = "") -> Any:
    """Return a file whose message s.M has these fields."""
    head = f'name: "s.proto" package: "s" {syntax} dependency: "google/protobuf/struct.proto"'
    return file_set(f'{head} {more} message_type {{ name: "M" {message} }}')


Three, Two = message_class("t.Top"), message_class("p.Top")


def decoded(decoder: Protobuf, *values: bytes | None) -> tuple[list[Any], list[tuple[int, str]]]:
    column, failures = decoder.decode(pa.array(values, pa.binary()))
    column.validate(full=True)
    assert len(column) == len(values)
    return column.to_pylist(), list(failures)


def plain(message: Any) -> dict[str, Any]:
    """Return what google.protobuf has read as our rows."""
    return {each.name: _member(message, each) for each in message.DESCRIPTOR.fields}


def _member(message: Any, each: Any) -> Any:
    value = getattr(message, each.name)
    if each.message_type is not None and each.message_type.GetOptions().map_entry:
        kind = each.message_type.fields_by_name["value"]
        return sorted(((key, _one(value[key], kind)) for key in value), key=repr)
    if each.is_repeated:
        return [_one(item, each) for item in value]
    if each.has_presence and not message.HasField(each.name) and not each.has_default_value:
        return None
    return _one(value, each)


def _one(value: Any, each: Any) -> Any:
    if each.enum_type is not None:
        known = each.enum_type.values_by_number.get(value)
        symbols = [symbol.name for symbol in each.enum_type.values if symbol.number == value]
        return symbols[0] if known else str(value)
    if each.message_type is None:
        return value
    name = each.message_type.full_name.removeprefix("google.protobuf.")
    if name == "Timestamp":
        return EPOCH + dt.timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
    if name == "Duration":
        micros = abs(value.nanos) // 1000 * (1 if value.nanos > 0 else -1)
        return dt.timedelta(seconds=value.seconds, microseconds=micros)
    return value.value if name.endswith("Value") else plain(value)


def same(ours: Any) -> Any:
    """Return one of our rows with the entries of maps in order."""
    if isinstance(ours, dt.datetime):
        return ours.astimezone(UTC)
    if isinstance(ours, dict):
        return {key: same(each) for key, each in ours.items()}
    if isinstance(ours, list) and ours and isinstance(ours[0], tuple):
        return sorted(((key, same(each)) for key, each in ours), key=repr)
    return [same(each) for each in ours] if isinstance(ours, list) else ours


def check(kind: Any, *values: bytes) -> None:
    rows, failures = decoded(Protobuf(kind), *values)
    assert not failures
    for row, value in zip(rows, values, strict=True):
        assert repr(same(row)) == repr(plain(kind.FromString(value)))


def test_the_types_of_fields() -> None:
    found = {each.name: each for each in Protobuf(Three).schema}
    for kind, arrow in SCALARS.items():
        assert found[f"s_{kind}"] == pa.field(f"s_{kind}", arrow)
        assert found[f"o_{kind}"] == pa.field(f"o_{kind}", arrow)
        item = pa.field("item", arrow, nullable=False)
        assert found[f"r_{kind}"] == pa.field(f"r_{kind}", pa.list_(item))
    assert found["color"] == pa.field("color", pa.string())
    assert found["at"].type == pa.timestamp("us", "UTC")
    assert found["took"].type == pa.duration("us")
    assert found["m2"].type == pa.map_(pa.int32(), pa.field("value", pa.string(), nullable=False))
    assert found["w_UInt32"] == pa.field("w_UInt32", pa.uint32())
    assert found["any"].type.names == ["type_url", "value"]


def test_descriptors_are_classes_or_bytes() -> None:
    value = Three(s_int32=7).SerializeToString()
    makers = (Protobuf(Three), Protobuf(Three.DESCRIPTOR),
              Protobuf(SET.SerializeToString(), message="t.Top"))  # fmt: skip
    for made in makers:
        assert decoded(made, value, None)[0][0]["s_int32"] == 7
    assert Protobuf(Three, flatten=True).flatten


def test_nothing_is_all_defaults() -> None:
    check(Three, b"")
    check(Two, b"\x08\0")
    [row], _ = decoded(Protobuf(Two), b"\x08\0")
    assert row["d_bytes"] == b"\0\xffa\nJ\\"
    assert (row["plain"], row["bare"], row["color"]) == (None, None, "TWO")


def test_the_last_value_counts_and_messages_merge() -> None:
    one, two = Three(), Three()
    one.inner.a, two.inner.a = 1, 2
    one.inner.b[:], two.inner.b[:] = ["x"], ["y"]
    one.inner.low.x, one.inner.at.seconds, two.inner.at.nanos = 5, 10, 7_000
    one.inner.low.m[1], two.inner.low.m[1] = True, False
    one.w_Int64.value, one.s_string, two.s_string = 5, "old", "new"
    two.w_Int64.SetInParent()
    one.m1["k"].a, two.m1["k"].b[:] = 1, ["only"]
    first, second = one.SerializeToString(), two.SerializeToString()
    check(Three, first + second, second + first, first * 3, b"")


def test_the_last_of_a_oneof_counts() -> None:
    text, inner = Three(c_text="x").SerializeToString(), Three(c_inner={"a": 1, "b": ["z"]})
    whole = inner.SerializeToString()
    color = Three(c_color=900).SerializeToString()
    check(Three, text + whole, whole + text, whole + text + whole, whole + whole, color + text)
    [row], _ = decoded(Protobuf(Three), whole + color)
    assert (row["c_text"], row["c_inner"], row["c_color"]) == (None, None, "FAR")


def test_packed_and_not_packed() -> None:
    packed, single = b"\xca\1\2\1\2", b"\xc8\1\3"  # r_int32
    assert Three.FromString(packed).r_int32 == [1, 2]
    check(Three, packed + single + packed, single, packed + b"\xca\1\0")
    check(Two, b"\x08\1\x80\2\3\x82\2\2\1\2")


def test_groups_and_what_is_unknown() -> None:
    two = Two(id=1)
    two.group.a = 5
    two.groups.add().a = 6
    value = two.SerializeToString()
    unknown = b"\x8b\x32\x08\1\x13\x14\x8c\x32" + b"\x90\x4e\1" + b"\x9a\x4e\1x" + b"\x9d\x4e1234"
    check(Two, value, unknown + value + unknown, value + value)
    check(Three, unknown)


def test_editions() -> None:
    fields = field(1, "a", "int32") + field(2, "b", "int32", more="options { features { "
        "field_presence: IMPLICIT } }") + field(3, "c", ".s.M.C") + field(4, "d", ".s.M.C",
        more="options { features { message_encoding: DELIMITED } }")  # fmt: skip
    fields += f'nested_type {{ name: "C" {field(1, "x", "int32")} }}'
    kind = message_class("s.M", small(fields, 'syntax: "editions" edition: EDITION_2023'))
    value = kind(a=0, b=1, c={"x": 1}, d={"x": 2}).SerializeToString()
    assert b"\x23" in value, "a group"
    check(kind, b"", value)


def test_a_symbol_that_is_unknown_is_its_number() -> None:
    value = Three(color=5, colors=[0, 5, -7]).SerializeToString()
    [row], failures = decoded(Protobuf(Three), value)
    assert not failures
    assert (row["color"], row["colors"]) == ("5", ["RED", "5", "LOW"])


CLOSED = """enum_type { name: "C" value { name: "A" number: 1 } FEATURES }
    message_type { name: "M" oneof_decl { name: "one" } FIELDS }"""
MEMBERS = field(1, "text", "string", more="oneof_index: 0")
MEMBERS += field(2, "choice", "enum .s.C", more="oneof_index: 0") + field(3, "c", "enum .s.C")


@pytest.mark.parametrize(
    ("head", "features"),
    [
        ("", ""),
        ("edition: EDITION_2023 options { features { enum_type: CLOSED } }", ""),
        ("edition: EDITION_2023", "options { features { enum_type: CLOSED } }"),
    ],
)
def test_a_symbol_that_a_closed_enum_lacks_replaces_nothing(head: str, features: str) -> None:
    syntax = 'syntax: "editions"' if head else ""
    text = CLOSED.replace("FEATURES", features).replace("FIELDS", MEMBERS)
    kind = message_class("s.M", file_set(f'name: "c.proto" package: "s" {syntax} {head} {text}'))
    known, unknown = b"\x0a\1x\x18\1", b"\x10\5\x18\5"
    check(kind, unknown, known + unknown, unknown + known, b"\x10\1" + unknown, known + b"\x10\1")
    assert decoded(Protobuf(kind), known + unknown)[0] == [{"text": "x", "choice": None, "c": "A"}]


LISTS = field(1, "r", "enum .s.C", REPEATED) + field(2, "p", "enum .s.C", REPEATED)
LISTS += field(3, "m", ".s.M.MEntry", REPEATED) + entry("MEntry", "string", "enum .s.C")


def test_lists_and_maps_leave_out_what_a_closed_enum_lacks() -> None:
    first = 'enum_type { name: "C" value { name: "A" number: 0 } value { name: "B" number: 1 } }'
    kind = message_class(
        "s.M",
        file_set(f'name: "c.proto" package: "s" {first} message_type {{ name: "M" {LISTS} }}'),
    )
    lists = b"\x08\1\x08\x09\x08\0" + b"\x12\4\1\x89\1\0"
    known, unknown = b"\x1a\5\x0a\1k\x10\1", b"\x1a\5\x0a\1k\x10\x09"
    other = b"\x1a\5\x0a\1j\x10\x09"
    check(kind, lists, known, unknown, other, known + unknown, unknown + known)
    [row], _ = decoded(Protobuf(kind), lists + known + other + unknown)
    assert row == {"r": ["B", "A"], "p": ["B", "A"], "m": [("k", "B")]}


def test_a_field_of_a_oneof_that_is_not_set_is_null() -> None:
    members = field(1, "s", "string", more='default_value: "d" oneof_index: 0')
    members += field(2, "i", "int32", more='default_value: "7" oneof_index: 0')
    kind = Protobuf(message_class("s.M", small(members + 'oneof_decl { name: "o" }', "")))
    expected = [{"s": None, "i": None}, {"s": None, "i": 4}, {"s": "x", "i": None}]
    assert decoded(kind, b"", b"\x0a\1x\x10\4", b"\x10\4\x0a\1x") == (expected, [])


DYNAMIC = field(1, "a", ".google.protobuf.Struct") + field(2, "b", ".google.protobuf.Value")
DYNAMIC += field(3, "c", ".google.protobuf.ListValue", REPEATED)
DYNAMIC += field(4, "m", ".s.M.MEntry", REPEATED)
DYNAMIC += entry("MEntry", "string", ".google.protobuf.Value")


def test_messages_that_contain_each_other_become_json() -> None:
    kind = message_class("s.M", small(DYNAMIC))
    decoder = Protobuf(kind, struct_as_json=True)
    assert decoder.schema.field("a").type == pa.string()
    value = {"n": None, "i": 1.0, "f": -0.5, "t": 'ü"\n', "l": [True, {}, []], "o": {"x": {"y": 2}}}
    message = kind()
    json_format.ParseDict({"a": value, "b": [value], "c": [[1], []], "m": {"k": value}}, message)
    data = message.SerializeToString()
    [row, absent, twice], failures = decoded(decoder, data, b"", data + data)
    assert not failures
    assert json.loads(row["a"]) == value
    assert (json.loads(row["b"]), [*map(json.loads, row["c"])]) == ([value], [[1], []])
    assert [(key, json.loads(each)) for key, each in row["m"]] == [("k", value)]
    assert absent == {"a": None, "b": None, "c": [], "m": []}
    merged = kind.FromString(data + data)
    assert json.loads(twice["a"]) == json_format.MessageToDict(merged)["a"]
    assert json.loads(twice["b"]) == [value, value]
    assert '"i":1' in row["a"]
    assert '"i":1.' not in row["a"]
    schema = Protobuf(struct_pb2.Struct, struct_as_json=True).schema
    assert schema.field("fields").type.item_type == pa.string()


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (b"\x11\0\0\0\0\0\0\xf8\x7f", "$.b: JSON has no number NaN"),
        (b"\x1a\1\xff", "$.b: invalid utf-8"),
        (b"\x12\0", "$.b: the field has wire type 2 where its type has 1"),
        (b"\x32\5\x0a", "$.b: 5 bytes were to come, and there are 1"),
    ],
)
def test_a_value_that_is_no_json(value: bytes, told: str) -> None:
    decoder = Protobuf(message_class("s.M", small(DYNAMIC)), struct_as_json=True)
    [row], [(_, reason)] = decoded(decoder, b"\x12" + bytes([len(value)]) + value)
    assert row is None
    assert told in reason


def test_json_of_messages_is_bounded() -> None:
    decoder = Protobuf(message_class("s.M", small(DYNAMIC)), struct_as_json=True)
    deep = b""
    for _ in range(60):
        deep = b"\x0a" + _length(deep) + deep  # a list in a list
        deep = b"\x32" + _length(deep) + deep
    part = b"\x12\x82\x08\x1a\xff\7" + b"x" * 1_023
    rows, failures = decoded(decoder, b"\x12" + _length(deep) + deep, part * 3_000)
    assert rows == [None, None]
    assert "deeper than 100 levels" in failures[0][1]
    assert "too many objects" in failures[1][1], "each part is written again with those before it"


def _length(data: bytes) -> bytes:
    size = len(data)
    return bytes([size]) if size < 0x80 else bytes([size & 0x7F | 0x80, size >> 7])


def test_times_have_a_unit_and_nothing_is_cut_off() -> None:
    kind = message_class(
        "s.M",
        small(
            field(1, "at", ".google.protobuf.Timestamp")
            + field(2, "took", ".google.protobuf.Duration"),
            more=" ".join(
                f'dependency: "google/protobuf/{n}.proto"' for n in ("timestamp", "duration")
            ),
        ),
    )
    first = kind(at={"seconds": 1, "nanos": 1_001}, took={"seconds": -1, "nanos": -1})
    early = kind(at={"seconds": -62_135_596_800})
    least = kind(took={"seconds": -9_223_372_036, "nanos": -854_775_808})
    values = [each.SerializeToString() for each in (first, early, least)]
    column, failures = Protobuf(kind).decode(pa.array(values, pa.binary()))
    assert (column.type.field("at").type, column.is_valid().to_pylist()) == (
        pa.timestamp("us", "UTC"),
        [False, True, False],
    )
    assert failures[0] == (0, '$.at: 1001 ns are finer than microseconds: give unit="ns"')
    assert failures[1][1].startswith("$.took: -854775808 ns are finer")
    column, failures = Protobuf(kind, unit="ns").decode(pa.array(values, pa.binary()))
    assert (column.type.field("at").type, column.type.field("took").type) == (
        pa.timestamp("ns", "UTC"),
        pa.duration("ns"),
    )
    row = column[0]
    assert (row["at"].value, row["took"].value) == (1_000_001_001, -1_000_000_001)
    assert column[2]["took"].value == -(2**63)
    told = "$.at: -62135596800 s and 0 ns are out of range in nanoseconds"
    assert failures == [(1, told)]
    with pytest.raises(InvalidArgumentError, match="unit must be one of us, ns, got 'ms'"):
        Protobuf(kind, unit="ms")  # type: ignore[arg-type]


CONFLUENT = b"\0\0\0\0\7"


def test_the_framing_of_confluent() -> None:
    decoder = Protobuf(Three, confluent=True, errors="null")
    value = Three(s_int32=7).SerializeToString()
    good = [CONFLUENT + indexes + value for indexes in (b"\0", b"\2\0", b"\4\2\4")]
    bad = [b"", b"\0\0\0\0", b"\2" + value, CONFLUENT, CONFLUENT + b"\1", CONFLUENT + b"\4\2"]
    rows, failures = decoded(decoder, *good, *bad)
    assert [row and row["s_int32"] for row in rows] == [7] * 3 + [None] * 6
    assert [reason for _, reason in failures] == [
        "0 bytes have no place for a schema id",
        "4 bytes have no place for a schema id",
        "the first byte is 2, and 0 or 1 comes before a schema id",
        "the message indexes after the schema id: the value ends within a number",
        "the message indexes after the schema id: their number is -1",
        "the message indexes after the schema id: the value ends within a number",
    ]


def test_the_serializer_of_confluent() -> None:
    pytest.importorskip("authlib")
    protobuf = pytest.importorskip("confluent_kafka.schema_registry.protobuf")
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.serialization import MessageField, SerializationContext

    registry = SchemaRegistryClient.new_client({"url": "mock://test_protobuf"})
    serialize = protobuf.ProtobufSerializer(Three, registry)
    value = Three(s_string="x", at={"seconds": 5}, m2={1: 900})
    data = serialize(value, SerializationContext("t", MessageField.VALUE))
    [row], failures = decoded(Protobuf(Three, confluent=True), data)
    assert not failures
    assert repr(same(row)) == repr(plain(value))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x08", "$.s_double: the field has wire type 0 where its type has 1"),
        (b"\x28", "$.s_int32: the value ends within a number"),
        (b"\x28" + b"\x80" * 11, "$.s_int32: a number has more than 10 bytes"),
        (b"\x28" + b"\xff" * 10, "more than 10 bytes"),
        (b"\x80" * 6, "$: a number has more than 5 bytes"),
        (b"\xff\xff\xff\xff\x7f", "more than 32 bits"),
        (b"\0\0", "$: a field has the number 0"),
        (b"\x0e", "$: field 1 has wire type 6, which does not exist"),
        (b"\x0c", "a group ends that has not begun: 1"),
        (b"\x93\x4e" + b"\x14", "a group ends that has not begun: 2"),
        (b"\x93\x4e" * 200, "groups are deeper than 100 levels"),
        (b"\x93\x4e", "the value ends within a number"),
        (b"\x4a\xff\xff\xff\xff\x07", "$.s_string: 2147483647 bytes were to come, and there are 0"),
        (b"\x4a\1\xff", "$.s_string: invalid utf-8"),
        (b"\x09123", "$.s_double: 8 bytes were to come, and there are 3"),
        (b"\xfa\3\3\x12\1\xff", "$.inner.b[0]: invalid utf-8"),
        (b"\x82\4\0\x82\4\6\x12\1a\x12\1\xff", "$.inners[1].b[1]: invalid utf-8"),
        (b"\xca\1\2\1\x80", "$.r_int32[1]: the value ends within a number"),
        (
            b"\x8a\4\3\x10\xe8\x07\x8a\4\x0b\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\1",
            "out of range",
        ),
        (
            b"\x8a\4\7\x08\xff\xff\xff\xff\xff\x7f",
            "$.at: 4398046511103 s and 0 ns are out of range",
        ),
        (b"\x9a\4\x0d\x08\1\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\1", "1 s and -1 ns"),
        (b"\xa2\4\3\x0a\1\xff", "$.m1: invalid utf-8"),
        (b"\xa2\4\2\x08\1", "$.m1: the field has wire type 0 where its type has 2"),
        (b"\xa2\4\5\x12\3\x12\1\xff", "$.m1.b[0]: invalid utf-8"),
        (b"\xa2\4\2\x10\1", "$.m1: the field has wire type 0 where its type has 2"),
    ],
)
def test_a_value_that_is_wrong(data: bytes, reason: str) -> None:
    good = Three(s_int32=1, r_string=["x"], m1={"k": {"a": 1}}).SerializeToString()
    before = Three(m1={"q": {"b": ["r"]}}).SerializeToString()
    column, [(row, told)] = Protobuf(Three).decode(pa.array([good, before + data, None, good]))
    column.validate(full=True)
    assert row == 1
    assert reason in told
    assert column[0] == column[3]
    assert (len(column.field("r_string").values), len(column.field("m1").keys)) == (2, 2)


def test_what_is_required_must_come() -> None:
    rows, failures = decoded(Protobuf(Two), b"", b"\x10\1", b"\x08\1")
    assert (rows[0], rows[2]["id"]) == (None, 1)
    told = "$.id: the field is required, and is missing"
    assert failures == [(0, told), (1, told)]


NODE = field(1, "next", ".s.N") + 'nested_type { name: "X" }'
OTHER = f'message_type {{ name: "N" {field(1, "back", ".s.M", REPEATED)} }}'


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Protobuf(message_class("s.M", small(NODE, more=OTHER))),
         r"\$.next.back: the message s.M contains itself \(s.M > s.N > s.M\).* and it is "),
        (lambda: Protobuf(struct_pb2.Struct),
         r"_value: the message google.*.Struct contains itself .*; struct_as_json=True makes JSON"),
        (lambda: Protobuf(SET.SerializeToString()), "give message=, got None"),
        (lambda: Protobuf(SET.SerializeToString(), "t.Nope"), 'no message "t.Nope"; they have goo'),
        (lambda: Protobuf(b"", "t.Top"), "they have none"),
        (lambda: Protobuf(b"\xff", "t.Top"), "Protobuf: the descriptors are no FileDescriptorSet"),
        (lambda: Protobuf(Three, "t.Top"), "goes with the bytes of a FileDescriptorSet only"),
        (lambda: Protobuf("t.Top"), "descriptor must be a generated class"),
        (lambda: Protobuf(Three()), "as bytes"),
        (lambda: Protobuf(small(field(1, "a", ".s.Gone")).SerializeToString(), "s.M"),
         r"\$.a: the descriptors lack the type s.Gone; protoc needs --include_imports"),
        (lambda: Protobuf(small(field(1, "a", "enum .s.Gone")).SerializeToString(), "s.M"),
         r"\$.a: the descriptors lack the type s.Gone"),
        (lambda: Protobuf(small(field(1, "a", "int32") * 2).SerializeToString(), "s.M"),
         r"\$.a: two fields have this name"),
        (lambda: Protobuf(small(field(1, "a", "int32") + field(1, "b", "int32"))
                          .SerializeToString(), "s.M"), "two fields have the same number"),
        (lambda: Protobuf(small(field(1, "a", "int32", more='default_value: "x"'), "")
                          .SerializeToString(), "s.M"), r"\$.a: the default is invalid"),
    ],
)  # fmt: skip
def test_a_descriptor_that_cannot_be(make: Any, told: str) -> None:
    if told == "as bytes":  # a message has a DESCRIPTOR, too
        assert make().schema == Protobuf(Three).schema
        return
    with pytest.raises(InvalidArgumentError, match=told):
        make()


def test_a_short_descriptor_may_mean_many_columns() -> None:
    levels = "".join(
        f'message_type {{ name: "L{n}" {field(1, "a", f".s.L{n + 1}")} '
        f"{field(2, 'b', f'.s.L{n + 1}')} }}"
        for n in range(40)
    )
    last = f'message_type {{ name: "L40" {field(1, "x", "int32")} }}'
    files = small(field(1, "a", ".s.L0"), more=levels + last)
    with pytest.raises(InvalidArgumentError, match="too many fields"):
        Protobuf(files.SerializeToString(), "s.M")


def test_what_a_short_descriptor_repeats_is_bounded() -> None:
    """Names with those around them, and long names and defaults of fields, which are columns."""
    space = "p" * 10_000
    head = 'name: "s.proto" message_type { name: "M" '
    for text, told in {
        f'package: "{space}" ' + 'message_type { name: "M" } ' * 100: "names with their packages",
        f"{head} {field(1, 'a' * 256 * 10_000, 'int32')} }}": "too many fields",
        f"{head} {field(1, 'a', 'string', more=f'default_value: {space * 8!r}')} }}": "too many",
        head + "nested_type { " * 70 + "}" * 71: "deeper than 64 levels",
    }.items():
        with pytest.raises(InvalidArgumentError, match=told):
            Protobuf(file_set(f'syntax: "proto2" {text}').SerializeToString(), "M")


# --- Any message, any bytes ----------------------------------------------------------------------

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
DRAWN: dict[str, Any] = {
    "double": st.floats(),
    "float": st.floats(width=32),
    "bool": st.booleans(),
    "string": TEXT,
    "bytes": st.binary(max_size=5),
    **dict.fromkeys(("int64", "sfixed64", "sint64"), st.integers(-(2**63), 2**63 - 1)),
    **dict.fromkeys(("uint64", "fixed64"), st.integers(0, 2**64 - 1)),
    **dict.fromkeys(("int32", "sfixed32", "sint32"), st.integers(-(2**31), 2**31 - 1)),
    **dict.fromkeys(("uint32", "fixed32"), st.integers(0, 2**32 - 1)),
}
MICROS = st.integers(0, 10**6 - 1).map(lambda micros: micros * 1_000)
INNER = st.fixed_dictionaries(
    {},
    optional={
        "a": DRAWN["int32"],
        "b": st.lists(TEXT, max_size=2),
        "at": st.fixed_dictionaries({}, optional={"seconds": st.integers(-(10**10), 10**10),
                                                  "nanos": MICROS}),
        "low": st.fixed_dictionaries(
            {}, optional={"x": DRAWN["sint64"],
                          "m": st.dictionaries(DRAWN["int32"], st.booleans(), max_size=2)}),
    },
)  # fmt: skip
COLORS = st.sampled_from([0, -7, 900, 5])
TOP: dict[str, Any] = {
    **{f"s_{kind}": values for kind, values in DRAWN.items()},
    **{f"o_{kind}": values for kind, values in DRAWN.items()},
    **{f"r_{kind}": st.lists(values, max_size=3) for kind, values in DRAWN.items()},
    **{f"w_{kind}": st.fixed_dictionaries({}, optional={"value": DRAWN[kind.lower()]})
       for kind in WRAPPED},
    "color": COLORS, "colors": st.lists(COLORS, max_size=3), "inner": INNER,
    "inners": st.lists(INNER, max_size=3),
    "took": st.sampled_from([{"seconds": -1, "nanos": -999_999_000}, {"nanos": -2_000}, {}]),
    "m1": st.dictionaries(TEXT, INNER, max_size=3),
    "m2": st.dictionaries(DRAWN["sint32"], COLORS, max_size=3),
    "c_text": TEXT, "c_inner": INNER, "c_color": COLORS, "last": DRAWN["int32"],
    "ws": st.lists(st.fixed_dictionaries({"value": DRAWN["int64"]}), max_size=2),
}  # fmt: skip
PARTS = st.lists(st.sampled_from(sorted(TOP)), max_size=6, unique=True).flatmap(
    lambda names: st.fixed_dictionaries({name: TOP[name] for name in names})
)
MESSAGES = st.lists(PARTS.map(lambda part: Three(**part).SerializeToString()), max_size=4)


@settings(max_examples=examples(300))
@given(st.lists(MESSAGES.map(b"".join), max_size=4))
def test_it_returns_what_google_returns(values: list[bytes]) -> None:
    check(Three, *values)


_GARBAGE = st.lists(
    st.sampled_from([b"\0", b"\x28", b"\x82\4", b"\xfa\3", b"\xa2\4", b"\x8a\4", b"\xba\4", b"\1",
                     b"\x93\x4e", b"\x94\x4e", b"\2", b"\xca\1", b"\xff\xff\xff\xff\x0f", b"\x12"])
    | st.binary(max_size=3) | PARTS.map(lambda part: Three(**part).SerializeToString())
).map(b"".join)  # fmt: skip
#: What google.protobuf takes for an unknown field, or leaves to its caller.
STRICTER = ("where its type has", "utf-8", "out of range", "finer than", "is required")


def _sets_entries_aside(message: Any) -> bool:
    """Whether google.protobuf in C takes an entry with unknown fields for an unknown field."""
    maps = {
        each.number
        for each in message.DESCRIPTOR.fields
        if each.message_type and each.message_type.GetOptions().map_entry
    }
    inner: list[Any] = []
    for field, value in message.ListFields():
        if field.number in maps:
            inner += value.values()
        elif field.message_type:
            inner += [value] if hasattr(value, "ListFields") else value
    return bool(maps & {each.field_number for each in UnknownFieldSet(message)}) or any(
        _sets_entries_aside(each) for each in inner if hasattr(each, "ListFields")
    )


@settings(max_examples=examples(500))
@given(st.lists(_GARBAGE, max_size=4), st.data())
def test_garbage_is_a_value_of_google_or_null(values: list[bytes], data: st.DataObject) -> None:
    values = [value[: data.draw(st.integers(0, len(value)))] for value in values] + values
    for kind in (Three, Two):
        column, failures = Protobuf(kind).decode(pa.array(values, pa.binary()))
        column.validate(full=True)
        reasons = dict(failures)
        for row, value in enumerate(values):
            assert column[row].is_valid == (row not in reasons)
            try:
                expected = kind.FromString(value)
            except (DecodeError, UnicodeDecodeError):
                assert row in reasons
                continue
            if row in reasons:
                assert any(each in reasons[row] for each in STRICTER), reasons[row]
            elif kind is Three and not _sets_entries_aside(expected):
                assert repr(same(column[row].as_py())) == repr(plain(expected))


def test_claims_are_not_believed() -> None:
    claim = b"\xff\xff\xff\xff\x07"
    # To believe each of them would take hours, or all memory.
    values = [b"\x4a" + claim, b"\xca\1" + claim, b"\xa2\4" + claim, b"\x82\4" * 9 + claim] * 2_000
    rows, failures = decoded(Protobuf(Three), *values)
    assert len(failures) == len(rows)


def test_a_value_may_have_a_million_items() -> None:
    """A step for every item and every earlier one would take longer than a test may."""
    million = 10**6
    values = [
        b"\xca\1\xc0\x84\x3d" + b"\1" * million,  # packed
        b"\xc8\1\1" * million,
        b"\xa2\4\0" * million,  # one key
        b"\xfa\3\0" * million,  # merged
        b"\x28\1" * million,  # a scalar
        b"\xba\4\0\xc2\4\0" * million,  # a oneof
    ]
    rows, failures = decoded(Protobuf(Three), *values)
    assert not failures
    assert (len(rows[0]["r_int32"]), len(rows[1]["r_int32"]), len(rows[2]["m1"])) == (
        million, million, 1)  # fmt: skip


@pytest.mark.full("it takes much memory")
def test_empty_messages_may_not_take_all_memory() -> None:
    wide = "".join(field(n, f"f{n}", "int64") for n in range(1, 2_001))
    fields = field(1, "a", ".s.M.W", REPEATED) + f'nested_type {{ name: "W" {wide} }}'
    decoder = Protobuf(message_class("s.M", small(fields)))
    rows, [(row, told)] = decoded(decoder, b"\x0a\0" * 10**6, b"\x0a\0" * 500)
    assert (row, rows[0], len(rows[1]["a"])) == (0, None, 500)
    assert "the value has too many objects that are null or almost empty" in told


# --- with a registry


class Registry:
    """A registry that has one file under some ids."""

    def __init__(self) -> None:
        file = base64.b64encode(SET.file[-2].SerializeToString()).decode()
        self.schemas = {1: (file, "PROTOBUF"), 2: (file, "PROTOBUF")}
        self.asked: list[int] = []

    def get_schema(self, schema_id: int, /, *, fmt: str) -> Any:
        assert fmt == "serialized"
        self.asked.append(schema_id)
        if schema_id not in self.schemas:
            raise status(404, 40403)
        text, kind = self.schemas[schema_id]
        return SimpleNamespace(schema_str=text, schema_type=kind, references=[])

    def get_version(self, subject_name: str, version: int, /, *, deleted: bool) -> Any:
        raise NotImplementedError


def written(number: int, indexes: bytes, payload: bytes = b"") -> bytes:
    return b"\0" + number.to_bytes(4, "big") + indexes + payload


def test_a_registry_tells_other_messages() -> None:
    registry = Registry()
    registry.schemas |= {3: ('"string"', "AVRO"), 4: ('syntax = "proto3";', "PROTOBUF")}
    decoder = Protobuf(Three, confluent=registry)
    payload = Three(s_int32=7).SerializeToString()
    wrong = {
        b"\0": "the message is t.Inner, not t.Top",
        b"\2\2": "the message is t.Low, not t.Top",
        b"\4\4\0": "the message is t.Top.M1Entry, not t.Top",
        b"\2\x0a": "schema 1 has no message at the indexes [5]",
        b"\4\4": "the message indexes after the schema id: the value ends within a number",
        b"\1": "the message indexes after the schema id: their number is -1",
    }
    values = [written(n, b"\2\4", payload) for n in (1, 2, 1, 1)]
    rows, failures = decoded(decoder, *values, *(written(1, each) for each in wrong))
    assert [row and row["s_int32"] for row in rows] == [7] * 4 + [None] * 6
    assert [reason for _, reason in failures] == list(wrong.values())
    assert registry.asked == [1, 2]
    reasons = [reason for _, reason in decoded(decoder, *(written(n, b"\0") for n in (3, 4, 5)))[1]]
    assert reasons[0] == "the registry has no Protobuf schema 3"
    assert reasons[1].startswith("schema 4 is no serialized descriptor: ")
    assert reasons[2] == "the registry has no Protobuf schema 5"


@pytest.mark.parametrize("above", [70, 50, 3])
def test_the_messages_of_a_schema_are_counted(above: int) -> None:
    """Each had an index for each one around it: a megabyte cost 350."""
    made = descriptor_pb2.FileDescriptorProto()
    message = made.message_type.add()
    for _ in range(above):
        message = message.nested_type.add()
    for _ in range(20_000):
        message.nested_type.add()
    registry = Registry()
    registry.schemas[1] = base64.b64encode(made.SerializeToString()).decode(), "PROTOBUF"
    [(_, told)] = decoded(Protobuf(Three, confluent=registry), written(1, b"\0"))[1]
    assert "deeper than 64 levels" in told or "with their packages are too long" in told


def test_a_registry_must_be_a_client() -> None:
    with pytest.raises(InvalidArgumentError, match="registry must have get_schema"):
        Protobuf(Three, confluent="http://localhost")  # type: ignore[arg-type]
