"""Decodes Avro values from the writer's schema to the requested schema.

fastavro reads the values and resolves one schema to the other.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any

from pyspark.sql.types import DataType

from tandem_kafka.errors import InvalidArgumentError
from tandem_kafka.spark.decoding.avro_types import spark_type
from tandem_kafka.spark.decoding.framed import framed
from tandem_kafka.spark.decoding.framing import HEADER, DecodingError
from tandem_kafka.spark.decoding.registry import Registry, Schemas


@dataclass(frozen=True, slots=True)
class AvroValues:
    """The reader's schema as JSON, and the registry with the writers' schemas."""

    registry: Registry
    schema: str

    @classmethod
    def of(cls, registry: Registry, schema: str | Mapping[str, Any]) -> AvroValues:
        """Check a schema.

        Raises:
            InvalidArgumentError: It is not an Avro schema.
        """
        if not isinstance(schema, str | Mapping):
            kind = type(schema).__name__
            raise InvalidArgumentError(f"schema must be an Avro schema as JSON, got: {kind}")
        found = cls(registry, schema if isinstance(schema, str) else json.dumps(schema))
        found.parsed()
        return found

    def parsed(self) -> tuple[Any, dict[str, Any]]:
        """Return the schema as parsed by fastavro, and its named types."""
        named: dict[str, Any] = {}
        try:
            text = json.loads(self.schema)
        except ValueError:
            text = self.schema  # the name of a primitive type, without quotes
        try:
            return _fastavro().parse_schema(text, named_schemas=named), named
        except Exception as error:  # noqa: BLE001 - fastavro raises many types
            message = f"schema is not a valid Avro schema: {type(error).__name__}: {error}"
            raise InvalidArgumentError(message) from None

    def spark_type(self) -> DataType:
        """Return the type of the values.

        Raises:
            InvalidArgumentError: Spark has no corresponding type.
        """
        schema, named = self.parsed()
        return spark_type(schema, named)

    def decoder(self) -> Callable[[bytes], Any]:
        """Return a function that decodes a value."""
        reader = _Reader(self.registry.schemas(), self.parsed()[0])
        return framed(reader.read, "cannot be read with the requested schema")


class _Reader:
    def __init__(self, schemas: Schemas, reader_schema: Any) -> None:
        self._schemas = schemas
        self._reader_schema = reader_schema
        self._read = _fastavro().schemaless_reader
        self._writers: dict[int, Any] = {}

    def read(self, number: int, value: bytes) -> Any:
        writer = self._writers.get(number)
        if writer is None:
            writer = self._writers[number] = self._writer(number)
        source = BytesIO(value)
        source.seek(HEADER)
        found = self._read(source, writer, self._reader_schema)
        excess = len(value) - source.tell()
        if excess:
            raise DecodingError(f"{excess} bytes follow the value")
        return found

    def _writer(self, number: int) -> Any:
        schema = self._schemas.get(number, "AVRO")
        named: dict[str, Any] = {}
        self._refer(schema, named, set())
        return _fastavro().parse_schema(json.loads(schema.schema_str), named_schemas=named)

    def _refer(self, schema: Any, named: dict[str, Any], seen: set[tuple[str, int]]) -> None:
        """Parse the referenced schemas, innermost first and each once."""
        for each in schema.references or ():
            at = (each.subject, each.version)
            if at in seen:
                continue
            seen.add(at)
            inner = self._schemas.referenced(*at)
            self._refer(inner, named, seen)
            _fastavro().parse_schema(json.loads(inner.schema_str), named_schemas=named)


def _fastavro() -> Any:
    try:
        import fastavro  # noqa: PLC0415 - an extra
    except ImportError:
        raise InvalidArgumentError(
            "from_avro needs fastavro: run pip install 'tandem-kafka[spark-avro]'"
        ) from None
    return fastavro
