"""Values of Protobuf behind the id of a schema, and a registry that has it."""

from __future__ import annotations

import base64
from types import SimpleNamespace
from typing import Any

import pytest

from tandem_kafka.errors import InvalidArgumentError

pa = pytest.importorskip("pyarrow")
pytest.importorskip("google.protobuf")

from google.protobuf import (  # noqa: E402
    descriptor_pb2,
)

from tandem_kafka.tables import Protobuf  # noqa: E402 - it imports pyarrow
from tests.unit.tables.avro_values import status  # noqa: E402
from tests.unit.tables.protobuf_values import (  # noqa: E402
    SET,
    Three,
    decoded,
    plain,
    same,
)

pytestmark = pytest.mark.usefixtures("native_extension")


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
