"""Messages of Protobuf for tests, without protoc, and what google.protobuf reads of them."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("google.protobuf")

from google.protobuf import (  # noqa: E402
    any_pb2,
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    message_factory,
    struct_pb2,
    text_format,
    timestamp_pb2,
    wrappers_pb2,
)

from tandem_kafka.tables import Protobuf  # noqa: E402 - it imports pyarrow

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
