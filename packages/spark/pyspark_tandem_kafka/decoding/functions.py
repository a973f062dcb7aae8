"""The column functions: Spark's own parser for JSON, `tandem_kafka.tables` for Avro and Protobuf.

Why not `tandem_kafka.tables.Json`: Spark defines what its types accept in JSON, and its parser is
in the JVM, where the bytes are. A Python worker would have to return the same values, later.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa
import pyspark
from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructField, StructType

from pyspark_tandem_kafka.decoding.registered import (
    HEADER,
    SPARK,
    Protobuf,
    Registered,
    Registry,
    decode_array,
)
from pyspark_tandem_kafka.failures import sentence_first
from tandem_kafka.errors import InvalidArgumentError
from tandem_kafka.tables import Avro

_MODES: Final = ("failfast", "permissive")
_CORRUPT: Final = "_tandem_corrupt"
#: An upper limit for the length of a value in bytes.
_MAX_BYTES: Final = 2**31 - 1


def from_json(
    column: Column | str,
    schema: DataType | str,
    *,
    framed: bool = False,
    mode: str = "failfast",
) -> Column:
    """Decode JSON in a binary column with Spark's own `from_json`.

    Args:
        column: A binary column; null stays null.
        schema: A Spark type, or a string such as `"id long, cents long"`.
        framed: True if a schema registry's serializer wrote the values: a byte 0 and the schema
            id precede the text. The prefix is removed without contacting the registry.
        mode: `failfast` ends the query at a value that is not JSON of this schema; `permissive`
            returns null instead.

    Returns:
        A column of the schema's type.

    Raises:
        InvalidArgumentError: The mode or the schema is invalid.
    """
    permissive = _is_permissive(mode)
    if not isinstance(schema, str | DataType):
        kind = type(schema).__name__
        raise InvalidArgumentError(f"schema must be a Spark type or a string, got: {kind}")
    if isinstance(schema, str):
        schema = _parsed(schema)
    value = _marked_expensive(_column(column).cast("binary"))
    text = (_unframed(value, permissive) if framed else value).cast("string")
    if not permissive:
        return f.from_json(text, schema, {"mode": "FAILFAST"})
    if not isinstance(schema, StructType):
        return f.from_json(text, schema, {"mode": "PERMISSIVE"})
    # Spark returns a row of nulls for corrupt text. The extra column distinguishes it from a row
    # whose fields are null.
    noted = StructType([*schema.fields, StructField(_CORRUPT, StringType())])
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    names = schema.fieldNames()
    # Spark parses once for each use of `from_json` in an expression. It computes the parameter of
    # a lambda only once.
    return f.transform(
        f.array(f.from_json(text, noted, options)), lambda found: _if_good(found, names)
    )[0]


def _if_good(found: Column, names: list[str]) -> Column:
    """Return the parsed fields, or null if the text is corrupt."""
    whole = f.struct(*(found.getField(name).alias(name) for name in names))
    return f.when(found.isNotNull() & found.getField(_CORRUPT).isNull(), whole)


def _marked_expensive(column: Column) -> Column:
    """Return the column in a form that Spark 4.2 and newer decode once, even in filters.

    Spark pushes a filter below the projection that decodes, and then decodes again for each use in
    the filter, unless it considers an expression expensive. Regular expressions are expensive. This
    one is evaluated only for nulls, and returns null.
    """
    return f.coalesce(column, column.cast("string").rlike("").cast("string").cast("binary"))


def _unframed(value: Column, permissive: bool) -> Column:
    """Return the payload of each framed value."""
    is_framed = f.substring(value, 1, 1) == f.lit(b"\0")
    is_framed &= f.octet_length(value) >= HEADER
    payload = f.substring(value, HEADER + 1, _MAX_BYTES)
    if permissive:
        return f.when(is_framed, payload)
    bad = f.raise_error(f.lit("a value is not framed: it does not begin with 0x00 and a schema id"))
    return f.when(is_framed, payload).when(value.isNotNull(), bad.cast("binary"))


def from_avro(
    column: Column | str,
    *,
    registry: Mapping[str, Any],
    schema: str | Mapping[str, Any],
    mode: str = "failfast",
) -> Column:
    """Decode Avro that a schema registry's serializer wrote (a byte 0, the schema id, the value).

    Args:
        column: A binary column; null stays null.
        registry: The configuration of confluent-kafka's `SchemaRegistryClient`, at least `url`.
            Plans do not show it.
        schema: The reader's schema, as JSON or as a dict. Values with a different writer's schema
            are converted by Avro's rules.
        mode: `failfast` ends the query with a `DecodingError` at a value that cannot be decoded;
            `permissive` returns null instead. A failed request to the registry is an error in
            both modes.

    Returns:
        A column of the schema's type: records are structs.

    Raises:
        InvalidArgumentError: An argument is invalid, Spark has no corresponding type, or Spark is
            older than 4.1.
        ImportError: The native extension is not loaded.
    """
    _need_arrow_functions("from_avro")
    permissive = _is_permissive(mode)
    if not isinstance(schema, str | Mapping):
        kind = type(schema).__name__
        raise InvalidArgumentError(f"schema must be an Avro schema as JSON, got: {kind}")
    text = schema if isinstance(schema, str) else json.dumps(schema)
    values = Registered(Registry.of(registry), text)
    return _decoded("from_avro", column, values, Avro(text).schema, permissive)


def from_protobuf(
    column: Column | str,
    *,
    registry: Mapping[str, Any],
    message: Any,
    descriptors: bytes | None = None,
    mode: str = "failfast",
) -> Column:
    """Decode Protobuf that a schema registry's serializer wrote.

    A value consists of a byte 0, the schema id, the message indexes, and the message.

    Args:
        column: A binary column; null stays null.
        registry: See `from_avro`.
        message: A generated class, or the full name of a message in `descriptors`.
        descriptors: A `FileDescriptorSet`, as written by protoc with `--include_imports`.
        mode: See `from_avro`.

    Returns:
        A column of structs. An unset optional field is null; other unset fields have their
        default.

    Raises:
        InvalidArgumentError: An argument is invalid, Spark has no corresponding type, or Spark is
            older than 4.1.
        ImportError: The native extension is not loaded.
    """
    _need_arrow_functions("from_protobuf")
    permissive = _is_permissive(mode)
    if isinstance(message, str) != isinstance(descriptors, bytes) or not (
        isinstance(message, str) or hasattr(message, "DESCRIPTOR")
    ):
        raise InvalidArgumentError(
            "message must be a generated class, or a name with descriptors: a FileDescriptorSet in "
            "bytes (protoc --include_imports --descriptor_set_out); got "
            f"{message!r} and {type(descriptors).__name__}"
        )
    made = Protobuf(message) if descriptors is None else Protobuf(descriptors, message)
    values = Registered(Registry.of(registry), made.message, made.descriptors)
    return _decoded("from_protobuf", column, values, made.schema, permissive)


def _need_arrow_functions(name: str) -> None:
    if not hasattr(f, "arrow_udf"):
        raise InvalidArgumentError(
            f"{name} needs Spark 4.1 or newer, this is {pyspark.__version__}"
        )


def _decoded(
    name: str, column: Column | str, values: Registered, decoded: pa.DataType, permissive: bool
) -> Column:
    kind = spark_type(SPARK.type_of(decoded, "the value"))

    def decode(column: pa.Array) -> pa.Array:
        return decode_array(column, values.decoder(), permissive=permissive)

    # Plans show this name and nothing else of the function.
    decode.__name__ = name
    return f.arrow_udf(sentence_first(decode), returnType=kind)(
        _marked_expensive(_column(column).cast("binary"))
    )


def spark_type(stored: pa.DataType) -> DataType:
    """Return the type of Spark for what is stored; all in it may be null.

    Spark 4.1 fails for structs with the field `wkb`, which it takes for its own type of places.
    """
    if pa.types.is_struct(stored):
        return StructType([StructField(each.name, spark_type(each.type)) for each in stored])
    if pa.types.is_list(stored):
        return ArrayType(spark_type(stored.value_type))
    if pa.types.is_map(stored):
        return MapType(spark_type(stored.key_type), spark_type(stored.item_type))
    return from_arrow_type(stored, prefer_timestamp_ntz=True)


def _column(column: Column | str) -> Column:
    return f.col(column) if isinstance(column, str) else column


def _is_permissive(mode: str) -> bool:
    if mode not in _MODES:
        raise InvalidArgumentError(f"mode must be {' or '.join(_MODES)}, got {mode!r}")
    return mode == "permissive"


def _parsed(schema: str) -> StructType:
    try:
        return StructType.fromDDL(schema)
    except Exception as error:  # noqa: BLE001 - errors of Spark's parser
        reason = str(error).splitlines()[0]
        raise InvalidArgumentError(f"schema {schema!r} is not valid: {reason}") from None
