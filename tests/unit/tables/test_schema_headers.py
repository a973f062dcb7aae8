"""Schemas that a header of the record names, beside those that values begin with."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from tandem_kafka.errors import InvalidArgumentError, SchemaRegistryError
from tandem_kafka.types import ArrowDecoder
from tests.implementations import IMPLEMENTATIONS, require_implementation
from tests.unit.records.making import Rec, batch, reader, using

pa = pytest.importorskip("pyarrow")
pytest.importorskip("fastavro")
pytest.importorskip("authlib")

from confluent_kafka.schema_registry import (  # noqa: E402
    SchemaRegistryClient,
    header_schema_id_serializer,
)
from confluent_kafka.schema_registry.avro import AvroSerializer  # noqa: E402
from confluent_kafka.serialization import MessageField, SerializationContext  # noqa: E402
from google.protobuf.api_pb2 import Method, Mixin  # noqa: E402

from tandem_kafka.consumer.reading.decoding import Decoding  # noqa: E402
from tandem_kafka.tables import Avro, Protobuf  # noqa: E402 - it imports pyarrow
from tests.unit.tables.avro_values import Registry, encoded, framed, record, status  # noqa: E402

HEADER = {"schema.id.serializer": header_schema_id_serializer}
GUID = UUID("f81d4fae-7dec-11d0-a765-00a0c91e6bf6")


@pytest.fixture(params=IMPLEMENTATIONS, autouse=True)
def implementation(request: pytest.FixtureRequest) -> Iterator[None]:
    """The implementation that reads the records; the decoders have one."""
    require_implementation("native")
    with using(request.param):
        yield


def rows(records: Sequence[Rec], **decoders: ArrowDecoder) -> list[dict[str, Any]]:
    taken = reader(batch(records)).take(100)
    decoded, undecodable = Decoding((), decoders, binary_view=False).batch([taken])
    assert undecodable is None
    decoded.validate(full=True)
    return decoded.to_pylist()


def written(serializer: Any, value: Any, field: str = MessageField.VALUE) -> Rec:
    headers: list[Any] = []
    data = serializer(value, SerializationContext("t", field, headers))
    named = [(name.encode(), content) for name, content in headers]
    return Rec(data, headers=named) if field == MessageField.VALUE else Rec(None, data, named)


def test_avro_of_confluent() -> None:
    registry = SchemaRegistryClient.new_client({"url": "mock://headers_avro"})
    old = json.dumps(record(("a", "int")))
    new = json.dumps(record(("a", "long"), ("b", "string", "?")))
    values = [
        written(AvroSerializer(registry, schema, conf=conf), {"a": number, "b": "ü"})
        for number, (schema, conf) in enumerate([(old, HEADER), (new, None), (new, HEADER)])
    ]
    assert [len(each.headers) for each in values] == [1, 0, 1]
    assert rows([*values, Rec(None)], value=Avro(new, registry=registry, flatten=True)) == [
        {"a": 0, "b": "?"},
        {"a": 1, "b": "ü"},
        {"a": 2, "b": "ü"},
        {"a": None, "b": None},
    ]
    key = written(AvroSerializer(registry, '"string"', conf=HEADER), "k", MessageField.KEY)
    assert rows([key], key=Avro(registry=registry), value=Avro(new, registry=registry)) == [
        {"key": "k", "value": None}
    ]


def test_protobuf_of_confluent() -> None:
    protobuf = pytest.importorskip("confluent_kafka.schema_registry.protobuf")
    registry = SchemaRegistryClient.new_client({"url": "mock://headers_protobuf"})
    prefix, header, other = (
        protobuf.ProtobufSerializer(kind, registry, conf=conf)
        for kind, conf in ((Mixin, None), (Mixin, HEADER), (Method, HEADER))
    )
    values = [
        written(header, Mixin(name="a")),
        written(prefix, Mixin(name="b")),
        written(header, Mixin()),
        written(header, Mixin(name="c")),
        written(other, Method(name="d")),
    ]
    assert values[0].headers[0][1][0] == 1
    assert values[2].value == b""
    decoder = Protobuf(Mixin, confluent=registry, errors="null", flatten=True)
    *read, wrong = rows(values, value=decoder)
    assert [row["name"] for row in read] == ["a", "b", "", "c"]
    told = (
        "value: the header with the schema id: the message is google.protobuf.Method, not "
        "google.protobuf.Mixin"
    )
    assert wrong == {"name": None, "root": None, "error": told}
    without = rows(values, value=Protobuf(Mixin, confluent=True, flatten=True))
    assert [row["name"] for row in without] == ["a", "b", "", "c", "d"]


class WithGuids(Registry):
    """A registry that also has a schema under a GUID."""

    def get_schema_by_guid(self, guid: str) -> Any:
        return self._found(guid)


def test_a_header_that_is_wrong() -> None:
    registry = WithGuids(**{str(GUID): "string", "s1": "string"})
    decoder = Avro("string", registry=registry, errors="null")
    payload, unknown = encoded("string", "x"), b"\1" + bytes(16)
    wrong = {
        b"": "the header with the schema id: 0 bytes have no place for a schema id",
        b"\1" + GUID.bytes[:15]: "the header with the schema id: 16 bytes have no place for a "
        "schema id",
        b"\1" + GUID.bytes + b"\0": "the header with the schema id: 1 bytes are left over",
        b"\2" + GUID.bytes: "the header with the schema id: the first byte is 2, and 0 or 1 comes "
        "before a schema id",
        unknown: f"the registry has no Avro schema {UUID(int=0)}, or lacks one that it refers to, "
        "or it refers to more than 1000",
    }
    records = [Rec(payload, headers=[(b"__value_schema_id", header)]) for header in wrong]
    found = rows(records, value=decoder)
    assert found == [{"value": None, "error": f"value: {reason}"} for reason in wrong.values()]
    rows(records, value=decoder)
    assert registry.asked == [str(GUID), str(UUID(int=0))], "once"


def test_which_header_counts() -> None:
    registry = WithGuids(**{str(GUID): "string", "s1": "string"})
    bare, name = encoded("string", "x"), b"__value_schema_id"
    good = (name, b"\1" + GUID.bytes)
    records = [
        Rec(bare, headers=[(b"trace", b"1"), good, (name, b"")]),
        Rec(bare, headers=[(name, b"\0\0\0\0\1")]),
        Rec(framed(1, "string", "y"), headers=[(b"__key_schema_id", good[1])]),
        Rec(framed(1, "string", "y"), headers=[(name, None), good]),
        Rec(b"\1" + GUID.bytes + bare),
    ]
    found = rows(records, value=Avro("string", registry=registry))
    assert [row["value"] for row in found] == ["x", "x", "y", "y", "x"]
    bare_decoder = Avro("string")
    assert rows(records[:2], value=bare_decoder) == [{"value": "x"}] * 2, "no registry, no header"


def test_protobuf_takes_its_header_whole() -> None:
    decoder = Protobuf(Mixin, confluent=True, errors="null", flatten=True)
    head, payload = b"\1" + GUID.bytes, Mixin(name="a").SerializeToString()
    headers = [head + b"\2\4", head + b"\2", head + b"\0\0", head]
    records = [Rec(payload, headers=[(b"__value_schema_id", each)]) for each in headers]
    good, *wrong = rows(records, value=decoder)
    assert good["name"] == "a"
    before = "value: the header with the schema id: "
    assert [row["error"] for row in wrong] == [
        f"{before}the message indexes after the schema id: the value ends within a number",
        f"{before}1 bytes are left over",
        f"{before}the message indexes after the schema id: the value ends within a number",
    ]


@pytest.mark.parametrize(
    ("registry", "told"),
    [
        (Registry(), r"AttributeError: .*'get_schema_by_guid'"),
        (WithGuids(**{str(GUID): status(404, 404)}), "HTTP 404"),
    ],
)
def test_a_registry_without_guids(registry: Registry, told: str) -> None:
    named = [(b"__value_schema_id", b"\1" + GUID.bytes)]
    with pytest.raises(SchemaRegistryError, match=f"schema {GUID} .*{told}.*by GUID") as caught:
        rows([Rec(b"", headers=named)], value=Avro(registry=registry))
    assert (caught.value.schema_id, caught.value.retriable) == (str(GUID), False)


def test_the_first_schema_must_have_a_type() -> None:
    registry = WithGuids(**{str(GUID): record(("a", ["null", "R"]))})
    named = [(b"__value_schema_id", b"\1" + GUID.bytes)]
    with pytest.raises(InvalidArgumentError, match=f"first record has schema {GUID}: .*the schema"):
        rows([Rec(b"\0", headers=named)], value=Avro(registry=registry))


def test_headers_are_read_with_a_registry_only() -> None:
    seen: list[int] = []

    def decode(*columns: Any) -> Any:
        seen.append(len(columns))
        return columns[0], []

    own = SimpleNamespace(errors="raise", flatten=False, decode=decode)
    named = [(b"__value_schema_id", b"\1" + GUID.bytes)]
    rows([Rec(b"x", headers=named)], value=own)
    assert seen == [1]


def test_large_batches_are_decoded_on_threads() -> None:
    decoder = Avro("string", registry=WithGuids(**{str(GUID): "string", "s1": "string"}))
    texts = [f"{number}" + "x" * 50_000 for number in range(100)]
    by_header = [number % 3 == 0 for number in range(100)]
    values = [
        encoded("string", text) if named else framed(1, "string", text)
        for text, named in zip(texts, by_header, strict=True)
    ]
    headers = [b"\1" + GUID.bytes if named else None for named in by_header]
    columns = pa.array(values, pa.binary()), pa.array(headers, pa.binary())
    for first in (0, 31):
        column, failures = decoder.decode(*(each.slice(first) for each in columns))
        assert (column.to_pylist(), failures) == (texts[first:], [])
    with pytest.raises(ValueError, match="a header for each value"):
        decoder.decode(columns[0], columns[1].slice(1))
