"""Measures and prints the results, and writes them to a file if one is given."""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import benchmarks.spark as package
from benchmarks.spark.connector import connector_version
from benchmarks.spark.decode import FORMATS, QUERIES, decoder_jars, orders
from benchmarks.spark.measuring import Cost, costs
from benchmarks.spark.report import Report
from benchmarks.spark.steady import Steady, merged, produced, steady
from benchmarks.spark.tables import (
    NOTHING,
    OURS,
    PARTITIONS,
    PROMPT,
    ROWS,
    Tables,
    fill,
    session,
    sources,
)
from tandem_kafka_testing.kafka import RealKafka

#: Numbers of ranges for reading a topic. The sizing model is fitted to the first and the last of
#: them, and checked with the others.
RANGES = (4, 16, 64, 128)
CORES = 2
SIZES = (100, 1_000)
SMALL = 5_000
#: Spark checks for idle workers only at intervals, so it ends them some time after a minute.
IDLE_S = 68.0
#: The number of values to decode.
VALUES = 200_000
#: Small queries are measured after the JVM has compiled the code that they run often.
SMALL_WARM_UP = 8


@dataclass
class Run:
    """One run of the requested measures."""

    tables: Tables
    kafka: RealKafka
    report: Report
    arguments: argparse.Namespace
    counts: dict[int, int]

    def _costs(
        self, title: str, act: Callable[[str], object], names: list[str], **more: int
    ) -> None:
        acts = {name: partial(act, name) for name in names}
        count = more.pop("count", None)
        warm_up = more.pop("warm_up", 1)
        rounds = self.arguments.rounds
        found = costs(self.tables.processors(), acts, rounds, warm_up=warm_up)
        self.report.costs(title, found, count)

    def _large(self, title: str, act: Callable[[str, str], object], floors: Sequence[str]) -> None:
        for size, count in self.counts.items():
            names = [*sources(), *floors]
            topic = _topic(size)
            what = f"{count:,} records of {size} bytes, {title}"
            self._costs(what, _on(act, topic), names, count=count)

    def noop(self) -> None:
        """Read everything as a batch, and discard it."""
        self._large("batch to noop", self.tables.noop, [ROWS, NOTHING])

    def values(self) -> None:
        """Read the values of everything as a batch, and discard them."""
        self._large("only the values, batch to noop", self.tables.values, [ROWS])

    def parquet(self) -> None:
        """Read everything as a batch, and write files."""
        self._large("batch to Parquet", self.tables.parquet, [ROWS])

    def available_now(self) -> None:
        """Read everything as a stream that ends, and discard it."""
        self._large("availableNow to noop", self.tables.available_now, [ROWS, NOTHING])

    def small(self) -> None:
        """Run small queries repeatedly."""
        title = f"{SMALL:,} records of 100 bytes, counted in a warm session"
        names = [*sources(), *([PROMPT] if len(sources()) > 1 else []), NOTHING]
        act = partial(self._count_of, "small")
        self._costs(title, act, names, count=SMALL, warm_up=SMALL_WARM_UP)

    def idle(self) -> None:
        """Run a small query after Spark has ended idle workers."""
        acts = {name: partial(self._count_of, "small", name) for name in [*sources()[:2], NOTHING]}
        pause = partial(time.sleep, IDLE_S)
        rounds = self.arguments.rounds
        found = costs(self.tables.processors(), acts, rounds, before=pause, warm_up=0)
        self.report.costs(f"The same after a break of {IDLE_S:.0f} s", found, SMALL)

    def _count_of(self, topic: str, name: str) -> None:
        self.tables.count(name, topic)

    def ranges(self) -> None:
        """Check the sizing model."""
        for size, count in self.counts.items():
            acts = {
                n: partial(self.tables.noop, OURS, _topic(size), {"minPartitions": str(n)})
                for n in RANGES
            }
            found = costs(self.tables.processors(), acts, self.arguments.rounds)
            walls = {n: cost.wall for n, cost in found.items()}
            self.report.sizing(walls, count, size, CORES)

    def steady(self) -> None:
        """Run micro-batches while records arrive."""
        found: dict[str, list[Steady]] = {name: [] for name in [*sources(), NOTHING]}
        with produced(self.kafka.bootstrap(), "steady"):
            for number in range(-1, self.arguments.rounds):
                for name in list(found)[:: -1 if number % 2 else 1]:
                    seconds = self.arguments.seconds
                    each = steady(self.tables, name, "steady", seconds)
                    if number >= 0:  # by then, the JVM has compiled the code of a batch
                        found[name].append(each)
        together = {name: merged(rounds) for name, rounds in found.items()}
        self.report.steady("1,000 records a second, a micro-batch each 500 ms", together)

    def end_to_end(self) -> None:
        """Copy from Kafka through SQL to Kafka, each source with its own sink."""
        size = SIZES[0]
        topic, count = _topic(size), self.counts[size]
        for title, act in (("batch", self.tables.copy), ("stream", self.tables.copy_stream)):
            what = f"{count:,} records of {size} bytes, Kafka to SQL to Kafka, {title}"
            self._costs(what, _on(act, topic, "copies"), sources(), count=count)

    def decode(self) -> None:
        """Decode cached values with each format's decoders in turns."""
        with orders(self.tables.spark, VALUES) as decoding:
            for each in FORMATS:
                if each not in decoding.served:
                    self.report.say(f"\nSpark's own decoder of {each} cannot be had.")
                size = decoding.mean_size(each)
                for query in QUERIES:
                    what = f"{VALUES:,} values of {size:.0f} bytes of {each}, {query}"
                    names = decoding.decoders(each)
                    act = partial(decoding.noop, each, query)
                    self._costs(what, act, names, count=VALUES)

    def cold(self) -> None:
        """Measure the time from a new process to its first row."""
        self.tables.spark.stop()
        names = [*sources()[:2], NOTHING]
        spent: dict[str, list[float]] = {name: [] for name in names}
        for _ in range(self.arguments.rounds):
            for name in names:
                begin = time.perf_counter()
                self._start(name)
                spent[name].append(time.perf_counter() - begin)
        found = {n: Cost(statistics.median(each), 0.0, 0.0) for n, each in spent.items()}
        self.report.costs(f"A new process that starts Spark and counts {SMALL:,} records", found)

    def _start(self, name: str) -> None:
        command = [sys.executable, "-m", "benchmarks.spark", "--master", self.arguments.master]
        command += ["--daemon"] if self.arguments.daemon else []
        command += ["--cold", name, self.kafka.bootstrap(), "small"]
        subprocess.run(command, check=True, capture_output=True, timeout=300)


