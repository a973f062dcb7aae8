"""The conversion of record batches to records of the sink."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from tandem_kafka.errors import InvalidArgumentError


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
