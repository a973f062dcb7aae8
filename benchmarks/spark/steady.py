"""Measures a stream of micro-batches while records arrive at an even rate."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from benchmarks.spark.measuring import percentile
from benchmarks.spark.tables import NOTHING, PARTITIONS, Tables

__all__ = ["Steady", "merged", "produced", "steady"]

TRIGGER_MS = 500
PER_SECOND = 1_000
#: Batches that are not counted: the first ones start processes and compile code.
_WARM_UP_S = 8.0


@dataclass(frozen=True, slots=True)
class Steady:
    """The durations of batches with records, in seconds."""

    durations: tuple[float, ...]
    #: Time from a record's timestamp to the end of its batch: mean and maximum of each batch.
    latencies: tuple[float, ...]
    oldest: tuple[float, ...]
    jvm: float
    children: float

    @property
    def batches(self) -> int:
        """The number of batches."""
        return len(self.durations)

    def row(self) -> list[str]:
        """Return the cells of a table."""
        durations, each = list(self.durations), max(1, self.batches)
        return [
            f"{self.batches}",
            f"{percentile(durations, 50):.3f}",
            f"{percentile(durations, 95):.3f}",
            f"{(self.jvm + self.children) / each:.3f}",
            f"{self.jvm / each:.3f}",
            f"{self.children / each:.3f}",
            f"{statistics.median(self.latencies):.3f}" if self.latencies else "-",
            f"{percentile(list(self.oldest), 95):.3f}" if self.oldest else "-",
        ]


def merged(rounds: list[Steady]) -> Steady:
    """Return the batches of several rounds as one."""
    return Steady(
        tuple(each for one in rounds for each in one.durations),
        tuple(each for one in rounds for each in one.latencies),
        tuple(each for one in rounds for each in one.oldest),
        sum(one.jvm for one in rounds),
        sum(one.children for one in rounds),
    )


def steady(tables: Tables, source: str, topic: str, seconds: float) -> Steady:
    """Stream to a sink that discards rows for some seconds, after a warm-up.

    Raises:
        RuntimeError: There was no batch.
    """
    more = {"endless": "true"} if source == NOTHING else {"startingOffsets": "latest"}
    rows = tables.load(tables.spark.readStream, source, topic, more)
    if source != NOTHING:
        rows = rows.observe("records", *_observed())
    writer = rows.writeStream.format("noop").trigger(processingTime=f"{TRIGGER_MS} milliseconds")
    query = tables.begin(writer)
    try:
        time.sleep(_WARM_UP_S)
        processors = tables.processors()
        first = query.lastProgress
        begun = -1 if first is None else first["batchId"]
        before = processors.spent()
        time.sleep(seconds)
        after = processors.spent()
        progress = [each for each in query.recentProgress if each["batchId"] > begun]
    finally:
        query.stop()
    found = [each for each in progress if each["numInputRows"] > 0]
    if not found:
        raise RuntimeError(f"{source}: no batch in {seconds} s")
    late = [each for each in map(_latency, found) if each is not None]
    return Steady(
        tuple(each["durationMs"]["triggerExecution"] / 1_000 for each in found),
        tuple(mean for mean, _ in late),
        tuple(oldest for _, oldest in late),
        after[0] - before[0],
        after[1] - before[1],
    )


def _observed() -> list[Any]:
    from pyspark.sql import functions as sql  # noqa: PLC0415 - needs pyspark

    at_ms = sql.unix_millis("timestamp")
    return [sql.avg(at_ms).alias("mean"), sql.min(at_ms).alias("oldest")]


def _latency(progress: Any) -> tuple[float, float] | None:
    observed = dict(progress["observedMetrics"]).get("records")
    if observed is None:
        return None
    begin = datetime.fromisoformat(progress["timestamp"])
    end_ms = begin.timestamp() * 1_000 + progress["durationMs"]["triggerExecution"]
    return (end_ms - observed["mean"]) / 1_000, (end_ms - observed["oldest"]) / 1_000


@contextmanager
def produced(bootstrap: str, topic: str) -> Iterator[None]:
    """Produce records at an even rate, in a thread of this process."""
    over = threading.Event()
    thread = threading.Thread(target=_produce, args=(bootstrap, topic, over), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _produce(bootstrap: str, topic: str, over: threading.Event) -> None:
    from confluent_kafka import Producer  # noqa: PLC0415 - where it is measured

    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    value, number = b"v" * 100, 0
    while not over.wait(0.01):
        for _ in range(PER_SECOND // 100):
            producer.produce(topic, value, partition=number % PARTITIONS)
            number += 1
        producer.poll(0)
    producer.flush()
