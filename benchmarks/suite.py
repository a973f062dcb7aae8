"""Runs every measure for every reader in turns, so that other load affects all of them alike."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import Timer

from benchmarks.child import READY, Task
from benchmarks.java import measure_java
from benchmarks.measures import Figures, handler_of
from benchmarks.plan import Measure, Plan
from benchmarks.readers.base import Source
from benchmarks.readers.catalogue import AMONG, CATALOGUE, JAVA
from benchmarks.topics import PARTITIONS, Sources
from tandem_kafka_testing.kafka import RealKafka

__all__ = ["Sample", "Suite"]

_HANDLER_NS, _SLOW_HANDLER_NS = 2_000, 25_000
_LIMIT_S = 300.0
#: The modules of the processes that read.
_CHILD, _ASYNCHRONOUS = "benchmarks.child", "benchmarks.aio.process"
_WORKERS = "benchmarks.workers.process"
#: Bytes of documents of which the plan's number is read.
_LARGE_FROM = 200
#: Paced records before latency is measured.
_WARM_UP = 6_000


@dataclass(frozen=True, slots=True)
class Sample:
    """One run of one reader: its figures, or its failure."""

    measure: str
    reader: str
    figures: Figures
    failure: str | None = None


class Suite:
    """All measures on one cluster."""

    def __init__(self, cluster: RealKafka, plan: Plan, batch_bytes: int) -> None:
        self._plan = plan
        self._sources = Sources(cluster, plan, batch_bytes)
        self._loops = _loops_for(_HANDLER_NS)
        self._paced = False

    def run(self, measures: Sequence[Measure], readers: Sequence[str]) -> Iterator[Sample]:
        """Yield the samples one by one."""
        for measure in measures:
            taking_part = [name for name in measure.readers if name in readers]
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
        kinds: dict[str, Callable[..., Figures]] = {
            "throughput": self._throughput,
            "compressed": self._compressed,
            "handler": self._handler,
            "tls": self._tls,
            "latency": self._latency,
            "memory": self._memory,
            "idle": self._idle,
            "many": self._many,
            "options": self._option,
            "ways": self._way,
            "columns": self._columns,
            "aio": self._asynchronous,
            "workers": self._workers,
        }
        kind, *details = measure.split("-")
        return kinds[kind](reader, *details)

    # --- measures by name ----------------------------------------------------------------------

    def _throughput(self, reader: str, size: str) -> Figures:
        return self._read(reader, self._sources.plain(int(size)), self._plan.records[int(size)])

    def _compressed(self, reader: str, size: str, codec: str) -> Figures:
        source = self._sources.compressed(int(size), codec)
        return self._read(reader, source, self._plan.compressed[int(size)])

    def _handler(self, reader: str) -> Figures:
        return self._handle(reader, self._sources.plain(1000))

    def _tls(self, reader: str, handler: str = "") -> Figures:
        source = self._sources.encrypted(1000)
        if handler:
            return self._handle(reader, source)
        return self._read(reader, source, self._plan.records[1000])

    def _latency(self, reader: str, partitions: str = "", module: str = _CHILD) -> Figures:
        if not self._paced:
            # A JVM that has just started is too slow for the pace of these small requests.
            self._paced = True
            warm_up = replace(self._plan, paced=_WARM_UP, paced_skip=0)
            self._follow(reader, warm_up, partitions, module)
        return self._follow(reader, self._plan, partitions, module)

    def _follow(self, reader: str, plan: Plan, partitions: str, module: str) -> Figures:
        source = self._sources.empty("paced", int(partitions or PARTITIONS), eager=True)
        task = Task("latency", reader, source, count=plan.paced, skip=plan.paced_skip)
        return _in_child(task, lambda: _pace(source, plan), module)

    def _memory(self, reader: str) -> Figures:
        loops = self._loops * _SLOW_HANDLER_NS // _HANDLER_NS
        source = self._sources.backlog()
        return _in_child(Task("memory", reader, source, count=self._plan.backlog, loops=loops))

    def _idle(self, reader: str) -> Figures:
        return self._rest(reader, self._sources.empty("idle"))

    def _many(self, reader: str, kind: str) -> Figures:
        if kind == "idle":
            return self._rest(reader, self._sources.many_idle())
        source = self._sources.many_busy(among=reader == AMONG)
        return _in_child(Task("throughput", reader, source, count=self._plan.busy))

    def _option(self, reader: str, kind: str) -> Figures:
        if kind == "handler":
            return self._handler(reader)
        return self._throughput(reader, "1000")

    def _way(self, reader: str, kind: str) -> Figures:
        if kind == "plain":
            return self._throughput(reader, "100")
        return self._read(reader, self._sources.documents(), self._plan.documents)

    def _columns(self, reader: str, encoding: str, size: str) -> Figures:
        # Large ones are fewer, so that the broker reads them from memory, too.
        share = min(1, _LARGE_FROM / int(size))
        source = self._sources.documents(encoding, int(size), share)
        return self._read(reader, source, int(self._plan.documents * share))

    def _asynchronous(self, reader: str, _way: str, size: str = "") -> Figures:
        if not size:
            return self._latency(reader, module=_ASYNCHRONOUS)
        count = int(self._plan.records[int(size)] * CATALOGUE[reader].share)
        task = Task("throughput", reader, self._sources.plain(int(size)), count=count)
        return _in_child(task, module=_ASYNCHRONOUS)

    def _workers(self, reader: str, kind: str) -> Figures:
        count, seconds = self._plan.records[100], self._plan.idle_s
        task = Task(kind, reader, self._sources.keyed(), count=count, seconds=seconds)
        return _in_child(task, module=_WORKERS)

    def _read(self, reader: str, source: Source, count: int) -> Figures:
        if reader == JAVA:
            return measure_java(source, count)
        count = int(count * CATALOGUE[reader].share)
        return _in_child(Task("throughput", reader, source, count=count))

    def _handle(self, reader: str, source: Source) -> Figures:
        count = int(self._plan.handled * CATALOGUE[reader].share)
        return _in_child(Task("throughput", reader, source, count=count, loops=self._loops))

    def _rest(self, reader: str, source: Source) -> Figures:
        return _in_child(Task("idle", reader, source, seconds=self._plan.idle_s))


def _in_child(
    task: Task, when_ready: Callable[[], None] | None = None, module: str = _CHILD
) -> Figures:
    """Run a task in a separate process, and return its figures."""
    command = [sys.executable, "-m", module, task.to_json()]
    environment = {**os.environ, **CATALOGUE[task.reader].environment}
    with _process(command, environment, stdout=subprocess.PIPE) as process:
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
    with _process(command, os.environ) as process:
        if process.wait():
            raise RuntimeError("the paced producer failed")


@contextmanager
def _process(
    command: list[str], environment: Mapping[str, str], stdout: int | None = None
) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(command, env=environment, stdout=stdout, text=True)
    limit = Timer(_LIMIT_S, process.kill)
    limit.start()
    try:
        yield process
    finally:
        limit.cancel()
        process.kill()
        process.wait()


def _loops_for(nanoseconds: int) -> int:
    """Return the number of empty iterations that take this time on this machine."""
    loops, values = 100, [b""] * 200
    handle = handler_of(loops)
    # The best of many short runs is one without interruptions.
    best = min(_time_ns(handle, values) for _ in range(2000)) / len(values)
    return max(1, round(loops * nanoseconds / best))


def _time_ns(handle: Callable[[bytes], None], values: list[bytes]) -> int:
    begin = time.perf_counter_ns()
    for value in values:
        handle(value)
    return time.perf_counter_ns() - begin
