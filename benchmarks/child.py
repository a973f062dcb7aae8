"""A reader's process: it receives a measurement as JSON, and prints its figures as JSON."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.measures import (
    Figures,
    handler_of,
    measure_idle,
    measure_latency,
    measure_memory,
    measure_throughput,
    taking,
)
from benchmarks.readers.base import Reader, Source
from benchmarks.readers.catalogue import CATALOGUE

__all__ = ["READY", "Task", "run"]

#: Printed when a latency measurement is ready for the paced records.
READY = "ready"
#: Seconds for lookups of positions and first fetches, before a reader counts as idle.
_SETTLE_S = 2.0
_SETTLE_EACH_S = 0.001


@dataclass(frozen=True, slots=True)
class Task:
    """One measurement.

    Attributes:
        measure: ``throughput``, ``latency``, ``idle`` or ``memory``.
        reader: Name of the reader in the catalogue.
        source: The topic to read.
        count: Records to read.
        loops: Empty iterations of the handler for each record; 0 means no handler.
        skip: Records at the start of a latency measurement that are not counted.
        seconds: Duration of an idle measurement.

    """

    measure: str
    reader: str
    source: Source
    count: int = 0
    loops: int = 0
    skip: int = 0
    seconds: float = 0.0

    def to_json(self) -> str:
        """Return the task as an argument for the process."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Task:
        """Parse the task from the command line."""
        fields: dict[str, Any] = json.loads(text)
        return cls(**{**fields, "source": Source(**fields["source"])})


def run(task: Task) -> Figures:
    """Measure."""
    make = CATALOGUE[task.reader].open
    if make is None:
        raise ValueError(f"{task.reader} does not run in Python")
    if task.measure == "memory":
        return measure_memory(make, task.source, task.count, handler_of(task.loops))
    reader = make(task.source)
    try:
        return _measure(task, reader)
    finally:
        reader.close()


def _measure(task: Task, reader: Reader) -> Figures:
    match task.measure:
        case "throughput":
            handle = handler_of(task.loops) if task.loops else None
            return measure_throughput(taking(reader, handle), task.count, task.source.size)
        case "latency":
            return measure_latency(reader, lambda: print(READY, flush=True), task.count, task.skip)
        case "idle":
            partitions = task.source.partitions
            settle_s = _SETTLE_S + _SETTLE_EACH_S * partitions
            return measure_idle(reader, partitions, settle_s, task.seconds)
        case _:
            raise ValueError(f"no measurement {task.measure}")


def main() -> None:
    """Run as `python -m benchmarks.child <task>`."""
    print(json.dumps(run(Task.from_json(sys.argv[1]))), flush=True)


if __name__ == "__main__":
    main()
