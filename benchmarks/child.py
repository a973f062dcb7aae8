"""A reader's process: one measurement, told by a line of JSON, answered by another."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.measures import (
    Figures,
    handler_of,
    measure_idle,
    measure_latency,
    measure_throughput,
)
from benchmarks.readers.base import Reader, Source
from benchmarks.readers.catalogue import CATALOGUE

__all__ = ["READY", "Task"]

#: What the process prints when it wants the paced records of a latency measurement to begin.
READY = "ready"


@dataclass(frozen=True, slots=True)
class Task:
    """One measurement.

    Attributes:
        measure: ``throughput``, ``latency`` or ``idle``.
        reader: Name of the reader in the catalogue.
        source: Where it reads.
        count: Records to read.
        size: Bytes of each value.
        loops: Empty turns the handler takes for a record; 0 for no handler.
        skip: Records of a latency measurement that come before it counts.
        seconds: How long to idle.

    """

    measure: str
    reader: str
    source: Source
    count: int = 0
    size: int = 0
    loops: int = 0
    skip: int = 0
    seconds: float = 0.0

    def to_json(self) -> str:
        """For the command line of the process."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Task:
        """From the command line."""
        fields: dict[str, Any] = json.loads(text)
        return cls(**{**fields, "source": Source(**fields["source"])})


def _idle(task: Task, reader: Reader) -> Figures:
    return measure_idle(reader, settle_s=2.0, seconds=task.seconds)


def _latency(task: Task, reader: Reader) -> Figures:
    return measure_latency(reader, lambda: print(READY, flush=True), task.count, task.skip)


def _throughput(task: Task, reader: Reader) -> Figures:
    handle = handler_of(task.loops) if task.loops else None
    return measure_throughput(reader, task.count, task.size, handle)


_MEASURES: dict[str, Callable[[Task, Reader], Figures]] = {
    "idle": _idle,
    "latency": _latency,
    "throughput": _throughput,
}


def main() -> None:
    """Run as `python -m benchmarks.child <task>`."""
    task = Task.from_json(sys.argv[1])
    make = CATALOGUE[task.reader].open
    if make is None:
        raise ValueError(f"{task.reader} does not run in Python")
    reader = make(task.source)
    try:
        figures = _MEASURES[task.measure](task, reader)
    finally:
        reader.close()
    print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main()
