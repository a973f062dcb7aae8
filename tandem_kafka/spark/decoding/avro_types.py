"""Spark types for Avro types; unsupported types are rejected before anything is read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from tandem_kafka.errors import InvalidArgumentError

_PLAIN: Final = {
    "boolean": BooleanType(),
    "int": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "bytes": BinaryType(),
    "string": StringType(),
    "enum": StringType(),
    "fixed": BinaryType(),
}
#: Spark types by Avro type and logical type.
_LOGICAL: Final = {
    ("int", "date"): DateType(),
    ("long", "timestamp-millis"): TimestampType(),
    ("long", "timestamp-micros"): TimestampType(),
}
_MAX_DIGITS: Final = 38


def spark_type(schema: Any, named: Mapping[str, Any], *, at: str = "", open_: Any = ()) -> DataType:
    """Return the type of the values of a schema.

    Args:
        schema: The schema as parsed by fastavro.
        named: The records, enums and fixed types by full name.
        at: The path within the schema, for errors.
        open_: The enclosing records, to detect recursion.

    Raises:
        InvalidArgumentError: Spark has no corresponding type.
    """
    if isinstance(schema, list):
        return _union(schema, named, at, open_)
    if isinstance(schema, str):
        found = _PLAIN.get(schema)
        return found or spark_type(named[schema], named, at=at, open_=open_)
    if "logicalType" in schema:
        return _logical(schema, at)
    return _complex(schema, named, at, open_)


def _complex(schema: Any, named: Mapping[str, Any], at: str, open_: Any) -> DataType:
    kind = schema["type"]
    if kind == "record":
        return _record(schema, named, at, open_)
    if kind == "array":
        return ArrayType(spark_type(schema["items"], named, at=f"{at}[]", open_=open_))
    if kind == "map":
        values = spark_type(schema["values"], named, at=f"{at}{{}}", open_=open_)
        return MapType(StringType(), values)
    # The object form of a type; its other attributes do not matter here.
    return spark_type(kind, named, at=at, open_=open_)


def _record(schema: Any, named: Mapping[str, Any], at: str, open_: Any) -> DataType:
    name = schema["name"]
    if name in open_:
        raise _unsupported(at, f"the record {name} contains itself")
    inside = (*open_, name)
    fields = [
        StructField(
            each["name"],
            spark_type(each["type"], named, at=f"{at}.{each['name']}".lstrip("."), open_=inside),
        )
        for each in schema["fields"]
    ]
    return StructType(fields)


def _union(schema: list[Any], named: Mapping[str, Any], at: str, open_: Any) -> DataType:
    other = [each for each in schema if each != "null"]
    if len(other) != 1:
        raise _unsupported(at, "a union must consist of null and one other type")
    return spark_type(other[0], named, at=at, open_=open_)


def _logical(schema: Any, at: str) -> DataType:
    kind, logical = schema["type"], schema["logicalType"]
    if logical == "decimal" and kind in {"bytes", "fixed"}:
        if schema["precision"] > _MAX_DIGITS:
            raise _unsupported(
                at,
                f"a decimal has {schema['precision']} digits, but at most {_MAX_DIGITS}"
                " are possible",
            )
        return DecimalType(schema["precision"], schema.get("scale", 0))
    found = _LOGICAL.get((kind, logical))
    if found is None:
        raise _unsupported(at, f"the logical type {logical} of {kind}")
    return found


def _unsupported(at: str, what: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"schema: {at or 'the top'} has no type in Spark: {what}; supported are the primitive "
        "types, record, enum, array, map, fixed, unions of null and one other type, decimal, date, "
        "timestamp-millis and timestamp-micros"
    )
