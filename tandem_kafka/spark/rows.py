"""The columns of the sink, and the conversion of record batches to records."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from tandem_kafka.errors import InvalidArgumentError

_BYTES: Final = ("binary", "string")
#: Allowed types by column name; other columns are ignored, as in Spark's connector.
_COLUMNS: Final[dict[str, tuple[str, ...]]] = {
    "topic": ("string",),
    "key": _BYTES,
    "value": _BYTES,
    "partition": ("int",),
    "headers": ("array<struct<key:string,value:binary>>",),
    "timestamp": ("timestamp",),
}


class Row(NamedTuple):
    """A record to produce, in the order of `Producer.produce()`."""

    topic: str
    value: bytes | None
    key: bytes | None
    #: -1 lets the producer's partitioner choose.
    partition: int
    #: 0 lets the producer use the time of writing.
    timestamp_ms: int
    headers: list[tuple[str, bytes | None]] | None


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


def rows_of(batch: Any, topic: str | None) -> Iterator[tuple[Any, ...]]:
    """Yield the records of a record batch as tuples with the fields of `Row`.

    Args:
        batch: A record batch with columns that `check_columns` has accepted.
        topic: The option `topic`, which overrides the column.

    Raises:
        InvalidArgumentError: A row has no topic, a negative partition, or a timestamp before the
            first ms of 1970.
    """
    names = batch.schema.names
    return zip(
        topics_of(batch) if topic is None else repeat(topic, batch.num_rows),
        batch.column("value").cast(pa.binary()).to_pylist(),
        batch.column("key").cast(pa.binary()).to_pylist() if "key" in names else repeat(None),
        _partitions(batch.column("partition")) if "partition" in names else repeat(-1),
        _timestamps_ms(batch.column("timestamp")) if "timestamp" in names else repeat(0),
        map(_headers, batch.column("headers").to_pylist()) if "headers" in names else repeat(None),
        strict=False,
    )


def topics_of(batch: Any) -> list[str]:
    """Return the column `topic` of a record batch.

    Raises:
        InvalidArgumentError: A row has no topic.
    """
    column = batch.column("topic")
    if column.null_count:
        raise InvalidArgumentError(
            "a row has no topic: its column topic is null, and the option topic is not set"
        )
    found: list[str] = column.to_pylist()
    return found


def _partitions(column: Any) -> list[int]:
    least = pc.min(column).as_py()
    if least is not None and least < 0:
        raise InvalidArgumentError(
            f"a row has the partition {least}; give 0 or more, or null to let the producer choose"
        )
    found: list[int] = pc.fill_null(column, -1).to_pylist()
    return found


def _timestamps_ms(column: Any) -> list[int]:
    """Truncate to milliseconds like Java; timestamps without a zone are UTC."""
    micros = column.cast(pa.int64())
    first = pc.min(micros).as_py()
    if first is not None and first < 1_000:
        # Records cannot have a time before 1970, and 0 means none to the producer.
        raise InvalidArgumentError(
            f"a row has the timestamp {first} us since 1970; the earliest allowed is 1 ms"
        )
    found: list[int] = pc.fill_null(pc.divide(micros, 1_000), 0).to_pylist()
    return found


def _headers(value: list[dict[str, Any]] | None) -> list[tuple[str, bytes | None]] | None:
    return None if value is None else [(each["key"], each["value"]) for each in value]
