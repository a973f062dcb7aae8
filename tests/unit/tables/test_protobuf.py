"""Protobuf becomes Arrow columns as google.protobuf reads it; garbage is null with a reason."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tandem_kafka.errors import InvalidArgumentError

pa = pytest.importorskip("pyarrow")
pytest.importorskip("google.protobuf")

from google.protobuf import (  # noqa: E402
    json_format,
    struct_pb2,
)

from tandem_kafka.tables import Protobuf  # noqa: E402 - it imports pyarrow
from tests.unit.tables.protobuf_values import (  # noqa: E402
    REPEATED,
    SCALARS,
    SET,
    Three,
    Two,
    check,
    decoded,
    entry,
    field,
    file_set,
    message_class,
    small,
)

pytestmark = pytest.mark.usefixtures("native_extension")


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
