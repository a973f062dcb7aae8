"""The columns that the sink understands, and how a record batch becomes records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql.types import StructType

from tandem_kafka.errors import InvalidArgumentError

__all__ = ["Row", "check_columns", "rows_of"]

_BYTES: Final = ("binary", "string")
#: Columns by name with the types they may have; others are left out, as in Spark's connector.
_COLUMNS: Final[dict[str, tuple[str, ...]]] = {
    "topic": ("string",),
    "key": _BYTES,
    "value": _BYTES,
    "partition": ("int",),
    "headers": ("array<struct<key:string,value:binary>>",),
    "timestamp": ("timestamp",),
}


class Row(NamedTuple):
    """A record to produce."""

    topic: str | None
    key: bytes | None
    value: bytes | None
    partition: int | None
    headers: list[tuple[str, bytes | None]] | None
    timestamp_ms: int | None


def check_columns(schema: StructType, topic: str | None) -> None:
    """Check a data frame's columns before anything is written.

    Raises:
        InvalidArgumentError: One is missing or has another type.
    """
    names = {each.name: each.dataType.simpleString() for each in schema.fields}
    if "value" not in names:
        raise InvalidArgumentError("a column value is needed to write to Kafka")
    if topic is None and "topic" not in names:
        raise InvalidArgumentError("give the option topic, or a column topic")
    for name, allowed in _COLUMNS.items():
        if name in names and names[name] not in allowed:
            raise InvalidArgumentError(
                f"the column {name} must be {' or '.join(allowed)}, it is {names[name]}"
            )


def rows_of(batch: Any, topic: str | None) -> Iterator[Row]:
    """Yield the records of a record batch; the option `topic` comes before the column.

    Raises:
        InvalidArgumentError: A timestamp is not after the beginning of 1970.
    """
    columns = {name: _values(name, batch) for name in _COLUMNS}
    if topic is not None:
        columns["topic"] = [topic] * batch.num_rows
    if columns["headers"][:1] != [None] or any(columns["headers"]):
        columns["headers"] = [_headers(each) for each in columns["headers"]]
    return map(Row._make, zip(*(columns[name] for name in _ORDER), strict=True))


_ORDER: Final = ("topic", "key", "value", "partition", "headers", "timestamp")


def _values(name: str, batch: Any) -> list[Any]:
    if name not in batch.schema.names:
        return [None] * batch.num_rows
    column = batch.column(name)
    if name in {"key", "value"}:
        column = column.cast(pa.binary())
    elif name == "timestamp":
        # Down to the millisecond below, as Java does it; without a zone the values are UTC.
        column = column.cast(pa.int64())
        return [_milliseconds(each) for each in column.to_pylist()]
    found: list[Any] = column.to_pylist()
    return found


def _milliseconds(micros: int | None) -> int | None:
    if micros is None:
        return None
    if micros < 1_000:
        # No record has a time before 1970, and the producer takes 0 for none.
        raise InvalidArgumentError(
            f"a row has the timestamp {micros} us since 1970; the first that can be written is 1 ms"
        )
    return micros // 1_000


def _headers(value: list[dict[str, Any]] | None) -> list[tuple[str, bytes | None]] | None:
    return None if value is None else [(each["key"], each["value"]) for each in value]
