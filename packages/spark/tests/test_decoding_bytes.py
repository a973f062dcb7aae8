"""The pure part of decoding: framing, schemas, types and errors, without a Spark session."""

from __future__ import annotations

import base64
import datetime as dt
import io
import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

import packages.spark.tests.session  # noqa: F401 - skips all of this without pyspark
from pipeline.registry import SchemaRegistry, framed
from tandem_kafka.errors import InvalidArgumentError, SchemaRegistryError

fastavro = pytest.importorskip("fastavro")

import pyarrow as pa  # noqa: E402

from pyspark_tandem_kafka.decoding import DecodingError, from_avro, from_protobuf  # noqa: E402
from pyspark_tandem_kafka.decoding.functions import spark_type  # noqa: E402
from pyspark_tandem_kafka.decoding.registered import (  # noqa: E402
    SPARK,
    Protobuf,
    Registered,
    Registry,
    decode_array,
)
from tandem_kafka.tables import Avro  # noqa: E402 - it imports pyarrow
from tandem_kafka.types import ArrowDecoder  # noqa: E402

EVERYTHING: dict[str, Any] = {
    "type": "record",
    "name": "Everything",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "small", "type": "int"},
        {"name": "share", "type": "double"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "raw", "type": "bytes"},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "other", "type": ["Kind", "null"]},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "counts", "type": {"type": "map", "values": "int"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "at_us", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {
            "name": "price",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        },
        {
            "name": "to",
            "type": {
                "type": "record",
                "name": "Address",
                "fields": [{"name": "city", "type": "string"}],
            },
        },
    ],
}
AT = dt.datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=dt.UTC)
ROW: dict[str, Any] = {
    "id": 2**40,
    "small": -1,
    "share": 0.5,
    "note": None,
    "raw": b"\x00\xff",
    "kind": "B",
    "other": "A",
    "tags": ["x", "y"],
    "counts": {"a": 1},
    "at": AT,
    "at_us": AT,
    "day": dt.date(2026, 1, 2),
    "price": Decimal("12.34"),
    "to": {"city": "Bremen"},
}


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with SchemaRegistry() as server:
        yield server


def avro(number: int, schema: Any, row: Any) -> bytes:
    into = io.BytesIO()
    fastavro.schemaless_writer(into, fastavro.parse_schema(schema), row)
    return framed(number, into.getvalue())


def record(*fields: Any, name: str = "R") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": n, **f} for n, f in fields]}


def known(registry: SchemaRegistry, schema: Any, subject: str = "s", **more: Any) -> int:
    return registry.register(subject, {"schema": json.dumps(schema), **more})


def decode(
    registry: SchemaRegistry | dict[str, Any],
    schema: Any,
    *values: bytes | None,
    permissive: bool = False,
) -> list[Any]:
    """Decode values; `registry` is a running one, or the configuration of a client."""
    settings = registry if isinstance(registry, dict) else {"url": registry.url}
    decoder = Registered(Registry.of(settings), json.dumps(schema)).decoder()
    return as_spark(decoder, *values, permissive=permissive)


def type_of(decoder: Avro | Protobuf) -> Any:
    return spark_type(SPARK.type_of(decoder.schema, "the value"))


def as_spark(decoder: ArrowDecoder, *values: bytes | None, permissive: bool = False) -> list[Any]:
    assert isinstance(decoder, Avro | Protobuf)
    column = pa.array(values, pa.binary())
    found = decode_array(column, decoder, permissive=permissive)
    found.validate(full=True)
    rows: list[Any] = found.to_pylist()
    return rows


def test_every_type_of_avro(registry: SchemaRegistry) -> None:
    value = avro(known(registry, EVERYTHING), EVERYTHING, ROW)
    found, nothing = decode(registry, EVERYTHING, value, None)
    assert found == {**ROW, "counts": [("a", 1)]}
    assert nothing is None


