"""Measures decoding alone: the values are in Spark's cache before the clock starts.

Spark's own decoders do not support a schema registry. For them, `substring` removes the prefix
before the payload, and all values have one schema.
"""

from __future__ import annotations

import base64
import functools
import io
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.spark.connector import jars_of
from benchmarks.spark.tables import OURS
from pipeline.registry import SchemaRegistry, framed

__all__ = ["FORMATS", "QUERIES", "Decoding", "decoder_jars", "orders"]

#: A repository may lack the decoders for this version of Spark. spark-avro of 4.1 runs on 4.3.
_LAST_RESORT = {"avro": "4.1.1", "protobuf": "4.1.1"}

SPARKS_OWN = "Spark's own"
FORMATS = ("json", "avro", "protobuf")
#: Operations on the decoded column `o`.
_ALL = "all fields selected"
_SOME = "filtered by four fields, then selected"
_STREAM = "all fields selected, as a stream"
QUERIES = (_ALL, _SOME, _STREAM)
_FILTER = "o.id % 2 = 0 and o.cents > 0 and o.customer is not null and o.to is not null"

_DDL = (
    "id long, customer string, cents long, at_ms long, note string, tags array<string>, "
    "to struct<street: string, city: string>"
)
_AVRO: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": "string"},
        {"name": "cents", "type": "long"},
        {"name": "at_ms", "type": "long"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {
            "name": "to",
            "type": {
                "type": "record",
                "name": "Address",
                "fields": [
                    {"name": "street", "type": "string"},
                    {"name": "city", "type": "string"},
                ],
            },
        },
    ],
}
_MESSAGE = "shop.Order"
_NOTE = "Please ring twice, and leave the parcel with the neighbours if nobody opens. " * 2


@functools.cache
def decoder_jars() -> tuple[str, ...]:
    """Return the jars of spark-avro and spark-protobuf that can be downloaded."""
    return tuple(str(jar) for name in _LAST_RESORT for jar in _jars(name))


@functools.cache
def _jars(name: str) -> Sequence[Path]:
    versions = dict.fromkeys((version("pyspark"), _LAST_RESORT[name]))
    artifact = f"org.apache.spark:spark-{name}_2.13"
    return jars_of({f"spark-{name}-{each}": (f"{artifact}:{each}",) for each in versions})


class Decoding:
    """Orders in all formats, and a registry with their schemas."""

    def __init__(self, rows: Any, folder: Path, registry: SchemaRegistry) -> None:
        self._rows = rows
        self._folder = folder
        self._registry = registry
        self.served = ("json", *(name for name in _LAST_RESORT if _jars(name)))

    def mean_size(self, name: str) -> float:
        """Return the average size of a value in bytes."""
        found: float = self._rows.selectExpr(f"avg(octet_length({name}))").first()[0]
        return found

    def decoders(self, name: str) -> list[str]:
        """Return the names of the available decoders."""
        return [OURS, SPARKS_OWN] if name in self.served else [OURS]

    def noop(self, name: str, query: str, decoder: str) -> None:
        """Decode all values, and discard the columns."""
        column = _ours(name, self._registry.url) if decoder == OURS else _SPARKS_OWN[name]()
        if query == _STREAM:
            self._stream(column)
            return
        rows = self._rows.select(column.alias("o"))
        if query == _SOME:
            rows = rows.where(_FILTER)
        rows.select("o.*").write.format("noop").mode("overwrite").save()

    def _stream(self, column: Any) -> None:
        """Decode all values in one micro-batch of a stream that reads them from a file."""
        rows = self._rows.sparkSession.readStream.schema(self._rows.schema)
        decoded = rows.parquet(str(self._folder)).select(column.alias("o")).select("o.*")
        query = decoded.writeStream.format("noop").trigger(availableNow=True).start()
        query.awaitTermination()


@contextmanager
def orders(spark: Any, count: int) -> Iterator[Decoding]:
    """Put `count` orders into Spark's cache."""
    import pyarrow as pa  # noqa: PLC0415 - like Spark

    with SchemaRegistry() as registry, TemporaryDirectory() as folder:
        encoders = {
            "json": lambda order: json.dumps(order).encode(),
            "avro": _avro_encoder(registry),
            "protobuf": _protobuf_encoder(registry),
        }
        made = [_order(number) for number in range(count)]
        table = pa.table({name: list(map(each, made)) for name, each in encoders.items()})
        rows = spark.createDataFrame(table).cache()
        rows.count()
        values = Path(folder, "values")
        rows.write.parquet(str(values))
        yield Decoding(rows, values, registry)
        rows.unpersist()


