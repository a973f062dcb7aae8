"""The process of an application: it receives a task as JSON, and prints its figures as JSON."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

from benchmarks.aio.applications import APPLICATIONS, Application
from benchmarks.child import READY, Task
from benchmarks.measures import Figures, Mark, delays, rates

__all__: list[str] = []

_LIMIT_S = 240.0
#: Records that start the clock and are not counted.
_FIRST = 1


async def _run(task: Task) -> Figures:
    application = APPLICATIONS[task.reader]
    measure = _latency if task.measure == "latency" else _throughput
    async with asyncio.timeout(_LIMIT_S), application.open(task.source) as consumer:
        return await measure(application, consumer, task)


async def _throughput(application: Application, consumer: Any, task: Task) -> Figures:
    opened = time.monotonic()
    read = _Reading(application, consumer)
    await read.records(_FIRST)
    first = Mark.now(read.seen)
    await read.records(task.count)
    last = Mark.now(read.seen)
    if read.bytes != read.seen * task.source.size:
        raise RuntimeError(f"{read.bytes} bytes in {read.seen} records of {task.source.size}")
    return rates(first, last, opened)


class _Reading:
    """Takes the value of every record, and adds up the lengths."""

    def __init__(self, application: Application, consumer: Any) -> None:
        self._consumer = consumer
        self._turn = application.turns(consumer) if application.turns is not None else None
        self.seen = self.bytes = 0

    async def records(self, count: int) -> None:
        """Read until `count` records have been seen."""
        if self._turn is None:
            await self._each(count)
            return
        while self.seen < count:
            values = await self._turn()
            self.seen += len(values)
            self.bytes += sum(map(len, values))

    async def _each(self, count: int) -> None:
        length, left = 0, count - self.seen
        async for record in self._consumer:
            length += len(record.value)
            left -= 1
            if not left:
                break
        self.seen = count
        self.bytes += length


async def _latency(application: Application, consumer: Any, task: Task) -> Figures:
    print(READY, flush=True)
    found: list[float] = []
    await _follow(application, consumer, found, task.skip)
    first = Mark.now(len(found))
    await _follow(application, consumer, found, task.count)
    last = Mark.now(len(found))
    return {**delays(found[first.records :]), **last.cpu_since(first)}


async def _follow(application: Application, consumer: Any, found: list[float], count: int) -> None:
    """Read until `count` records have been seen, each with the time of its creation as value."""
    if application.turns is None:
        async for record in consumer:
            found.append((time.monotonic_ns() - int(record.value)) / 1_000_000)
            if len(found) >= count:
                return
        return
    turn = application.turns(consumer)
    while len(found) < count:
        values = await turn()
        now = time.monotonic_ns()
        found += [(now - int(value)) / 1_000_000 for value in values]


def main() -> None:
    """Run as `python -m benchmarks.aio.process <task>`."""
    print(json.dumps(asyncio.run(_run(Task.from_json(sys.argv[1])))), flush=True)


if __name__ == "__main__":
    main()