def test_types_of_spark(registry: SchemaRegistry) -> None:
    """The types are those that Spark's own from_avro gives."""
    local = {"type": "long", "logicalType": "local-timestamp-millis"}
    schema = record(
        ("some", {"type": ["null", "int", "string"]}),
        ("wide", {"type": ["int", "long"]}),
        ("fixed", {"type": {"type": "fixed", "name": "F", "size": 2}}),
        ("local", {"type": local}),
        ("uuid", {"type": {"type": "string", "logicalType": "uuid"}}),
        ("wkb", {"type": "bytes"}),
        ("maps", {"type": {"type": "array", "items": {"type": "map", "values": "F"}}}),
    )
    assert type_of(Avro(schema)).simpleString() == (
        "struct<some:struct<member0:int,member1:string>,wide:bigint,fixed:binary,"
        "local:timestamp_ntz,uuid:string,wkb:binary,maps:array<map<string,binary>>>"
    )
    number = known(registry, schema)
    at, key = AT.replace(tzinfo=None), "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"
    row = {"wide": 7, "fixed": b"xy", "local": at, "uuid": key, "wkb": b"", "maps": [{"a": b"zz"}]}
    values = [avro(number, schema, {**row, "some": some}) for some in (None, 3, "x")]
    found = decode(registry, schema, *values)
    members = [None, {"member0": 3, "member1": None}, {"member0": None, "member1": "x"}]
    maps = [[("a", b"zz")]]
    assert found == [{**row, "some": each, "maps": maps} for each in members]


def test_types_that_spark_lacks(registry: SchemaRegistry) -> None:
    schema = record(
        ("none", {"type": "null"}),
        ("millis", {"type": {"type": "int", "logicalType": "time-millis"}}),
        ("micros", {"type": {"type": "long", "logicalType": "time-micros"}}),
        ("at", {"type": {"type": "long", "logicalType": "timestamp-nanos"}}),
        ("price", {"type": {**MONEY, "precision": 64}}),
        ("empty", {"type": {**record(name="Empty")}}),
        (
            "every",
            {"type": {"type": "fixed", "name": "Every", "size": 12, "logicalType": "duration"}},
        ),
    )
    assert type_of(Avro(schema)).simpleString() == (
        "struct<none:string,millis:string,micros:string,at:timestamp,price:decimal(38,2),"
        "empty:struct<>,every:string>"
    )
    every = b"".join(number.to_bytes(4, "little") for number in (1, 2, 3_500))
    row = {"none": None, "millis": 3_723_004, "micros": 3_723_000_004, "at": 1_001, "empty": {}}
    plain = json.loads(json.dumps(schema))
    for each in plain["fields"]:
        if isinstance(each["type"], dict):
            each["type"].pop("logicalType", None)
    value = avro(known(registry, schema), plain, {**row, "price": b"\5", "every": every})
    assert decode(registry, schema, value, None) == [
        {
            "none": None,
            "millis": "01:02:03.004",
            "micros": "01:02:03.000004",
            "at": dt.datetime(1970, 1, 1, 0, 0, 0, 1, dt.UTC),
            "price": Decimal("0.05"),
            "empty": {},
            "every": "P1M2DT3.5S",
        },
        None,
    ]


def test_types_of_spark_for_protobuf() -> None:
    """Spark's own from_protobuf keeps wrappers as messages, too."""
    pytest.importorskip("google.protobuf")
    from google.protobuf import descriptor_pb2, descriptor_pool, duration_pb2, message_factory
    from google.protobuf import wrappers_pb2 as wrappers

    file = descriptor_pb2.FileDescriptorProto(name="w.proto", package="w", syntax="proto3")
    message = file.message_type.add(name="M")
    pool = descriptor_pool.DescriptorPool()
    for name, module in {"Duration": duration_pb2, "Int64Value": wrappers}.items():
        each = module.DESCRIPTOR
        pool.AddSerializedFile(each.serialized_pb)
        file.dependency.append(each.name)
        typed = {"type": 11, "type_name": f".google.protobuf.{name}", "label": 1}
        message.field.add(name=name, number=len(message.field) + 1, **typed)
    for name, kind in {"uint32": 13, "uint64": 4}.items():
        message.field.add(name=name, number=len(message.field) + 1, type=kind, label=1)
    pool.Add(file)
    made = message_factory.GetMessageClass(pool.FindMessageTypeByName("w.M"))
    decoder = Protobuf(made)
    assert type_of(decoder).simpleString() == (
        "struct<Duration:interval day to second,Int64Value:struct<value:bigint>,"
        "uint32:bigint,uint64:decimal(20,0)>"
    )
    value = made(Int64Value={"value": 0}, uint32=2**32 - 1, uint64=2**64 - 1)
    value.Duration.FromMicroseconds(5)
    full = {
        "Duration": dt.timedelta(microseconds=5),
        "Int64Value": {"value": 0},
        "uint32": 2**32 - 1,
        "uint64": Decimal(2**64 - 1),
    }
    empty = {"Duration": None, "Int64Value": None, "uint32": 0, "uint64": Decimal(0)}
    assert as_spark(decoder, value.SerializeToString(), b"", None) == [full, empty, None]


