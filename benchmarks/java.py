"""The Java client, measured with Kafka's own tool ConsumerPerformance."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from dataclasses import dataclass
from itertools import pairwise
from threading import Timer
from typing import NamedTuple

from benchmarks.measures import Figures
from benchmarks.readers.base import Source
from tandem_kafka_testing.kafka.java import java_command

__all__ = ["ToolRun", "measure_java", "run_tool"]

_TOOL = "org.apache.kafka.tools.ConsumerPerformance"
_HEAP = "-Xmx512m"  # as Kafka's own scripts start it
_LIMIT_S = 300.0


class ToolRun(NamedTuple):
    """What a tool of Kafka printed, and what its process used."""

    output: str
    cpu_s: float
    peak_memory_mb: float


@dataclass(frozen=True, slots=True)
class _Run:
    records: float
    records_per_s: float
    cpu_s: float
    peak_memory_mb: float


def measure_java(source: Source, count: int) -> Figures:
    """Read `count` records.

    The rate is the tool's own for fetching, without the time for joining its group. CPU is that of
    the whole process minus that of a process that reads only a few records. This excludes the start
    of the JVM, just as the start of the interpreter is excluded for the other readers.
    """
    few, many = _run(source, 1), _run(source, count)
    cpu_s = (many.cpu_s - few.cpu_s) / (many.records - few.records)
    return {
        "records_per_s": many.records_per_s,
        "cpu_us_per_record": cpu_s * 1_000_000,
        "peak_memory_mb": many.peak_memory_mb,
    }


def run_tool(tool: str, *arguments: str) -> ToolRun:
    """Run a tool of Kafka to its end.

    Raises:
        RuntimeError: It failed.
    """
    command = java_command(tool, *arguments, options=[_HEAP], log_level="warn")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    limit = Timer(_LIMIT_S, process.kill)
    limit.start()
    try:
        if process.stdout is None:
            raise RuntimeError("no pipe to the Java client")
        output = process.stdout.read().decode()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    finally:
        limit.cancel()
        if process.returncode is None:
            process.kill()
            process.wait()
    if process.returncode:
        raise RuntimeError(f"the Java client failed:\n{output}")
    memory_mb = used.ru_maxrss / (1024 * 1024 if sys.platform == "darwin" else 1024)
    return ToolRun(output, used.ru_utime + used.ru_stime, memory_mb)


def _run(source: Source, count: int) -> _Run:
    run = run_tool(
        _TOOL,
        *("--bootstrap-server", source.bootstrap, "--topic", source.topic),
        *("--num-records", str(count), "--group", f"java-{uuid.uuid4().hex}"),
        *_tls(source),
    )
    figures = _figures(run.output)
    records, rate = figures["data.consumed.in.nMsg"], figures["fetch.nMsg.sec"]
    return _Run(records, rate, run.cpu_s, run.peak_memory_mb)


def _tls(source: Source) -> list[str]:
    if source.authority is None:
        return []
    properties = (
        "security.protocol=SSL",
        "ssl.truststore.type=PEM",
        f"ssl.truststore.location={source.authority}",
    )
    return [part for each in properties for part in ("--command-property", each)]


def _figures(output: str) -> dict[str, float]:
    """Parse the tool's output: a line of names and a line of values."""
    for names, values in pairwise(output.splitlines()):
        if names.startswith("start.time"):
            pairs = zip(names.split(", "), values.split(", "), strict=True)
            return {name: float(value) for name, value in pairs if "time" not in name}
    raise RuntimeError(f"no figures from the Java client:\n{output}")
