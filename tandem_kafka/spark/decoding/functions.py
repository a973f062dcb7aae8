"""The functions on columns: Spark's own for JSON, Arrow functions for what a registry describes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa
import pyspark
from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql.types import DataType, StringType, StructField, StructType

from tandem_kafka.errors import InvalidArgumentError
from tandem_kafka.spark.decoding.avro import AvroValues
from tandem_kafka.spark.decoding.batches import Values, arrow_type, decode_array
from tandem_kafka.spark.decoding.framing import HEADER, MAGIC
from tandem_kafka.spark.decoding.protobuf import ProtobufValues
from tandem_kafka.spark.decoding.registry import Registry
from tandem_kafka.spark.failures import sentence_first

__all__ = ["from_avro", "from_json", "from_protobuf"]

_MODES: Final = ("failfast", "permissive")
_CORRUPT: Final = "_tandem_corrupt"
#: Bytes; more than any value has.
_LONGEST: Final = 2**31 - 1


def from_json(
    column: Column | str,
    schema: DataType | str,
    *,
    framed: bool = False,
    mode: str = "failfast",
) -> Column:
    """Decode JSON in a binary column, by Spark's own `from_json`.

    Args:
        column: Binary; null stays null.
        schema: A type, or a text such as `"id long, cents long"`.
        framed: The values were written with a schema registry: a byte 0 and the schema's id stand
            before the text. They are taken off; the registry is not asked, `schema` counts.
        mode: `failfast` ends the query at a value that is no JSON of this schema, `permissive`
            gives null for it.

    Returns:
        A column of the schema's type.

    Raises:
        InvalidArgumentError: The mode is neither, or the schema no schema.
    """
    permissive = _is_permissive(mode)
    if not isinstance(schema, str | DataType):
        kind = type(schema).__name__
        raise InvalidArgumentError(f"schema must be a type of Spark or a text, got a {kind}")
    if isinstance(schema, str):
        schema = _parsed(schema)
    value = _marked_expensive(_column(column).cast("binary"))
    text = (_unframed(value, permissive) if framed else value).cast("string")
    if not permissive:
        return f.from_json(text, schema, {"mode": "FAILFAST"})
    if not isinstance(schema, StructType):
        return f.from_json(text, schema, {"mode": "PERMISSIVE"})
    # Spark gives a row of nulls for what it cannot read: the text beside it tells the two apart.
    noted = StructType([*schema.fields, StructField(_CORRUPT, StringType())])
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    names = schema.fieldNames()
    # An expression that names `from_json` several times parses several times. The parameter of a
    # lambda is computed once.
    return f.transform(
        f.array(f.from_json(text, noted, options)), lambda found: _if_good(found, names)
    )[0]


def _if_good(found: Column, names: list[str]) -> Column:
    """Return the fields of what was parsed, null if it is corrupt."""
    whole = f.struct(*(found.getField(name).alias(name) for name in names))
    return f.when(found.isNotNull() & found.getField(_CORRUPT).isNull(), whole)


def _marked_expensive(column: Column) -> Column:
    """Return the column, so that Spark 4.2 and newer decode it once, also where rows are filtered.

    Spark pushes a filter below the projection that decodes, and decodes once more for each use in
    the filter, unless an expression in it counts as expensive. A regular expression does. This one
    is computed for nulls only, and gives null.
    """
    return f.coalesce(column, column.cast("string").rlike("").cast("string").cast("binary"))


def _unframed(value: Column, permissive: bool) -> Column:
    """Return what stands behind the frame of each value."""
    is_framed = f.substring(value, 1, 1) == f.lit(bytes([MAGIC]))
    is_framed &= f.octet_length(value) >= HEADER
    payload = f.substring(value, HEADER + 1, _LONGEST)
    if permissive:
        return f.when(is_framed, payload)
    bad = f.raise_error(f.lit("a value is not framed: no magic byte 0x00 and schema id before it"))
    return f.when(is_framed, payload).when(value.isNotNull(), bad.cast("binary"))


def from_avro(
    column: Column | str,
    *,
    registry: Mapping[str, Any],
    schema: str | Mapping[str, Any],
    mode: str = "failfast",
) -> Column:
    """Decode Avro that was written with a schema registry (a byte 0, the schema's id, the value).

    Args:
        column: Binary; null stays null.
        registry: The configuration of confluent-kafka's `SchemaRegistryClient`, at least `url`.
            It is not shown in plans.
        schema: The schema to read with, as JSON or as a dict; what was written with another one
            is brought to this one by Avro's rules.
        mode: `failfast` ends the query at a value that cannot be decoded, with a `DecodingError`,
            `permissive` gives null for it. A registry that cannot be asked is an error in both.

    Returns:
        A column of the schema's type: records are structs.

    Raises:
        InvalidArgumentError: An argument is wrong, Spark has no type for the schema, or is older
            than 4.1.
    """
    _need_arrow_functions("from_avro")
    permissive = _is_permissive(mode)
    values = AvroValues.of(Registry.of(registry), schema)
    return _decoded("from_avro", _column(column), values, values.spark_type(), permissive)


def from_protobuf(
    column: Column | str,
    *,
    registry: Mapping[str, Any],
    message: Any,
    descriptors: bytes | None = None,
    mode: str = "failfast",
) -> Column:
    """Decode Protobuf that was written with a schema registry (as Avro, then message indexes).

    Args:
        column: Binary; null stays null.
        registry: As for `from_avro`.
        message: A generated class, or the full name of a message in `descriptors`.
        descriptors: A `FileDescriptorSet`, as protoc writes it with `--include_imports`.
        mode: As for `from_avro`.

    Returns:
        A column of structs. A field that can be unset is null then, others have their default.

    Raises:
        InvalidArgumentError: An argument is wrong, Spark has no type for the message, or is older
            than 4.1.
    """
    _need_arrow_functions("from_protobuf")
    permissive = _is_permissive(mode)
    values = ProtobufValues.of(Registry.of(registry), message, descriptors)
    return _decoded("from_protobuf", _column(column), values, values.spark_type(), permissive)


def _need_arrow_functions(name: str) -> None:
    if not hasattr(f, "arrow_udf"):
        raise InvalidArgumentError(
            f"{name} needs Spark 4.1 or newer, this is {pyspark.__version__}"
        )


def _decoded(name: str, column: Column, values: Values, kind: DataType, permissive: bool) -> Column:
    arrow = arrow_type(kind)

    def decode(column: pa.Array) -> pa.Array:
        return decode_array(column, values, arrow, permissive=permissive)

    # The name is all that a plan shows of it.
    decode.__name__ = name
    return f.arrow_udf(sentence_first(decode), returnType=kind)(
        _marked_expensive(column.cast("binary"))
    )


def _column(column: Column | str) -> Column:
    return f.col(column) if isinstance(column, str) else column


def _is_permissive(mode: str) -> bool:
    if mode not in _MODES:
        raise InvalidArgumentError(f"mode must be {' or '.join(_MODES)}, got {mode!r}")
    return mode == "permissive"


def _parsed(schema: str) -> StructType:
    try:
        return StructType.fromDDL(schema)
    except Exception as error:  # noqa: BLE001 - Spark's parser has errors of its own
        told = str(error).splitlines()[0]
        raise InvalidArgumentError(f"schema {schema!r} is no schema: {told}") from None
