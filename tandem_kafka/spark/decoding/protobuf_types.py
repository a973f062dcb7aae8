"""Spark types for Protobuf types, and the conversion of messages."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from operator import attrgetter
from typing import Any, Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
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

#: Spark types by the number of `FieldDescriptorProto.Type`.
_PLAIN: Final = {
    1: DoubleType(),
    2: FloatType(),
    3: LongType(),  # int64
    4: DecimalType(20, 0),  # uint64: exceeds bigint
    5: IntegerType(),  # int32
    6: DecimalType(20, 0),  # fixed64
    7: LongType(),  # fixed32
    8: BooleanType(),
    9: StringType(),
    12: BinaryType(),
    13: LongType(),  # uint32: exceeds int
    14: StringType(),  # enum, by name
    15: IntegerType(),  # sfixed32
    16: LongType(),  # sfixed64
    17: IntegerType(),  # sint32
    18: LongType(),  # sint64
}
_UNSIGNED_64: Final = frozenset({4, 6})
_ENUM: Final = 14
_MESSAGE: Final = 11
_TIMESTAMP: Final = "google.protobuf.Timestamp"

Convert = Callable[[Any], Any]


def spark_type(message: Any, *, at: str = "", open_: tuple[str, ...] = ()) -> StructType:
    """Return the type of a message's values, given its descriptor.

    Raises:
        InvalidArgumentError: Spark has no corresponding type.
    """
    name = message.full_name
    if name in open_:
        raise _unsupported(at, f"the message {name} contains itself")
    inside = (*open_, name)
    fields = [
        StructField(each.name, _field_type(each, f"{at}.{each.name}".lstrip("."), inside))
        for each in message.fields
    ]
    return StructType(fields)


def _field_type(field: Any, at: str, open_: tuple[str, ...]) -> DataType:
    if _is_map(field):
        values = field.message_type.fields_by_name["value"]
        key = _one(field.message_type.fields_by_name["key"], at, open_)
        return MapType(key, _one(values, f"{at}{{}}", open_))
    kind = _one(field, at, open_)
    return ArrayType(kind) if field.is_repeated else kind


def _one(field: Any, at: str, open_: tuple[str, ...]) -> DataType:
    if field.type in _PLAIN:
        return _PLAIN[field.type]
    if field.type != _MESSAGE:
        raise _unsupported(at, "groups are not supported")
    if field.message_type.full_name == _TIMESTAMP:
        return TimestampType()
    return spark_type(field.message_type, at=at, open_=open_)


def _unsupported(at: str, what: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"message: {at or 'the top'} has no type in Spark: {what}")


def _is_map(field: Any) -> bool:
    return bool(field.type == _MESSAGE and field.message_type.GetOptions().map_entry)


# --- values ------------------------------------------------------------------------------------


def to_dict(message: Any) -> Convert:
    """Return a function that converts a message to a dict, given its descriptor."""
    readers = [_reader(field) for field in message.fields]

    def convert(value: Any) -> dict[str, Any]:
        return {name: read(value) for name, read in readers}

    return convert


def _reader(field: Any) -> tuple[str, Convert]:
    name = field.name
    if _is_map(field):
        convert = _value(field.message_type.fields_by_name["value"])
        key = _value(field.message_type.fields_by_name["key"])
        return name, lambda value: [(key(k), convert(v)) for k, v in getattr(value, name).items()]
    get, convert = attrgetter(name), _value(field)
    if field.is_repeated:
        return name, lambda value: [convert(each) for each in get(value)]
    if field.has_presence:
        return name, lambda value: convert(get(value)) if value.HasField(name) else None
    # Fast path for most fields: no Python function is called.
    return name, get if convert is _same else lambda value: convert(get(value))


def _value(field: Any) -> Convert:
    if field.type in _UNSIGNED_64:
        return Decimal
    if field.type == _ENUM:
        names = field.enum_type.values_by_number
        return lambda number: names[number].name if number in names else str(number)
    if field.type == _MESSAGE:
        if field.message_type.full_name == _TIMESTAMP:
            return lambda value: value.ToDatetime(tzinfo=dt.UTC)
        return to_dict(field.message_type)
    return _same


def _same(value: Any) -> Any:
    return value