def _topic(size: int) -> str:
    """Return the name of the large topic with values of `size` bytes."""
    return f"records-of-{size}"


def _on(act: Callable[..., object], *topics: str) -> Callable[[str], object]:
    """Return a function that runs `act` with the name of a source and the topics."""
    return lambda name: act(name, *topics)


#: In this order: measures that end the session come last.
WORK: dict[str, Callable[[Run], None]] = {
    "noop": Run.noop,
    "values": Run.values,
    "parquet": Run.parquet,
    "available-now": Run.available_now,
    "small": Run.small,
    "steady": Run.steady,
    "idle": Run.idle,
    "end-to-end": Run.end_to_end,
    "ranges": Run.ranges,
    "decode": Run.decode,
    "cold": Run.cold,
}
#: The measures that read the large topics.
_LARGE = {"noop", "values", "parquet", "available-now", "end-to-end", "ranges"}


def _cold(arguments: argparse.Namespace) -> None:
    """Start a session and count a topic; the parent measures the time of this process."""
    source, bootstrap, topic = arguments.cold
    folder = Path(tempfile.mkdtemp(prefix="tandem-kafka-cold-"))
    try:
        spark = session(folder, arguments.master, daemon=arguments.daemon)
        print(Tables(spark, bootstrap, folder, {}).count(source, topic))
        spark.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    """Measure, print, and write the output to a file if one is given."""
    parser = argparse.ArgumentParser(description=str(package.__doc__).splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--megabytes", type=int, default=300, help="of each large topic")
    parser.add_argument("--seconds", type=float, default=15, help="of a stream, in each round")
    parser.add_argument("--master", default=f"local[{CORES}]", help="or local-cluster[2,1,1024]")
    parser.add_argument("--daemon", action="store_true", help="with pyspark_tandem_kafka.daemon")
    parser.add_argument(
        "--only", nargs="+", choices=WORK, default=list(WORK), metavar="WORK", help=", ".join(WORK)
    )
    parser.add_argument("--output", type=Path, help="a file for the same text")
    parser.add_argument("--cold", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.cold:
        _cold(arguments)
        return
    report = Report()
    _run(arguments, report)
    if arguments.output is not None:
        report.write(arguments.output)


def _run(arguments: argparse.Namespace, report: Report) -> None:
    folder = Path(tempfile.mkdtemp(prefix="tandem-kafka-bench-"))
    try:
        with RealKafka(jvm_options=("-Xmx1g",)) as kafka:
            counts = {size: arguments.megabytes * 1_000_000 // size for size in SIZES}
            if _LARGE & set(arguments.only):
                for size, count in counts.items():
                    fill(kafka, _topic(size), count, size)
            fill(kafka, "small", SMALL, 100)
            for topic in ("steady", "copies"):
                kafka.admin.create_topic(topic, PARTITIONS)
            spark = session(
                folder,
                arguments.master,
                daemon=arguments.daemon,
                jars=decoder_jars() if "decode" in arguments.only else (),
            )
            report.say("# Benchmarks of Spark\n")
            report.say(_heading(spark.version, arguments))
            sizes = {_topic(size): (count, size) for size, count in counts.items()}
            tables = Tables(spark, kafka.bootstrap(), folder, sizes)
            run = Run(tables, kafka, report, arguments, counts)
            for name, work in WORK.items():
                if name in arguments.only:
                    work(run)
                    report.say(f"\nLoad averages now: {_load()}.")
            spark.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _heading(version: str, arguments: argparse.Namespace) -> str:
    import pyspark  # noqa: PLC0415 - where it is measured

    from pyspark_tandem_kafka.warming import warm_zip, zips  # noqa: PLC0415

    daemon = "pyspark_tandem_kafka.daemon" if arguments.daemon else "pyspark.daemon"
    zipped = [warm_zip(each, check=True) for each in zips(Path(pyspark.__file__).parent)]
    bytecode = "without" if any(each.cold for each in zipped) else "with"
    return (
        f"Spark {version} `{arguments.master}`, `{daemon}`, Python processes that import "
        f"`pyspark.zip` {bytecode} bytecode, connector {connector_version()}, "
        f"{PARTITIONS} partitions, broker and Spark on the same {os.cpu_count()} cores. Medians of "
        f"{arguments.rounds} rounds after a warm-up, with the sources taking turns; Python writes "
        "bytecode. Children are Python's processes, and the shell commands of Hadoop's file "
        f"system. Load averages at the start: {_load()}. “times” and “CPU times” compare with "
        "tandem: above 1, tandem is faster, or cheaper, by this factor."
    )


def _load() -> str:
    return ", ".join(f"{each:.1f}" for each in os.getloadavg())


if __name__ == "__main__":
    main()
