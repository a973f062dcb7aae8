"""This Spark source beside Spark's own Kafka connector: `python -m benchmarks.spark`.

One broker, one warm session of `local[2]`, the same topics; the sources take turns, so that a busy
machine is equally busy for all. Medians and ratios are printed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from tests.kafka.broker import KafkaCluster
from tests.spark.connector import connector_jars, connector_version

ROOT = Path(__file__).parents[1]
K = TypeVar("K")

#: How each is called, and its options.
SOURCES: dict[str, tuple[str, dict[str, str]]] = {
    "tandem": ("tandem_kafka", {}),
    "connector": ("kafka", {}),
    "connector, max.poll.records=5000": ("kafka", {"kafka.max.poll.records": "5000"}),
}
#: What a Python source costs at least: it makes a few rows without asking anybody.
NOTHING = "a Python source that reads nothing"
PARTITIONS = 4
#: Ranges that a topic is read in: the first and the last give the sizing model its two figures, the
#: others are held against what it says.
RANGES = (4, 16, 64, 128)
CORES = 2


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
        self._finish(self._load(self._spark.readStream, source, topic))

    def stream_nothing(self) -> None:
        """The same with a source without a cluster."""
        self._finish(self._nothing(self._spark.readStream))

    def _finish(self, rows: Any) -> None:
        checkpoint = self._folder / "checkpoint"
        shutil.rmtree(checkpoint, ignore_errors=True)
        query = (
            rows.writeStream.format("noop")
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    def count(self, source: str, topic: str) -> int:
        """Count the records."""
        count: int = self._load(self._spark.read, source, topic).count()
        return count

    def count_nothing(self) -> int:
        """Count rows of a source without a cluster."""
        count: int = self._nothing(self._spark.read).count()
        return count

    def _nothing(self, reader: Any) -> Any:
        from benchmarks.nothing import Nothing  # noqa: PLC0415 - needs pyspark

        self._spark.dataSource.register(Nothing)
        return reader.format(Nothing.name()).load()

    def in_ranges(self, topic: str, ranges: int) -> None:
        """Read everything in so many ranges, throw it away."""
        more = {"minPartitions": str(ranges)}
        rows = self._load(self._spark.read, "tandem", topic, more)
        rows.write.format("noop").mode("overwrite").save()

    def _load(
        self, reader: Any, source: str, topic: str, more: dict[str, str] | None = None
    ) -> Any:
        name, options = SOURCES[source]
        return (
            reader.format(name)
            .option("kafka.bootstrap.servers", self._bootstrap)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .options(**options, **(more or {}))
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


def _medians(acts: Mapping[K, Callable[[], object]], rounds: int) -> dict[K, float]:
    """Have all take turns, and return the median seconds of each."""
    spent: dict[K, list[float]] = {name: [] for name in acts}
    for _ in range(rounds):
        for name, act in acts.items():
            begin = time.perf_counter()
            act()
            spent[name].append(time.perf_counter() - begin)
    return {name: statistics.median(times) for name, times in spent.items()}


def _warm_medians(acts: Mapping[K, Callable[[], object]], rounds: int) -> dict[K, float]:
    """The same, after a round that does not count."""
    _medians(acts, 1)
    return _medians(acts, rounds)


def _measure(
    bench: Bench, topic: str, sources: list[str], rounds: int
) -> Iterator[tuple[str, dict[str, float]]]:
    for name, act in bench.actions().items():
        acts: dict[str, Callable[[], object]] = {s: partial(act, s, topic) for s in sources}
        if act == bench.stream:
            acts[NOTHING] = bench.stream_nothing
        yield name, _warm_medians(acts, rounds)


def _measure_ranges(bench: Bench, topic: str, rounds: int) -> dict[int, float]:
    """Seconds that a job of so many ranges takes."""
    return _warm_medians({n: partial(bench.in_ranges, topic, n) for n in RANGES}, rounds)


def _session(folder: Path) -> Any:
    from pyspark.sql import SparkSession  # noqa: PLC0415 - where it is measured

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = str(ROOT)
    spark = (
        SparkSession.builder.master(f"local[{CORES}]")
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


def _cold(source: str, bootstrap: str, topic: str) -> None:
    """Start a session and count a topic; how long the process takes is measured from outside."""
    folder = Path(tempfile.mkdtemp(prefix="tandem-kafka-cold-"))
    try:
        spark = _session(folder)
        bench = Bench(spark, bootstrap, folder)
        print(bench.count_nothing() if source == NOTHING else bench.count(source, topic))
        spark.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _measure_cold(bootstrap: str, topic: str, sources: list[str], rounds: int) -> dict[str, float]:
    def start(source: str) -> None:
        arguments = ("--cold", source, bootstrap, topic)
        command = [sys.executable, "-m", "benchmarks.spark", *arguments]
        subprocess.run(command, check=True, capture_output=True, timeout=300)

    return _medians({source: partial(start, source) for source in sources}, rounds)


class Report:
    """Prints what is measured, and keeps it for a file."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def say(self, line: str = "") -> None:
        """Take one line."""
        print(line, flush=True)
        self._lines.append(line)

    def table(self, work: str, medians: dict[str, float], count: int | None) -> None:
        """Take the medians of one work; of `count` records, or of a start."""
        self.say(f"\n## {work}\n")
        self.say("| source | seconds | million records/s | times |")
        self.say("| --- | ---: | ---: | ---: |")
        for source, seconds in medians.items():
            read = None if source == NOTHING else count
            rate = "-" if read is None else f"{read / seconds / 1e6:.2f}"
            times = seconds / medians["tandem"]
            self.say(f"| {source} | {seconds:.2f} | {rate} | {times:.2f} |")

    def sizing(self, measured: dict[int, float], count: int, size: int) -> None:
        """Fit the model of `docs/spark.md`, and hold it against what it was not fitted to."""
        few, many = RANGES[0], RANGES[-1]
        per_range = (measured[many] - measured[few]) / (many - few)
        reading = measured[few] - few * per_range
        self.say(f"\n## {count:,} records of {size} bytes in ranges\n")
        self.say(
            f"A range costs a core {per_range * CORES * 1_000:.0f} ms, whatever is in it; a core "
            f"reads {count * size / reading / CORES / 1e6:.0f} MB/s.\n"
        )
        self.say("| ranges | seconds | by the model |")
        self.say("| ---: | ---: | ---: |")
        for ranges, seconds in measured.items():
            told = "fitted" if ranges in {few, many} else f"{ranges * per_range + reading:.2f}"
            self.say(f"| {ranges} | {seconds:.2f} | {told} |")

    def write(self, folder: Path) -> None:
        """Write `spark.md`."""
        (folder / "spark.md").write_text("\n".join(self._lines) + "\n", encoding="utf-8")


