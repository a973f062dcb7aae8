"""The columns of source and sink; they are those of Spark's own connector."""

from __future__ import annotations

from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from tandem_kafka.errors import InvalidArgumentError

_HEADER: Final = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
_FIELDS: Final = (
    StructField("key", BinaryType()),
    StructField("value", BinaryType()),
    StructField("topic", StringType()),
    StructField("partition", IntegerType()),
    StructField("offset", LongType()),
    StructField("timestamp", TimestampType()),
    StructField("timestampType", IntegerType()),
)
_HEADERS: Final = StructField("headers", ArrayType(_HEADER))

_BYTES: Final = ("binary", "string")
#: The sink's allowed types by column name; other columns are ignored, as in Spark's connector.
_COLUMNS: Final[dict[str, tuple[str, ...]]] = {
    "topic": ("string",),
    "key": _BYTES,
    "value": _BYTES,
    "partition": ("int",),
    "headers": ("array<struct<key:string,value:binary>>",),
    "timestamp": ("timestamp",),
}


def full_schema(*, headers: bool) -> StructType:
    """Return the schema of the source."""
    return StructType([*_FIELDS, _HEADERS] if headers else list(_FIELDS))


def check_columns(schema: StructType, topic: str | None) -> None:
    """Check a data frame's columns before anything is written.

    Raises:
        InvalidArgumentError: A column is missing or has the wrong type.
    """
    names = {each.name: each.dataType.simpleString() for each in schema.fields}
    if "value" not in names:
        raise InvalidArgumentError(
            "a column value (binary or string) is needed to write to Kafka; the columns are "
            f"{', '.join(names) or 'none'}: rename one, for example with col(...).alias('value')"
        )
    if topic is None and "topic" not in names:
        raise InvalidArgumentError(
            "no topic to write to: set the option topic, or add a column topic of type string"
        )
    for name, allowed in _COLUMNS.items():
        if name in names and names[name] not in allowed:
            raise InvalidArgumentError(
                f"the column {name} must be {' or '.join(allowed)}, not {names[name]}: "
                f"{_remedy(name, allowed)}"
            )


def _remedy(name: str, allowed: tuple[str, ...]) -> str:
    if allowed[-1] == "string":
        more = ", or convert a struct to JSON with to_json" if len(allowed) > 1 else ""
        return f"cast it with col({name!r}).cast('string'){more}"
    return f"cast it with col({name!r}).cast({allowed[0]!r}), or drop it"
