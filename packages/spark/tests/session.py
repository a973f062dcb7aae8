"""Spark for tests: the session, and short functions to read, stream and write."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.spark.connector import connector_jars

pytest.importorskip("pyspark", reason="pyspark is not installed: make spark-test installs it")

import pyspark
from pyspark.sql import DataFrame, Row, SparkSession

from tests.waiting import PATIENCE_S, until

__all__ = ["SPARK", "Tables", "since", "start"]

SPARK = tuple(int(number) for number in pyspark.__version__.split(".")[:2])


def since(major: int, minor: int, what: str) -> pytest.MarkDecorator:
    """Skip a test on an older Spark."""
    return pytest.mark.skipif(
        (major, minor) > SPARK, reason=f"{what} need Spark {major}.{minor}, this is {SPARK}"
    )


def start(**more: str) -> SparkSession:
    """Start Spark like a job, with few resources and little output."""
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.sql.streaming.numRecentProgressUpdates": "500",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.jars": ",".join(connector_jars()),
        **more,
    }
    builder = SparkSession.builder.master("local[2]").appName("tandem-kafka-tests")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


class Tables:
    """Access to the topics of one cluster through Spark."""

    def __init__(self, spark: SparkSession, bootstrap: str, folder: Path) -> None:
        self.spark = spark
        self.folder = folder
        self._bootstrap = bootstrap

    def read(
        self, topic: str | None = None, *, by: str = "tandem_kafka", **options: Any
    ) -> DataFrame:
        """Return a batch query."""
        return self._options(self.spark.read.format(by), topic, options).load()

    def stream(
        self, topic: str | None = None, *, by: str = "tandem_kafka", **options: Any
    ) -> DataFrame:
        """Return a stream, by default from the beginning."""
        starts = ("startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp")
        if not any(name in options for name in starts):
            options["startingOffsets"] = "earliest"
        return self._options(self.spark.readStream.format(by), topic, options).load()

    def _options(self, reader: Any, topic: str | None, options: dict[str, Any]) -> Any:
        if topic is not None:
            options = {"subscribe": topic, **options}
        named = {name.replace("__", "."): str(value) for name, value in options.items()}
        return reader.option("kafka.bootstrap.servers", self._bootstrap).options(**named)

    def write(self, rows: DataFrame, *, mode: str = "append", **options: Any) -> None:
        """Write a batch."""
        writer = rows.write.format("tandem_kafka").mode(mode)
        self._options(writer, None, options).save()

    def finish(self, rows: DataFrame, name: str = "out") -> Any:
        """Stream all existing records into Parquet files; returns the query."""
        query = self.begin(rows, name, trigger={"availableNow": True})
        assert query.awaitTermination(PATIENCE_S)
        return query

    def begin(self, rows: DataFrame, name: str = "out", *, trigger: dict[str, Any]) -> Any:
        """Start a stream into Parquet files, with a checkpoint of that name."""
        return (
            rows.writeStream.format("parquet")
            .option("path", str(self.folder / name))
            .option("checkpointLocation", str(self.folder / f"{name}-checkpoint"))
            .trigger(**trigger)
            .start()
        )

    def written(self, name: str = "out") -> list[Row]:
        """Return the rows that streams have written, by partition and offset."""
        found = self.spark.read.parquet(str(self.folder / name)).collect()
        return sorted(found, key=lambda row: (row.topic, row.partition, row.offset))

    def until(
        self, query: Any, ready: Callable[[], object], *, patience_s: float = PATIENCE_S
    ) -> None:
        """Wait until a stream has made a condition true; fail if the stream fails."""
        for _ in until(ready, lambda: query.lastProgress, timeout_s=patience_s):
            assert query.isActive or ready(), query.exception()
            time.sleep(0.02)


def by_offset(frame: DataFrame) -> list[Row]:
    """Return all rows, by topic, partition and offset."""
    return sorted(frame.collect(), key=lambda row: (row.topic, row.partition, row.offset))