def _order(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "customer": f"customer-{number % 10_007}",
        "cents": number * 7 % 100_000 + 1,
        "at_ms": 1_767_600_000_000 + number,
        "note": _NOTE[number % 50 :],
        "tags": ["new", "gift"],
        "to": {"street": f"Some Street {number % 300}", "city": "Bremen"},
    }


def _avro_encoder(registry: SchemaRegistry) -> Callable[[Any], bytes]:
    import fastavro  # noqa: PLC0415 - an extra

    number = registry.register("avro", {"schema": json.dumps(_AVRO)})
    parsed = fastavro.parse_schema(_AVRO)

    def encode(order: Any) -> bytes:
        into = io.BytesIO()
        fastavro.schemaless_writer(into, parsed, order)
        return framed(number, into.getvalue())

    return encode


def _protobuf_encoder(registry: SchemaRegistry) -> Callable[[Any], bytes]:
    from google.protobuf import descriptor_pool, message_factory  # noqa: PLC0415 - an extra

    file = _file()
    text = base64.b64encode(file.SerializeToString()).decode()
    number = registry.register("protobuf", {"schema": text, "schemaType": "PROTOBUF"})
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    message: Any = message_factory.GetMessageClass(pool.FindMessageTypeByName(_MESSAGE))
    # One more 0 after the schema id means the first message of the file.
    return lambda order: framed(number, b"\0" + message(**order).SerializeToString())


def _file() -> Any:
    """Return the descriptor of an order in proto3, like protoc's."""
    from google.protobuf import descriptor_pb2  # noqa: PLC0415 - an extra

    file = descriptor_pb2.FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    order = file.message_type.add(name="Order")
    address = order.nested_type.add(name="Address")
    kinds = descriptor_pb2.FieldDescriptorProto
    number, text, message = kinds.TYPE_INT64, kinds.TYPE_STRING, kinds.TYPE_MESSAGE
    types = {"id": number, "customer": text, "cents": number, "at_ms": number, "note": text}
    for name, kind in (types | {"tags": text, "to": message}).items():
        label = kinds.LABEL_REPEATED if name == "tags" else kinds.LABEL_OPTIONAL
        order.field.add(name=name, number=len(order.field) + 1, type=kind, label=label)
    order.field[-1].type_name = f".{_MESSAGE}.Address"
    for at, name in enumerate(("street", "city"), 1):
        address.field.add(name=name, number=at, type=text, label=kinds.LABEL_OPTIONAL)
    return file


def _descriptors() -> bytes:
    from google.protobuf import descriptor_pb2  # noqa: PLC0415 - an extra

    found: bytes = descriptor_pb2.FileDescriptorSet(file=[_file()]).SerializeToString()
    return found


# The decoders


def _ours(name: str, url: str) -> Any:
    from pyspark_tandem_kafka import decoding  # noqa: PLC0415 - needs pyspark

    if name == "json":
        return decoding.from_json("json", _DDL)
    if name == "avro":
        return decoding.from_avro("avro", registry={"url": url}, schema=_AVRO)
    return decoding.from_protobuf(
        "protobuf", registry={"url": url}, message=_MESSAGE, descriptors=_descriptors()
    )


def _sparks_json() -> Any:
    from pyspark.sql import functions as sql  # noqa: PLC0415 - needs pyspark

    return sql.from_json(sql.col("json").cast("string"), _DDL, {"mode": "FAILFAST"})


def _sparks_avro() -> Any:
    from pyspark.sql import functions as sql  # noqa: PLC0415 - needs pyspark
    from pyspark.sql.avro.functions import from_avro  # noqa: PLC0415

    return from_avro(sql.expr("substring(avro, 6)"), json.dumps(_AVRO))


def _sparks_protobuf() -> Any:
    from pyspark.sql import functions as sql  # noqa: PLC0415 - needs pyspark
    from pyspark.sql.protobuf.functions import from_protobuf  # noqa: PLC0415

    payload = sql.expr("substring(protobuf, 7)")
    return from_protobuf(payload, _MESSAGE, binaryDescriptorSet=_descriptors())


_SPARKS_OWN = {"json": _sparks_json, "avro": _sparks_avro, "protobuf": _sparks_protobuf}
