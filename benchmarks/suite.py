"""Runs every measure for every reader, in turns, so that what the machine does hits all alike."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Timer

from benchmarks.child import READY, Task
from benchmarks.java import measure_java
from benchmarks.measures import Figures, handler_of
from benchmarks.plan import Measure, Plan
from benchmarks.readers.base import Source
from benchmarks.readers.catalogue import CATALOGUE, JAVA
from benchmarks.topics import empty_topic, filled_topic
from tests.kafka.broker import KafkaCluster

__all__ = ["Sample", "Suite"]

_HANDLER_NS = 2000
_LIMIT_S = 300.0


@dataclass(frozen=True, slots=True)
class Sample:
    """One run of one reader: its figures, or why it has none."""

    measure: str
    reader: str
    figures: Figures
    failure: str | None = None


class Suite:
    """All measures on one cluster."""

    def __init__(self, cluster: KafkaCluster, plan: Plan, batch_bytes: int) -> None:
        self._cluster = cluster
        self._plan = plan
        self._batch_bytes = batch_bytes
        self._loops = _loops_for(_HANDLER_NS)
        self._topics: dict[int, Source] = {}

    def run(self, measures: Sequence[Measure], readers: Sequence[str]) -> Iterator[Sample]:
        """Yield the samples as they come."""
        for measure in measures:
            taking_part = [name for name in readers if _takes_part(name, measure)]
            for turn in range(self._plan.runs):
                shift = turn % max(1, len(taking_part))
                for name in taking_part[shift:] + taking_part[:shift]:
                    yield self._sample(measure, name)

    def _sample(self, measure: Measure, reader: str) -> Sample:
        try:
            return Sample(measure.name, reader, self._measure(measure.name, reader))
        except (RuntimeError, TimeoutError) as error:
            return Sample(measure.name, reader, {}, str(error))

    def _measure(self, measure: str, reader: str) -> Figures:
        match measure.split("-"):
            case ["throughput", size]:
                return self._throughput(reader, int(size))
            case ["handler"]:
                return self._handler(reader)
            case ["latency"]:
                return self._latency(reader)
            case ["idle"]:
                return self._idle(reader)
            case _:
                raise ValueError(f"no measure {measure}")

    def _throughput(self, reader: str, size: int) -> Figures:
        source = self._filled(size)
        if reader == JAVA:
            return measure_java(source, self._plan.records[size])
        count = int(self._plan.records[size] * CATALOGUE[reader].share)
        return _in_child(Task("throughput", reader, source, count=count, size=size))

    def _handler(self, reader: str) -> Figures:
        count = int(self._plan.handled * min(1.0, CATALOGUE[reader].share * 2))
        source = self._filled(100)
        task = Task("throughput", reader, source, count=count, size=100, loops=self._loops)
        return _in_child(task)

    def _latency(self, reader: str) -> Figures:
        plan = self._plan
        source = empty_topic(self._cluster, f"paced-{uuid.uuid4().hex}", eager=True)
        task = Task("latency", reader, source, count=plan.paced, skip=plan.paced_skip)
        return _in_child(task, lambda: _pace(source, plan))

    def _idle(self, reader: str) -> Figures:
        source = empty_topic(self._cluster, f"idle-{uuid.uuid4().hex}")
        return _in_child(Task("idle", reader, source, seconds=self._plan.idle_s))

    def _filled(self, size: int) -> Source:
        if size not in self._topics:
            count = self._plan.records[size]
            self._topics[size] = filled_topic(self._cluster, size, count, self._batch_bytes)
        return self._topics[size]


def _takes_part(reader: str, measure: Measure) -> bool:
    return reader != JAVA or measure.name.startswith("throughput")


def _in_child(task: Task, when_ready: Callable[[], None] | None = None) -> Figures:
    """Run a task in a process of its own and return what it measured."""
    command = [sys.executable, "-m", "benchmarks.child", task.to_json()]
    with _process(command, stdout=subprocess.PIPE) as process:
        if process.stdout is None:
            raise RuntimeError("no pipe to the reader")
        last = ""
        for line in process.stdout:
            last = line.strip()
            if last == READY and when_ready is not None:
                when_ready()
        if process.wait():
            raise RuntimeError(f"the process of {task.reader} ended with {process.returncode}")
    figures: Figures = json.loads(last)
    return figures


def _pace(source: Source, plan: Plan) -> None:
    arguments = (source.bootstrap, source.topic, str(source.partitions), str(plan.paced))
    command = [sys.executable, "-m", "benchmarks.pace", *arguments, str(plan.per_second)]
    with _process(command) as process:
        if process.wait():
            raise RuntimeError("the paced producer failed")


@contextmanager
def _process(command: list[str], stdout: int | None = None) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(command, stdout=stdout, text=True)
    limit = Timer(_LIMIT_S, process.kill)
    limit.start()
    try:
        yield process
    finally:
        limit.cancel()
        process.kill()
        process.wait()


def _loops_for(nanoseconds: int) -> int:
    """How many empty turns a handler takes to burn that time on this machine."""
    loops, values = 100, [b""] * 1000
    handle = handler_of(loops)
    best = min(_time_ns(handle, values) for _ in range(50)) / len(values)
    return max(1, round(loops * nanoseconds / best))


def _time_ns(handle: Callable[[bytes], None], values: list[bytes]) -> int:
    begin = time.perf_counter_ns()
    for value in values:
        handle(value)
    return time.perf_counter_ns() - begin