def test_values_are_converted_to_the_readers_schema(registry: SchemaRegistry) -> None:
    old = record(("id", {"type": "int"}), ("removed", {"type": "string"}))
    new = record(("id", {"type": "long"}), ("note", {"type": ["null", "string"], "default": None}))
    values = [
        avro(known(registry, old), old, {"id": 1, "removed": "x"}),
        avro(known(registry, new), new, {"id": 2, "note": "y"}),
    ]
    assert (
        decode(registry, new, *values * 100)
        == [
            {"id": 1, "note": None},
            {"id": 2, "note": "y"},
        ]
        * 100
    )
    # Each schema is requested once, regardless of the number of values.
    assert registry.requests == {"/schemas/ids/1": 1, "/schemas/ids/2": 1}


def test_an_incompatible_writers_schema_is_an_error(registry: SchemaRegistry) -> None:
    """The older schema lacks a field, for which the reader's schema has no default."""
    new = record(("id", {"type": "long"}), ("note", {"type": "string"}))
    older = avro(known(registry, GOOD), GOOD, {"id": 1})
    newer = avro(known(registry, new), new, {"id": 2, "note": "y"})
    assert decode(registry, new, older, newer, permissive=True) == [None, {"id": 2, "note": "y"}]
    with pytest.raises(DecodingError, match=r"schema 1: \$\.note: the writer does not have"):
        decode(registry, new, older, newer)


def test_referenced_schemas(registry: SchemaRegistry) -> None:
    address = record(("city", {"type": "string"}), name="Address")
    known(registry, address, "address")
    order = record(("to", {"type": "Address"}))
    refers = [{"name": "Address", "subject": "address", "version": 1}]
    number = known(registry, order, references=refers)
    whole = record(("to", {"type": address}))
    value = avro(number, whole, {"to": {"city": "Kiel"}})
    assert decode(registry, whole, value) == [{"to": {"city": "Kiel"}}]


GOOD = record(("id", {"type": "long"}))


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (b"", "0 bytes have no place for a schema id"),
        (b'{"id": 1}', "the first byte is 123, and 0 or 1 comes before a schema id"),
        (b"\0\0\0\0\x63\x02", "schema id 99, .*: the registry has no Avro schema 99"),
        (b"\0\0\0\0\x01", r"schema id 1, a value of 5 bytes: \$\.id: the value ends"),
        (b"\0\0\0\0\x01\x02\x02", "schema id 1, .*: bytes are left after the value: 1"),
        (b"\0\0\0\0\x02\x02", "schema id 2, .*: the registry has no Avro schema 2"),
        (
            b"\0\0\0\0\x03\x02x",
            r"schema id 3, .*: \$\.id: the writer does not have the field",
        ),
    ],
)
def test_bad_bytes(registry: SchemaRegistry, value: bytes, said: str) -> None:
    known(registry, GOOD)
    registry.register("p", {"schema": "", "schemaType": "PROTOBUF"})
    known(registry, record(("other", {"type": "string"})))
    with pytest.raises(DecodingError, match=said):
        decode(registry, GOOD, value)
    good = avro(1, GOOD, {"id": 7})
    assert decode(registry, GOOD, good, value, permissive=True) == [{"id": 7}, None]


def test_an_unknown_id_is_requested_once(registry: SchemaRegistry) -> None:
    assert decode(registry, GOOD, *[b"\0\0\0\0\x63\x02"] * 100, permissive=True) == [None] * 100
    assert registry.requests == {"/schemas/ids/99": 1}


@pytest.mark.parametrize("permissive", [False, True])
def test_a_failing_registry_is_an_error_in_both_modes(
    registry: SchemaRegistry, permissive: bool
) -> None:
    value = avro(known(registry, GOOD), GOOD, {"id": 7})
    registry.broken = 403
    with pytest.raises(
        SchemaRegistryError,
        match=r"refuses to return .* 1 .*out of order .*403.*; give its",
    ):
        decode(registry, GOOD, value, permissive=permissive)


def test_an_unreachable_registry(registry: SchemaRegistry) -> None:
    value = avro(known(registry, GOOD), GOOD, {"id": 7})
    with SchemaRegistry() as other:
        closed_url = other.url
    settings = {"url": closed_url.replace("//", "//alice:hush@"), "max.retries": 0}
    decoder = Avro(GOOD, registry=Registry.of(settings).connect(), timeout_ms=1)
    for permissive in (False, True):
        with pytest.raises(
            SchemaRegistryError,
            match=r"did not return schema 1 within 1 ms .ConnectError: .*; ch",
        ) as error:
            as_spark(decoder, value, permissive=permissive)
        assert "hush" not in str(error.value)


@pytest.mark.parametrize("permissive", [False, True])
def test_a_server_that_is_not_a_registry_is_an_error(
    registry: SchemaRegistry, permissive: bool
) -> None:
    value = avro(known(registry, GOOD), GOOD, {"id": 7})
    settings = {"url": f"{registry.url}/other"}
    with pytest.raises(SchemaRegistryError, match=r"not found .*404.*; check its address"):
        decode(settings, GOOD, value, permissive=permissive)


@pytest.mark.parametrize("permissive", [False, True])
def test_a_registry_with_a_login(registry: SchemaRegistry, permissive: bool) -> None:
    value = avro(known(registry, GOOD), GOOD, {"id": 7})
    registry.login = "alice:hush"
    for login in ({}, {"basic.auth.user.info": "alice:wrong"}):
        with pytest.raises(
            SchemaRegistryError, match=r"Unauthorized .*401.*; give its client a login"
        ) as error:
            decode({"url": registry.url, **login}, GOOD, value, permissive=permissive)
        assert "wrong" not in str(error.value)
    settings = {"url": registry.url, "basic.auth.user.info": "alice:hush"}
    assert decode(settings, GOOD, value, permissive=permissive) == [{"id": 7}]


MONEY = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}


def test_a_decimal_with_too_many_digits(registry: SchemaRegistry) -> None:
    requested = record(("price", {"type": MONEY}))
    number = known(registry, requested)
    plain = record(("price", {"type": "bytes"}))
    big = avro(number, plain, {"price": (10**7).to_bytes(4, "big")})
    fine = avro(number, plain, {"price": (1234).to_bytes(2, "big")})
    assert decode(registry, requested, fine, big, permissive=True) == [
        {"price": Decimal("12.34")},
        None,
    ]
    with pytest.raises(DecodingError, match=r"\$\.price: the decimal has more than 4 digits"):
        decode(registry, requested, fine, big)


