"""The documents of the ways to Arrow columns, in every encoding that is measured."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

__all__ = ["AVRO", "ENCODINGS", "FRAME", "SIZES", "encoded", "message_class"]

#: Bytes of the values.
SIZES: Final = (80, 1000)
#: What Confluent's serializers write before a value: a zero byte, and the id 1 of a schema.
FRAME: Final = b"\x00\x00\x00\x00\x01"
_LINE_COUNT: Final = 10
#: So many that the shortest JSON document is not larger than 80 bytes.
_NUMBERS: Final = 1_000_000

_LINE: Final = {
    "type": "record",
    "name": "Line",
    "fields": [
        {"name": "sku", "type": "string"},
        {"name": "count", "type": "int"},
        {"name": "price", "type": "double"},
    ],
}
_FIELDS: Final = (
    {"name": "account", "type": "long"},
    {"name": "state", "type": "string"},
    {"name": "amount", "type": "double"},
    {"name": "tags", "type": {"type": "array", "items": "string"}},
)
_NOTE: Final = {"name": "note", "type": "string"}
_LINES: Final = {"name": "lines", "type": {"type": "array", "items": _LINE}}


def _schema(*fields: object) -> dict[str, Any]:
    return {"type": "record", "name": "Document", "fields": [*_FIELDS, *fields, _NOTE]}


#: The schema of the documents of each size; the larger ones have a list of records.
AVRO: Final = {80: _schema(), 1000: _schema(_LINES)}


def encoded(encoding: str, size: int) -> bytes:
    """Return a document whose encoding has this size in bytes; its last field fills it up.

    Args:
        encoding: A name of `ENCODINGS`.
        size: A size of `SIZES`.
    """
    encode, document = ENCODINGS[encoding], _document(lines=size > SIZES[0])
    room = size - len(encode(document, size))
    # The length of a long note needs more bytes than that of an empty one.
    for note in range(room, -1, -1):
        if len(value := encode({**document, "note": "x" * note}, size)) <= size:
            return value
    msg = f"a document in {encoding} needs {size - room} bytes"
    raise ValueError(msg)


def _document(*, lines: bool) -> dict[str, Any]:
    number = int.from_bytes(os.urandom(3)) % _NUMBERS
    document = {"account": number, "state": "open", "amount": number / 100, "tags": ["a", "b"]}
    if lines:
        line = {"sku": f"article-{number}", "count": 3, "price": number / 1000}
        document["lines"] = [line] * _LINE_COUNT
    return {**document, "note": ""}


def _json(document: Mapping[str, Any], _size: int) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def _avro(document: Mapping[str, Any], size: int) -> bytes:
    import fastavro  # noqa: PLC0415 - where it is measured

    into = io.BytesIO(FRAME)
    into.seek(len(FRAME))
    fastavro.schemaless_writer(into, AVRO[size], document)
    return into.getvalue()


def _protobuf(document: Mapping[str, Any], _size: int) -> bytes:
    message: bytes = message_class()(**document).SerializeToString()
    return message


#: Functions that encode a document of a size.
ENCODINGS: Final[Mapping[str, Callable[[Mapping[str, Any], int], bytes]]] = {
    "json": _json,
    "avro": _avro,
    "protobuf": _protobuf,
}


@cache
def message_class() -> Any:
    """Return the generated class of a document; one message describes those of both sizes."""
    from google.protobuf import (  # noqa: PLC0415 - where it is measured
        descriptor_pb2,
        descriptor_pool,
        message_factory,
    )

    file = descriptor_pb2.FileDescriptorProto(name="document.proto", syntax="proto3")
    kinds = descriptor_pb2.FieldDescriptorProto
    types = {"int64": kinds.TYPE_INT64, "string": kinds.TYPE_STRING, "double": kinds.TYPE_DOUBLE}

    def message(name: str, *fields: tuple[str, str, bool]) -> None:
        described = file.message_type.add(name=name)
        for number, (field, kind, many) in enumerate(fields, start=1):
            label = kinds.LABEL_REPEATED if many else kinds.LABEL_OPTIONAL
            of = {"type": types[kind]} if kind in types else {"type_name": kind}
            described.field.add(name=field, number=number, label=label, **of)

    line = ("sku", "string", False), ("count", "int64", False), ("price", "double", False)
    message("Line", *line)
    first = ("account", "int64", False), ("state", "string", False), ("amount", "double", False)
    lists = ("tags", "string", True), ("lines", ".Line", True)
    message("Document", *first, *lists, ("note", "string", False))
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("Document"))
