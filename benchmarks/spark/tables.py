"""A session with all sources, its topics, and operations on them."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.spark.connector import connector_jars
from benchmarks.spark.measuring import Processors
from tandem_kafka_testing.kafka import RealKafka

__all__ = [
    "NOTHING",
    "OURS",
    "PARTITIONS",
    "PROMPT",
    "ROWS",
    "SOURCES",
    "Tables",
    "fill",
    "session",
    "sources",
]

ROOT = Path(__file__).parents[2]
_SOURCES = os.pathsep.join((str(ROOT), str(ROOT / "packages" / "spark")))

OURS = "tandem"
#: The sources by name, with their formats and options.
SOURCES: dict[str, tuple[str, dict[str, str]]] = {
    OURS: ("tandem_kafka", {}),
    "connector": ("kafka", {}),
    "connector, max.poll.records=5000": ("kafka", {"kafka.max.poll.records": "5000"}),
}
#: For small topics: by default, the Java consumer waits half a second at the end of a log.
PROMPT = "connector, fetch.max.wait.ms=10"
SOURCES_OF_LITTLE = {PROMPT: ("kafka", {"kafka.fetch.max.wait.ms": "10"})}
#: The cost of a plain Python source: it creates a few rows without a cluster. Unlike ours, it lets
#: Spark's garbage collector scan the modules after each step, which may cost more than our query.
NOTHING = "a Python source that reads nothing"
#: The cost of the rows themselves: it makes as many of the same size, also without a cluster.
ROWS = "a Python source of the same rows, without Kafka"
PARTITIONS = 4


def sources() -> list[str]:
    """Return the names of the available sources."""
    return [name for name in SOURCES if name == OURS or connector_jars()]


class Tables:
    """Reads, streams and writes the topics of one broker."""

    def __init__(
        self, spark: Any, bootstrap: str, folder: Path, sizes: Mapping[str, tuple[int, int]]
    ) -> None:
        self.spark = spark
        self.bootstrap = bootstrap
        self._folder = folder
        #: The number of records of a large topic, and the bytes of each.
        self._sizes = sizes
        self._registered = False

    def processors(self) -> Processors:
        """The CPU seconds of the session."""
        return Processors(self.spark.sparkContext._gateway.proc.pid)  # noqa: SLF001 - there is no public way

    def noop(self, source: str, topic: str, more: dict[str, str] | None = None) -> None:
        """Read everything, and discard it."""
        rows = self.load(self.spark.read, source, topic, more)
        rows.write.format("noop").mode("overwrite").save()

    def values(self, source: str, topic: str) -> None:
        """Read the values of everything, and discard them."""
        # A Python source does not learn which columns a query needs; a schema says so.
        reader = self.spark.read
        if source in {OURS, ROWS}:
            reader = reader.schema("value binary")
        rows = self.load(reader, source, topic).select("value")
        rows.write.format("noop").mode("overwrite").save()

    def parquet(self, source: str, topic: str) -> None:
        """Read everything, and write files."""
        rows = self.load(self.spark.read, source, topic)
        rows.write.mode("overwrite").parquet(str(self._folder / "files"))

    def count(self, source: str, topic: str) -> int:
        """Count the records."""
        count: int = self.load(self.spark.read, source, topic).count()
        return count

    def available_now(self, source: str, topic: str) -> None:
        """Read everything as a stream that ends, and discard it."""
        rows = self.load(self.spark.readStream, source, topic)
        self.finish(rows.writeStream.format("noop"))

    def copy(self, source: str, topic: str, target: str) -> None:
        """Read a topic, change the rows, and write to another topic with the same source."""
        rows = _changed(self.load(self.spark.read, source, topic))
        self._sink(rows.write, source, target).mode("append").save()

    def copy_stream(self, source: str, topic: str, target: str) -> None:
        """Copy like `copy`, as a stream that ends."""
        rows = _changed(self.load(self.spark.readStream, source, topic))
        self.finish(self._sink(rows.writeStream, source, target))

    def _sink(self, writer: Any, source: str, target: str) -> Any:
        kafka = {"kafka.bootstrap.servers": self.bootstrap, "topic": target}
        return writer.format(SOURCES[source][0]).options(**kafka)

    def finish(self, writer: Any) -> None:
        """Run a stream until it has read all existing records."""
        query = self.begin(writer.trigger(availableNow=True))
        query.awaitTermination()

    def begin(self, writer: Any) -> Any:
        """Start a stream with a new checkpoint."""
        checkpoint = self._folder / "checkpoint"
        shutil.rmtree(checkpoint, ignore_errors=True)
        return writer.option("checkpointLocation", str(checkpoint)).start()

    def load(self, reader: Any, source: str, topic: str, more: dict[str, str] | None = None) -> Any:
        """Return the rows of a topic; the sources without a cluster do not read it."""
        if source == NOTHING:
            return self._made(reader, more or {})
        if source == ROWS:
            rows, size = self._sizes[topic]
            options = {"rows": str(rows), "bytes": str(size), "columns": _columns()}
            return self._made(reader, options)
        name, options = (SOURCES | SOURCES_OF_LITTLE)[source]
        settings = {
            "kafka.bootstrap.servers": self.bootstrap,
            "subscribe": topic,
            "startingOffsets": "earliest",
            **options,
            **(more or {}),
        }
        return reader.format(name).options(**settings).load()

    def _made(self, reader: Any, options: dict[str, str]) -> Any:
        from benchmarks.nothing import Nothing  # noqa: PLC0415 - needs pyspark

        # Register it once: after a second registration, Spark would fork new workers for it.
        if not self._registered:
            self.spark.dataSource.register(Nothing)
            self._registered = True
        return reader.format(Nothing.name()).options(**options).load()


def _columns() -> str:
    """Return the columns of the Kafka source."""
    from pyspark_tandem_kafka.schema import full_schema  # noqa: PLC0415 - needs pyspark

    fields = full_schema(headers=False).fields
    return ", ".join(f"{each.name} {each.dataType.simpleString()}" for each in fields)


def _changed(rows: Any) -> Any:
    return rows.selectExpr("cast(partition as string) as key", "substr(value, 2) as value")


def fill(kafka: RealKafka, topic: str, count: int, size: int) -> None:
    """Create a topic with `count` records of `size` bytes."""
    from confluent_kafka import Producer  # noqa: PLC0415 - where it is measured

    kafka.admin.create_topic(topic, PARTITIONS)
    settings = {"bootstrap.servers": kafka.bootstrap(), "linger.ms": 50, "batch.size": 1_000_000}
    producer = Producer(settings)
    value = os.urandom(size)
    for number in range(count):
        while True:
            try:
                producer.produce(topic, value, partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    producer.flush()


def session(folder: Path, master: str, *, daemon: bool, jars: Sequence[str] = ()) -> Any:
    """Start Spark, with our daemon or PySpark's.

    Python writes bytecode, as for installed packages. Otherwise, new processes would spend most of
    their time compiling the sources.

    Args:
        folder: The folder for Spark's files.
        master: Spark's master.
        daemon: Use our daemon.
        jars: Jars in addition to the connector's.
    """
    import pyspark  # noqa: PLC0415 - where it is measured
    from pyspark.sql import SparkSession  # noqa: PLC0415

    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = str(ROOT / ".venv" / "bytecode-of-benchmarks")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = _SOURCES
    home = Path(pyspark.__file__).parent
    if master.startswith("local-cluster"):
        os.environ["SPARK_HOME"] = str(home)
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "2g",
        "spark.driver.host": "127.0.0.1",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.streaming.numRecentProgressUpdates": "1000",
        "spark.sql.shuffle.partitions": "2",
        "spark.executorEnv.PYTHONPATH": _SOURCES,
        "spark.executorEnv.PYTHONPYCACHEPREFIX": os.environ["PYTHONPYCACHEPREFIX"],
        "spark.jars": ",".join((*connector_jars(), *jars)),
        "spark.local.dir": str(folder / "local"),
    }
    if daemon:
        settings["spark.python.daemon.module"] = "pyspark_tandem_kafka.daemon"
    builder = SparkSession.builder.master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark
