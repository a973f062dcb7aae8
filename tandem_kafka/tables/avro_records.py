"""`Avro`: the decoder of Avro, with or without a schema registry."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from tandem_kafka.errors import InvalidArgumentError
from tandem_kafka.logs import client_logger
from tandem_kafka.tables.registered_decoder import RegisteredDecoder
from tandem_kafka.tables.registry import SchemaId, SchemaRegistry, Schemas, named
from tandem_kafka.types import DecodeErrors

log = client_logger(__name__)

#: The digits of decimal128 and decimal256.
_PRECISIONS: Final = (38, 76)


class Avro(RegisteredDecoder):
    """Decodes Avro, usually records into a column of structs.

    Without a registry, values are bare Avro of the schema. With one, each value begins with a zero
    byte and the id of its schema in 4 bytes, or its record has a header with the GUID of the
    schema, as the serializers of Confluent write them. Values of other schemas are resolved to the
    one that was given, or else that of the first record: fields by name or alias, defaults,
    promotions, unions. Outside unions, the names of types are not compared.

    Types of Arrow are those of Avro. An enum is a string, uuid keeps the type it is written in,
    other logical types are decoded. A union with null is nullable, int with long is int64, float
    with double is float64; any other union is a struct with the fields member0, member1 and so on,
    of which one is not null. Timestamps and times may become finer, decimals keep their scale. No
    Arrow type refers to itself, so the reader's schema may not.

    A value is checked whole: bytes that are missing or left over are errors.

    Args:
        schema: The reader's schema, as JSON or as what JSON stands for.
        registry: A client such as ``confluent_kafka.schema_registry.SchemaRegistryClient``. It is
            asked once for each schema, on the thread that polls (asyncio: in the event loop).
        max_precision: The most digits of a decimal. With 38, a decimal of more digits has the type
            decimal128(38, scale), which DuckDB, polars, Delta Lake and Spark take, and a value that
            does not fit is such an error. With 76, it is decimal256. Kafka Connect writes decimals
            of 64 digits by default.
        errors: As for `Json`. A schema that the registry does not have is such an error; it is
            asked for again after ten seconds.
        flatten: The fields become columns of the batch, in place of the column of structs.
        timeout_ms: How long to ask a registry for the schemas of a call, and for those that they
            refer to (at most 1,000 each), in milliseconds; also again if it is down.
            ``poll_arrow()`` raises `SchemaRegistryError` then, and positions stay. A call of the
            client itself is not cut short: it has timeouts of its own.

    Raises:
        InvalidArgumentError: The schema is none, or has no type in Arrow; there is neither schema
            nor registry; ``max_precision`` or ``errors`` is none of these. Raised by
            ``poll_arrow()`` if the schema of the first record has no type in Arrow.
        ImportError: The native extension is not loaded.
    """

    def __init__(
        self,
        schema: str | Mapping[str, Any] | Sequence[Any] | None = None,
        *,
        registry: SchemaRegistry | None = None,
        max_precision: Literal[38, 76] = 76,
        errors: DecodeErrors = "raise",
        flatten: bool = False,
        timeout_ms: float = 30_000,
    ) -> None:
        super().__init__(errors, flatten=flatten)
        if schema is None and registry is None:
            msg = "Avro needs a schema, a registry, or both"
            raise InvalidArgumentError(msg)
        if max_precision not in _PRECISIONS:
            msg = f"max_precision must be 38 or 76, got {max_precision!r}"
            raise InvalidArgumentError(msg)
        self._max_precision = max_precision
        self._reader: Sequence[str] | None = None
        #: The schema of the first record, if none was given.
        self._first: SchemaId | None = None
        if schema is not None:
            self._reader = [schema if isinstance(schema, str) else _json(schema)]
        if registry is not None:
            self._schemas, self._framed = Schemas(registry, timeout_ms, "AVRO"), True
        self._rebuild()

    def _rebuild(self) -> None:
        writers = None if self._schemas is None else self._schemas.known
        if self._reader is None and writers:
            self._first = next(iter(writers))
            self._reader = writers[self._first]
        reader = self._reader or ['"null"']
        make = self._native.ColumnDecoder.avro
        first = self._first
        origin = "" if first is None else f"the first record has schema {named(first)}: "
        self._use(lambda: make(reader, writers, self._max_precision), origin)
        if first is not None and writers:
            for each in [*writers][self._built :]:
                more = self._decoder.left_out(each)
                if more:
                    log.warning(
                        "Schema %s has fields that are left out, as schema %s of the first record "
                        "lacks them: %s; give Avro() a schema with them, or start again",
                        named(each),
                        named(first),
                        more,
                    )


def _json(schema: Mapping[str, Any] | Sequence[Any]) -> str:
    try:
        return json.dumps(schema)
    except (TypeError, ValueError) as error:
        msg = f"schema must be JSON, or what JSON stands for, got {schema!r}: {error}"
        raise InvalidArgumentError(msg) from None
