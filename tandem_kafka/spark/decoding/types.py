"""Spark types for the Arrow types of decoders; others are rejected before anything is read."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from tandem_kafka.errors import InvalidArgumentError

_PLAIN: Final = {
    pa.bool_(): BooleanType(),
    pa.int32(): IntegerType(),
    pa.int64(): LongType(),
    pa.uint32(): LongType(),
    pa.uint64(): DecimalType(20, 0),
    pa.float32(): FloatType(),
    pa.float64(): DoubleType(),
    pa.string(): StringType(),
    pa.binary(): BinaryType(),
    pa.date32(): DateType(),
    pa.timestamp("ms"): TimestampNTZType(),
    pa.timestamp("us"): TimestampNTZType(),
    pa.timestamp("ms", "UTC"): TimestampType(),
    pa.timestamp("us", "UTC"): TimestampType(),
    pa.duration("us"): DayTimeIntervalType(),
}


def spark_type(kind: pa.DataType, at: str = "the value") -> DataType:
    """Return the type of decoded values.

    Args:
        kind: Their Arrow type.
        at: The path within the value, for errors.

    Raises:
        InvalidArgumentError: Spark has no corresponding type.
    """
    if pa.types.is_struct(kind):
        return StructType(
            [StructField(each.name, spark_type(each.type, f"{at}.{each.name}")) for each in kind]
        )
    if pa.types.is_list(kind):
        return ArrayType(spark_type(kind.value_type, f"{at}[]"))
    if pa.types.is_map(kind):
        key = spark_type(kind.key_type, f"{at}{{}}")
        return MapType(key, spark_type(kind.item_type, f"{at}{{}}"))
    if pa.types.is_decimal128(kind):
        return DecimalType(kind.precision, kind.scale)
    if pa.types.is_fixed_size_binary(kind):
        return BinaryType()
    found = _PLAIN.get(kind)
    if found is None:
        raise InvalidArgumentError(
            f"{at} has no type in Spark: it is {kind}, and there are no times of a day, "
            "nanoseconds, calendar intervals, null types, or decimals of more than 38 digits"
        )
    return found
