"""This Spark source beside Spark's own Kafka connector: `python -m benchmarks.spark`.

One broker, one warm session of `local[2]`, the same topics; the sources take turns, so that a busy
machine is equally busy for all. Medians and ratios are printed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.kafka.broker import KafkaCluster
from tests.spark.connector import connector_jars, connector_version

ROOT = Path(__file__).parents[1]

#: How each is called, and its options.
SOURCES: dict[str, tuple[str, dict[str, str]]] = {
    "tandem": ("tandem_kafka", {}),
    "connector": ("kafka", {}),
    "connector, max.poll.records=5000": ("kafka", {"kafka.max.poll.records": "5000"}),
}
PARTITIONS = 4


class Bench:
    """A session and a broker with topics in it."""

    def __init__(self, spark: Any, bootstrap: str, folder: Path) -> None:
        self._spark = spark
        self._bootstrap = bootstrap
        self._folder = folder

    def actions(self) -> dict[str, Callable[[str, str], None]]:
        """What is measured, by name."""
        return {"batch to noop": self.noop, "batch to Parquet": self.parquet, "stream": self.stream}

    def noop(self, source: str, topic: str) -> None:
        """Read everything, throw it away."""
        self._load(self._spark.read, source, topic).write.format("noop").mode("overwrite").save()

    def parquet(self, source: str, topic: str) -> None:
        """Read everything, write it to files."""
        path = str(self._folder / "files")
        self._load(self._spark.read, source, topic).write.mode("overwrite").parquet(path)

    def stream(self, source: str, topic: str) -> None:
        """Read everything as a stream that ends, throw it away."""
        checkpoint = self._folder / "checkpoint"
        shutil.rmtree(checkpoint, ignore_errors=True)
        query = (
            self._load(self._spark.readStream, source, topic)
            .writeStream.format("noop")
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    def _load(self, reader: Any, source: str, topic: str) -> Any:
        name, options = SOURCES[source]
        return (
            reader.format(name)
            .option("kafka.bootstrap.servers", self._bootstrap)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .options(**options)
            .load()
        )


def _fill(kafka: KafkaCluster, topic: str, count: int, size: int) -> None:
    from confluent_kafka import Producer  # noqa: PLC0415 - where it is measured

    kafka.admin.create_topic(topic, PARTITIONS)
    producer = Producer(
        {"bootstrap.servers": kafka.bootstrap(), "linger.ms": 50, "batch.size": 1_000_000}
    )
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


def _measure(
    bench: Bench, topic: str, sources: list[str], rounds: int
) -> Iterator[tuple[str, dict[str, float]]]:
    for name, act in bench.actions().items():
        spent: dict[str, list[float]] = {source: [] for source in sources}
        for turn in range(rounds + 1):
            for source in sources:
                begin = time.perf_counter()
                act(source, topic)
                if turn:  # the first one warms up
                    spent[source].append(time.perf_counter() - begin)
        yield name, {source: statistics.median(times) for source, times in spent.items()}


def _session(folder: Path) -> Any:
    from pyspark.sql import SparkSession  # noqa: PLC0415 - where it is measured

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = str(ROOT)
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "2g")
        .config("spark.python.unix.domain.socket.enabled", "true")
        .config("spark.jars", ",".join(connector_jars()))
        .config("spark.local.dir", str(folder / "local"))
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--megabytes", type=int, default=400, help="of each topic")
    arguments = parser.parse_args()
    sources = [name for name in SOURCES if name == "tandem" or connector_jars()]
    folder = Path(tempfile.mkdtemp(prefix="tandem-kafka-bench-"))
    try:
        with KafkaCluster(jvm_options=("-Xmx1g",)) as kafka:
            spark = _session(folder)
            print(
                f"Spark {spark.version}, connector {connector_version()}, {PARTITIONS} partitions"
            )
            bench = Bench(spark, kafka.bootstrap(), folder)
            for size in (100, 1_000):
                count = arguments.megabytes * 1_000_000 // size
                topic = f"records-of-{size}"
                _fill(kafka, topic, count, size)
                for action, medians in _measure(bench, topic, sources, arguments.rounds):
                    print(f"\n{size} B, {count} records, {action}")
                    for source, seconds in medians.items():
                        ratio = seconds / medians["tandem"]
                        rate = count / seconds / 1e6
                        print(
                            f"  {source:34} {rate:6.2f} M/s   tandem is {ratio:4.2f}x", flush=True
                        )
            load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
            print(f"\nload averages at the end: {load} on {os.cpu_count()} cores")
            spark.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
