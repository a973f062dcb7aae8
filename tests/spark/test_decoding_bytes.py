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

import tests.spark.session  # noqa: F401 - skips all of this without pyspark
from pipeline.registry import SchemaRegistry, framed
from tandem_kafka.errors import InvalidArgumentError

fastavro = pytest.importorskip("fastavro")

import pyarrow as pa  # noqa: E402

from tandem_kafka.spark.decoding import DecodingError, RegistryError  # noqa: E402
from tandem_kafka.spark.decoding.avro import AvroValues  # noqa: E402
from tandem_kafka.spark.decoding.batches import arrow_type, decode_array  # noqa: E402
from tandem_kafka.spark.decoding.framing import message_path, schema_id  # noqa: E402
from tandem_kafka.spark.decoding.protobuf import ProtobufValues  # noqa: E402
from tandem_kafka.spark.decoding.registry import Registry  # noqa: E402

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
    requested = AvroValues.of(Registry.of(settings), schema)
    kind = arrow_type(requested.spark_type())
    column = pa.array(values, pa.binary())
    found: list[Any] = decode_array(column, requested, kind, permissive=permissive).to_pylist()
    return found


def test_every_type_of_avro(registry: SchemaRegistry) -> None:
    value = avro(known(registry, EVERYTHING), EVERYTHING, ROW)
    found, nothing = decode(registry, EVERYTHING, value, None)
    assert found == {**ROW, "counts": [("a", 1)]}
    assert nothing is None


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
    with pytest.raises(DecodingError, match=r"schema id 1: .* cannot be read with"):
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
        (b"", "0 bytes are too few"),
        (b'{"id": 1}', "the first byte is 0x7b, not the magic byte"),
        (b"\0\0\0\0\x63\x02", "schema id 99: the registry has no such schema"),
        (b"\0\0\0\0\x01", "schema id 1: these 5 bytes cannot be read"),
        (b"\0\0\0\0\x01\x02\x02", "schema id 1: 1 bytes follow the value"),
        (b"\0\0\0\0\x02\x02", "schema id 2: it is a schema of PROTOBUF, not of AVRO"),
        (
            b"\0\0\0\0\x03\x02x",
            "schema id 3: these 7 bytes cannot be read with the requested schema",
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
        RegistryError, match=r"schema id 1 failed: HTTP 403, out of order; grant the user"
    ):
        decode(registry, GOOD, value, permissive=permissive)


@pytest.mark.parametrize("permissive", [False, True])
def test_an_unreachable_registry_is_an_error_in_both_modes(
    registry: SchemaRegistry, permissive: bool
) -> None:
    value = avro(known(registry, GOOD), GOOD, {"id": 7})
    with SchemaRegistry() as other:
        closed_url = other.url
    settings = {"url": closed_url.replace("//", "//alice:hush@"), "max.retries": 0}
    with pytest.raises(
        RegistryError, match="schema id 1 failed: ConnectError; check the url"
    ) as error:
        decode(settings, GOOD, value, permissive=permissive)
    assert "hush" not in str(error.value)


@pytest.mark.parametrize("permissive", [False, True])
def test_a_server_that_is_not_a_registry_is_an_error(
    registry: SchemaRegistry, permissive: bool
) -> None:
    value = avro(known(registry, GOOD), GOOD, {"id": 7})
    settings = {"url": f"{registry.url}/other"}
    with pytest.raises(RegistryError, match="HTTP 404, not found; check the path of the url"):
        decode(settings, GOOD, value, permissive=permissive)


@pytest.mark.parametrize("permissive", [False, True])
def test_a_registry_with_a_login(registry: SchemaRegistry, permissive: bool) -> None:
    value = avro(known(registry, GOOD), GOOD, {"id": 7})
    registry.login = "alice:hush"
    for login in ({}, {"basic.auth.user.info": "alice:wrong"}):
        with pytest.raises(
            RegistryError, match=r"HTTP 401, Unauthorized; set basic\.auth"
        ) as error:
            decode({"url": registry.url, **login}, GOOD, value, permissive=permissive)
        assert "wrong" not in str(error.value)
    settings = {"url": registry.url, "basic.auth.user.info": "alice:hush"}
    assert decode(settings, GOOD, value, permissive=permissive) == [{"id": 7}]