@pytest.mark.parametrize(
    ("kind", "plain", "good", "bad", "said"),
    [
        ({**MONEY, "precision": 64}, "bytes", b"\5", b"\x7f" * 17, "not fit in precision"),
        ({"type": "long", "logicalType": "timestamp-millis"}, "long", 5, 2**62, "out of bounds"),
    ],
)
def test_a_value_without_a_place_in_spark(
    registry: SchemaRegistry, kind: Any, plain: str, good: Any, bad: Any, said: str
) -> None:
    requested, written = (
        record(("many", {"type": {"type": "array", "items": each}})) for each in (kind, plain)
    )
    number = known(registry, requested)
    first, second, last = (avro(number, written, {"many": [good, n]}) for n in (good, bad, good))
    values = [first, None, second, last]
    found = decode(registry, requested, *values, permissive=True)
    assert [each is None for each in found] == [False, True, True, False]
    with pytest.raises(DecodingError, match=f"schema id {number}, a value of .*{said}"):
        decode(registry, requested, *values)


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "nonsense"}, "Avro: "),
        ("{", "Avro: "),
        (7, "schema must be an Avro schema as JSON, got: int"),
        (record(("r", {"type": ["null", "R"]})), "the schema refers"),
        (
            record(("d", {"type": {**MONEY, "precision": 50, "scale": 40}})),
            r"the value\.d is of type decimal256\(50, 40\), for which Spark has no place",
        ),
    ],
)
def test_unsupported_schemas_are_rejected(registry: SchemaRegistry, schema: Any, said: str) -> None:
    with pytest.raises(InvalidArgumentError, match=said):
        from_avro("v", registry={"url": registry.url}, schema=schema)
    assert not registry.requests


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("http://localhost", "registry must be like"),
        ({}, "registry must have a url .a string., got: nothing"),
        ({"url": "ftp://x"}, "Invalid url"),
        ({"url": "http://x", "nonsense": "hush"}, "nonsense"),
    ],
)
def test_invalid_registry_settings_are_rejected(given: Any, said: str) -> None:
    with pytest.raises(InvalidArgumentError, match=said) as error:
        Registry.of(given)
    assert "hush" not in str(error.value)


def test_secrets_are_not_shown(registry: SchemaRegistry) -> None:
    settings = {"url": registry.url, "basic.auth.user.info": "alice:hush"}
    requested = Registered(Registry.of(settings), json.dumps(GOOD))
    assert "hush" not in repr(requested)
    value = avro(known(registry, GOOD), GOOD, {"id": 1})
    assert as_spark(requested.decoder(), value) == [{"id": 1}]
    assert registry.credentials == {"alice:hush"}


@pytest.mark.parametrize(
    ("message", "descriptors", "said"),
    [
        ("shop.Order", None, "a name with descriptors: a FileDescriptorSet in bytes"),
        ("shop.Order", b"", "Protobuf: the descriptors have no message .shop.Order"),
        (7, None, "message must be a generated class"),
    ],
)
def test_invalid_messages_are_rejected(message: Any, descriptors: Any, said: str) -> None:
    pytest.importorskip("google.protobuf")
    with pytest.raises(InvalidArgumentError, match=said):
        from_protobuf("v", registry={"url": "x"}, message=message, descriptors=descriptors)


def test_protobuf_of_an_older_and_a_newer_schema(registry: SchemaRegistry) -> None:
    messages = pytest.importorskip("packages.spark.tests.messages")
    from google.protobuf import descriptor_pb2

    def changed(change: Any) -> tuple[int, Any]:
        """Return the schema id and the class of a changed order."""
        whole = descriptor_pb2.FileDescriptorSet.FromString(messages.descriptors())
        file = whole.file[-1]
        change(next(each for each in file.message_type if each.name == "Order"))
        text = base64.b64encode(file.SerializeToString()).decode()
        number = registry.register("p", {"schema": text, "schemaType": "PROTOBUF"})
        return number, messages.message_class("shop.Order", whole)

    def without_large(order: Any) -> None:
        del order.field[1]

    def with_more(order: Any) -> None:
        order.field.add(name="more", number=99, type=9, label=1)

    older, newer = changed(without_large), changed(with_more)
    rows = [(older, {"id": 1}), (newer, {"id": 2, "large": 5, "more": "x"})]
    values = [
        # Refund is the first message of the file, Order the second.
        framed(number, b"\2\2" + message(**row).SerializeToString())
        for (number, message), row in rows
    ]
    order = messages.message_class("shop.Order")
    made = Protobuf(order)
    requested = Registered(Registry.of({"url": registry.url}), made.message, made.descriptors)
    found = as_spark(requested.decoder(), *values)
    assert [(each["id"], each["large"]) for each in found] == [(1, 0), (2, 5)]
    assert "more" not in found[1]