def main() -> None:
    """Measure, print, and write what was printed if a folder is given."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--megabytes", type=int, default=400, help="of each topic")
    parser.add_argument("--output", type=Path, help="folder for spark.md")
    parser.add_argument("--cold", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.cold:
        _cold(*arguments.cold)
        return
    report = Report()
    _run(arguments.rounds, arguments.megabytes, report)
    if arguments.output is not None:
        report.write(arguments.output)


def _run(rounds: int, megabytes: int, report: Report) -> None:
    sources = [name for name in SOURCES if name == "tandem" or connector_jars()]
    folder = Path(tempfile.mkdtemp(prefix="tandem-kafka-bench-"))
    try:
        with KafkaCluster(jvm_options=("-Xmx1g",)) as kafka:
            counts = {size: megabytes * 1_000_000 // size for size in (100, 1_000)}
            for size, count in counts.items():
                _fill(kafka, f"records-of-{size}", count, size)
            spark = _session(folder)
            report.say("# Benchmarks of Spark\n")
            report.say(
                f"Spark {spark.version} `local[{CORES}]`, connector {connector_version()}, "
                f"{PARTITIONS} partitions, broker and Spark on the same {os.cpu_count()} cores; "
                f"medians of {rounds} rounds, the sources in turns, after one to warm up. “times” "
                "compares with tandem: above 1, tandem is so many times faster."
            )
            bench = Bench(spark, kafka.bootstrap(), folder)
            for size, count in counts.items():
                for action, medians in _measure(bench, f"records-of-{size}", sources, rounds):
                    report.table(f"{count:,} records of {size} bytes, {action}", medians, count)
            for size, count in counts.items():
                topic = f"records-of-{size}"
                report.sizing(_measure_ranges(bench, topic, rounds), count, size)
            spark.stop()
            _fill(kafka, "small", 1_000, 100)
            medians = _measure_cold(kafka.bootstrap(), "small", [*sources[:2], NOTHING], rounds)
            report.table("A new process that starts Spark and counts 1,000 records", medians, None)
            load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
            report.say(f"\nLoad averages at the end: {load}.")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
