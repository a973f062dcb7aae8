"""Records for the sinks of `Landing`, and writers that land them."""

from __future__ import annotations

from typing import Any

import pytest

from tandem_kafka import TopicPartition
from tests.integration.tables.landing_tables import Table

pa = pytest.importorskip("pyarrow")

__all__ = ["ONE", "ZERO", "acquired", "between", "landed", "put", "rows"]

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)


def rows(offsets: range, partition: int = 0, **more: Any) -> Any:
    """Return records of a partition."""
    return pa.table(
        {
            "topic": pa.array(["t"] * len(offsets)).dictionary_encode(),
            "partition": pa.array([partition] * len(offsets), pa.int32()),
            "offset": pa.array(offsets, pa.int64()),
            "value": pa.array([b"%d" % each for each in offsets], pa.binary()),
            **more,
        }
    )


def landed(*parts: tuple[int, range]) -> list[tuple[int, int, bytes]]:
    return [(partition, each, b"%d" % each) for partition, offsets in parts for each in offsets]


def acquired(table: Table) -> Any:
    """Return a writer of a table that has the first partition."""
    sink = table.open()
    sink.acquire([ZERO])
    return sink


def put(sink: Any, offsets: range, partition: int = 0, **more: Any) -> None:
    """Write records of a partition, and commit the offset behind them."""
    sink.write(rows(offsets, partition, **more))
    sink.commit({(ZERO, ONE)[partition]: offsets.stop})


def between(sink: Any, method: str, other: Any) -> None:
    """Let another writer do something within one call of a method of a sink."""
    original = getattr(sink, method)

    def call(*given: Any) -> Any:
        setattr(sink, method, original)
        found = original(*given) if method == "_newest_schema" else None
        other()
        return original(*given) if found is None else found

    setattr(sink, method, call)