def test_a_decimal_with_too_many_digits(registry: SchemaRegistry) -> None:
    money = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
    requested = record(("price", {"type": money}))
    number = known(registry, requested)
    plain = record(("price", {"type": "bytes"}))
    big = avro(number, plain, {"price": (10**7).to_bytes(4, "big")})
    fine = avro(number, plain, {"price": (1234).to_bytes(2, "big")})
    assert decode(registry, requested, fine, big, permissive=True) == [
        {"price": Decimal("12.34")},
        None,
    ]
    with pytest.raises(DecodingError, match="does not fit"):
        decode(registry, requested, fine, big)


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "nonsense"}, "schema is not a valid Avro schema"),
        ("{", "schema is not a valid Avro schema"),
        (7, "schema must be an Avro schema as JSON, got: int"),
        (record(("u", {"type": ["int", "string"]})), "u has no type in Spark: a union"),
        (record(("r", {"type": ["null", "R"]})), "r has no type in Spark: the record R contains"),
        (
            record(("t", {"type": {"type": "int", "logicalType": "time-millis"}})),
            "t has no type in Spark: the logical type time-millis of int",
        ),
    ],
)
def test_unsupported_schemas_are_rejected(registry: SchemaRegistry, schema: Any, said: str) -> None:
    with pytest.raises(InvalidArgumentError, match=said):
        AvroValues.of(Registry.of({"url": registry.url}), schema).spark_type()
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
    requested = AvroValues.of(Registry.of(settings), GOOD)
    assert "hush" not in repr(requested)
    value = avro(known(registry, GOOD), GOOD, {"id": 1})
    assert requested.decoder()(value) == {"id": 1}
    assert registry.credentials == {"alice:hush"}


@pytest.mark.parametrize(
    ("indexes", "path"), [(b"\0", (0,)), (b"\x02\x02", (1,)), (b"\x04\x02\x80\x01", (1, 64))]
)
def test_the_path_to_a_message(indexes: bytes, path: tuple[int, ...]) -> None:
    value = b"\0\0\0\0\x07" + indexes + b"rest"
    assert schema_id(value) == 7
    assert message_path(value) == (path, 5 + len(indexes))


@pytest.mark.parametrize("indexes", [b"", b"\x80", b"\x01", b"\x04\x02", b"\xff" * 12])
def test_invalid_message_indexes(indexes: bytes) -> None:
    with pytest.raises(DecodingError, match="message indexes"):
        message_path(b"\0\0\0\0\x07" + indexes)


@pytest.mark.parametrize(
    ("message", "descriptors", "said"),
    [
        ("shop.Order", None, "descriptors must be a FileDescriptorSet"),
        ("shop.Order", b"", "there is no shop.Order"),
        (7, None, "message must be a generated class"),
    ],
)
def test_invalid_messages_are_rejected(message: Any, descriptors: Any, said: str) -> None:
    pytest.importorskip("google.protobuf")
    with pytest.raises(InvalidArgumentError, match=said):
        ProtobufValues.of(Registry.of({"url": "http://localhost"}), message, descriptors)


def test_protobuf_of_an_older_and_a_newer_schema(registry: SchemaRegistry) -> None:
    messages = pytest.importorskip("tests.spark.messages")
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
    requested = ProtobufValues.of(Registry.of({"url": registry.url}), order, None)
    kind = arrow_type(requested.spark_type())
    found = decode_array(
        pa.array(values, pa.binary()), requested, kind, permissive=False
    ).to_pylist()
    assert [(each["id"], each["large"]) for each in found] == [(1, 0), (2, 5)]
    assert "more" not in found[1]
