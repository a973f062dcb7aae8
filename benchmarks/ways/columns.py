"""The ways from documents to Arrow columns: with our decoders, and with other libraries."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Sized
from functools import cache, partial
from typing import Any, Final

from benchmarks.ways.documents import AVRO, FRAME, SIZES, message_class
from benchmarks.ways.way import TANDEM, Way

__all__ = ["BYTES", "column_ways"]

#: The way that decodes nothing.
BYTES: Final = "way-columns-bytes"
#: The part of the records that a slow way reads.
_SOME: Final = 0.2

#: Decodes a column of values.
Decode = Callable[[Any], Sized]
#: Makes that for documents of a size.
Make = Callable[[int], Decode]


def column_ways() -> Iterator[tuple[str, Way]]:
    """Yield the ways to columns, with their names."""
    yield BYTES, Way(TANDEM, "poll_arrow(), values as bytes", _polled(_same))
    for size in SIZES:
        for encoding, (title, make, others) in _LIBRARIES.items():
            name = f"way-columns-{encoding}-{size}"
            yield name, Way(TANDEM, f"poll_arrow(value={title})", _decoded(partial(make, size)))
            for library, (steps, decode) in others.items():
                turn = _polled(partial(decode, size))
                yield f"{name}-{library}", Way(TANDEM, f"poll_arrow(), {steps}", turn, share=_SOME)


def _polled(make: Callable[[], Decode]) -> Callable[[Any, float], Sized]:
    made = cache(make)  # where it is measured, at the first turn

    def turn(consumer: Any, timeout_s: float) -> Sized:
        return made()(consumer.poll_arrow(int(timeout_s * 1000), columns=["value"])["value"])

    return turn


def _decoded(make: Callable[[], Any]) -> Callable[[Any, float], Sized]:
    made = cache(make)

    def turn(consumer: Any, timeout_s: float) -> Sized:
        batch: Sized = consumer.poll_arrow(int(timeout_s * 1000), columns=[], value=made())
        return batch

    return turn


def _same() -> Decode:
    return lambda column: column


# --- JSON -----------------------------------------------------------------------------------------


def _schema(size: int) -> Any:
    import pyarrow as pa  # noqa: PLC0415 - where it is measured

    types = {"long": pa.int64(), "string": pa.string(), "double": pa.float64(), "int": pa.int32()}

    def type_of(described: Any) -> Any:
        if isinstance(described, str):
            return types[described]
        if described["type"] == "array":
            return pa.list_(type_of(described["items"]))
        return pa.struct([(each["name"], type_of(each["type"])) for each in described["fields"]])

    return pa.schema(type_of(AVRO[size]))


def _json(size: int) -> Any:
    from tandem_kafka.tables import Json  # noqa: PLC0415 - where it is measured

    return Json(_schema(size))


def _loads(size: int) -> Decode:
    import pyarrow as pa  # noqa: PLC0415 - where it is measured

    schema = _schema(size)

    def decode(column: Any) -> Sized:
        documents = [json.loads(each) for each in column.to_pylist()]
        table: Sized = pa.Table.from_pylist(documents, schema=schema)
        return table

    return decode


def _polars(size: int) -> Decode:
    import polars as pl  # noqa: PLC0415 - where it is measured

    document = pl.Struct(dict(pl.DataFrame(_schema(size).empty_table()).schema))

    def decode(column: Any) -> Sized:
        values = pl.Series(column).cast(pl.String)
        decoded: Sized = values.str.json_decode(document)
        return decoded

    return decode


# --- Avro -----------------------------------------------------------------------------------------


def _registry(size: int) -> Any:
    """Return a registry in this process that has the schema of this size, as id 1."""
    from confluent_kafka.schema_registry import (  # noqa: PLC0415 - where it is measured
        Schema,
        SchemaRegistryClient,
    )

    client = SchemaRegistryClient.new_client({"url": "mock://"})
    known = client.register_schema("documents-value", Schema(json.dumps(AVRO[size]), "AVRO"))
    if known != int.from_bytes(FRAME):
        msg = f"the registry calls the schema {known}"
        raise RuntimeError(msg)
    return client


def _avro(size: int) -> Any:
    from tandem_kafka.tables import Avro  # noqa: PLC0415 - where it is measured

    return Avro(registry=_registry(size))


def _fastavro(size: int) -> Decode:
    import fastavro  # noqa: PLC0415 - where it is measured

    schema = fastavro.parse_schema(AVRO[size])
    read, skipped = fastavro.schemaless_reader, len(FRAME)

    def decode(column: Any) -> Sized:
        return [read(io.BytesIO(each[skipped:]), schema) for each in column.to_pylist()]

    return decode


def _deserializer(size: int) -> Decode:
    from confluent_kafka.schema_registry.avro import (  # noqa: PLC0415 - where it is measured
        AvroDeserializer,
    )
    from confluent_kafka.serialization import (  # noqa: PLC0415
        MessageField,
        SerializationContext,
    )

    read = AvroDeserializer(_registry(size))
    context = SerializationContext("documents", MessageField.VALUE)

    def decode(column: Any) -> Sized:
        return [read(each, context) for each in column.to_pylist()]

    return decode


# --- Protobuf -------------------------------------------------------------------------------------


def _protobuf(_size: int) -> Any:
    from tandem_kafka.tables import Protobuf  # noqa: PLC0415 - where it is measured

    return Protobuf(message_class())


def _messages(_size: int) -> Decode:
    read = message_class().FromString

    def decode(column: Any) -> Sized:
        return [read(each) for each in column.to_pylist()]

    return decode


def _message_table(size: int) -> Decode:
    import pyarrow as pa  # noqa: PLC0415 - where it is measured

    schema, read = _schema(size), message_class().FromString

    def row(message: Any) -> dict[str, Any]:
        lines = [
            {"sku": each.sku, "count": each.count, "price": each.price} for each in message.lines
        ]
        return {
            "account": message.account,
            "state": message.state,
            "amount": message.amount,
            "tags": list(message.tags),
            "lines": lines,
            "note": message.note,
        }

    def decode(column: Any) -> Sized:
        rows = [row(read(each)) for each in column.to_pylist()]
        table: Sized = pa.Table.from_pylist(rows, schema=schema)
        return table

    return decode


#: For each encoding: our decoder, and what other libraries make of the values.
_LIBRARIES: Final[dict[str, tuple[str, Callable[[int], Any], dict[str, tuple[str, Make]]]]] = {
    "json": (
        "Json(schema)",
        _json,
        {
            "loads": ("json.loads and Table.from_pylist", _loads),
            "polars": ("json_decode of polars", _polars),
        },
    ),
    "avro": (
        "Avro(registry=...)",
        _avro,
        {
            "fastavro": ("fastavro.schemaless_reader to dicts", _fastavro),
            "confluent": ("AvroDeserializer of confluent to dicts", _deserializer),
        },
    ),
    "protobuf": (
        "Protobuf(Document)",
        _protobuf,
        {
            "messages": ("Document.FromString to messages", _messages),
            "table": ("Document.FromString and Table.from_pylist", _message_table),
        },
    ),
}
