"""What a shell, a log and a debugger show of an object: its kind, and what it is made of."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tandem_kafka import (
    AsyncKafkaConsumer,
    AsyncShareConsumer,
    KafkaConsumer,
    ShareConsumer,
    native_available,
)
from tandem_kafka.tables import Database, DeltaLake, Json, Landing, Long, ParquetDirectory, Text
from tandem_kafka.workers import (
    AsyncKeyedWorkers,
    AsyncShareWorkers,
    KeyedWorkers,
    ShareWorkers,
)

OPTIONS: Any = {
    "bootstrap_servers": "127.0.0.1:1",
    "bootstrap_timeout_ms": 0,
    "client_id": "c",
    "group_id": "g",
    "enable_auto_commit": False,
}


@pytest.mark.parametrize("kind", [KafkaConsumer, ShareConsumer])
def test_a_closed_consumer_says_so(kind: Any) -> None:
    options = {k: v for k, v in OPTIONS.items() if k != "enable_auto_commit"}
    consumer = kind(**options)
    assert repr(consumer) == f"<{kind.__name__} 'c', group 'g'>"
    consumer.close(timeout_ms=0)
    assert repr(consumer) == f"<{kind.__name__} 'c', group 'g', closed>"


def test_workers_and_landings_show_their_consumer(tmp_path: Path) -> None:
    with KafkaConsumer(**OPTIONS, isolation_level="read_committed") as consumer:
        assert repr(KeyedWorkers(consumer, print)) == (
            "<KeyedWorkers of <KafkaConsumer 'c', group 'g'>: not running, records done: 0>"
        )
        assert repr(Landing(consumer, ParquetDirectory(tmp_path))) == (
            "<Landing of <KafkaConsumer 'c', group 'g'> into "
            f"<ParquetDirectory {str(tmp_path)!r}>: not running, records committed: 0>"
        )
        consumer.close(timeout_ms=0)


def test_share_workers_show_their_consumer() -> None:
    assert repr(AsyncKafkaConsumer(**OPTIONS)) == "<AsyncKafkaConsumer 'c', group 'g'>"
    options = {k: v for k, v in OPTIONS.items() if k != "enable_auto_commit"}
    with ShareConsumer(**options, acknowledgement="explicit") as consumer:
        assert repr(ShareWorkers(consumer, print)).startswith("<ShareWorkers of <ShareConsumer ")
        consumer.close(timeout_ms=0)


def test_sinks_show_where_they_write_and_no_credentials() -> None:
    assert repr(DeltaLake("s3://lake/orders")) == "<DeltaLake 's3://lake/orders'>"
    assert repr(DeltaLake("s3://me:Hidden-7@lake/orders")) == "<DeltaLake <hidden>>"
    with sqlite3.connect(":memory:") as connection:
        assert repr(Database(connection, "orders")) == "<Database sqlite3, table 'orders'>"
    connection.close()


@pytest.mark.skipif(not native_available, reason="decoders are written in Rust")
def test_decoders_show_their_type() -> None:
    assert repr(Text()) == "<Text string, errors='raise'>"
    assert repr(Long(errors="null")) == "<Long int64, errors='null'>"
    decoder = Json(pa.schema([("id", pa.int64())]), errors="drop")
    assert repr(decoder) == "<Json struct<id: int64>, errors='drop'>"


@pytest.mark.parametrize(
    "kind",
    [
        *(KafkaConsumer, AsyncKafkaConsumer, ShareConsumer, AsyncShareConsumer),
        *(KeyedWorkers, AsyncKeyedWorkers, ShareWorkers, AsyncShareWorkers),
        *(Landing, Database, DeltaLake, ParquetDirectory, Json, Long, Text),
    ],
)
def test_a_tool_can_show_what_a_failed_constructor_has_left(kind: Any) -> None:
    assert repr(kind.__new__(kind)).startswith(f"<{kind.__name__} without ")


def test_a_constructor_that_fails_late_has_left_what_can_be_shown(tmp_path: Path) -> None:
    """The local variables of each frame are shown by tools that collect errors."""
    made: list[Any] = []
    with KafkaConsumer(**OPTIONS | {"enable_auto_commit": True}) as consumer:
        for make in (
            lambda: KeyedWorkers(consumer, print),
            lambda: Landing(consumer, ParquetDirectory(tmp_path)),
            lambda: Landing(consumer, object()),
            lambda: Database(object(), "orders"),  # type: ignore[arg-type]
            lambda: ParquetDirectory(None),  # type: ignore[arg-type]
            lambda: Long(errors="no"),  # type: ignore[arg-type]
        ):
            try:
                make()
            except Exception as error:  # noqa: BLE001 - of any kind
                trace = error.__traceback__
                while trace is not None:
                    if trace.tb_frame.f_globals["__name__"].startswith("tandem_kafka."):
                        made.append(trace.tb_frame.f_locals.get("self"))
                    trace = trace.tb_next
        consumer.close(timeout_ms=0)
    shown = [repr(each) for each in made if each is not None]
    assert len(shown) >= 6
