"""The process that handles records: it receives a task as JSON, and prints its figures as JSON."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from typing import Any, Final

from benchmarks.child import Task
from benchmarks.measures import Figures, Mark, rates
from benchmarks.usage import memory_mb
from benchmarks.workers.crews import CREWS, Crew
from tandem_kafka import AsyncKafkaConsumer, ConsumerRecord, KafkaConsumer
from tandem_kafka.workers import AsyncKeyedWorkers, KeyedWorkers

__all__: list[str] = []

_SLEEP_S: Final = 0.005
#: Room for a map of a million records. With the default, partitions are paused earlier.
_METADATA_BYTES: Final = 200_000
#: Records of a poll of the loop, so that the clock is read often.
_FEW, _MANY = 20, 500


def sleep(_record: ConsumerRecord) -> None:
    """Take 5 ms, as a request to a service does."""
    time.sleep(_SLEEP_S)


def nothing(_record: ConsumerRecord) -> None:
    """Return."""


async def _sleep(_record: ConsumerRecord) -> None:
    await asyncio.sleep(_SLEEP_S)


async def _nothing(_record: ConsumerRecord) -> None:
    pass


class _Clock:
    """A condition for `run(until=...)` that measures until enough records or seconds."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._opened = time.monotonic()
        self._first: Mark | None = None
        self._last: Mark | None = None

    def ended(self, done: int) -> bool:
        """Note how many records are done."""
        if self._first is None:
            if done:
                self._first = Mark.now(done)
            return False
        if self._last is None and (
            done >= self._task.count or time.monotonic() - self._first.seconds >= self._task.seconds
        ):
            self._last = Mark.now(done)
        return self._last is not None

    def figures(self) -> Figures:
        """Return the figures of the records between."""
        if self._first is None or self._last is None:
            raise RuntimeError("the run ended early")
        return rates(self._first, self._last, self._opened)


class _Flight:
    """A condition that is true once enough records are in flight; it then lets the handlers go."""

    def __init__(self, task: Task, release: Callable[[], None]) -> None:
        self._task = task
        self._release = release
        self._idle_mb = memory_mb()
        self._due = 0.0
        self._mb: float | None = None

    def ended(self, in_flight: Callable[[], int]) -> bool:
        """Count the records in flight once a second, because counting takes time."""
        now = time.monotonic()
        if self._mb is None and now >= self._due:
            self._due = now + 1.0
            if in_flight() >= self._task.count:
                self._mb = memory_mb()
                self._release()
        return self._mb is not None

    def figures(self) -> Figures:
        """Return the memory of the records."""
        if self._mb is None:
            raise RuntimeError("the run ended early")
        return {"above_idle_mb": self._mb - self._idle_mb, "idle_memory_mb": self._idle_mb}


def _options(task: Task) -> dict[str, Any]:
    return {
        "bootstrap_servers": task.source.bootstrap,
        "group_id": task.source.group,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
    }


def _in_flight(workers: KeyedWorkers[Any, Any] | AsyncKeyedWorkers[Any, Any]) -> int:
    return sum(each.in_work for each in workers.progress().values())


def _loop(task: Task) -> Figures:
    options = {**_options(task), "enable_auto_commit": True}
    with KafkaConsumer(task.source.topic, **options) as consumer:
        if task.measure == "memory":
            return _kept(task, consumer)
        clock, done = _Clock(task), 0
        handle, limit = (sleep, _FEW) if task.measure == "sleep" else (nothing, _MANY)
        while not clock.ended(done):
            for records in consumer.poll(1000, max_records=limit).values():
                for record in records:
                    handle(record)
                done += len(records)
        return clock.figures()


def _kept(task: Task, consumer: KafkaConsumer[Any, Any]) -> Figures:
    kept: list[ConsumerRecord] = []
    flight = _Flight(task, lambda: None)
    while not flight.ended(lambda: len(kept)):
        for records in consumer.poll(1000).values():
            kept.extend(records)
    return flight.figures()


def _blocking(task: Task, crew: Crew) -> Figures:
    with ExitStack() as stack:
        workers: Any = crew.workers
        if crew.kind == "processes":
            context = multiprocessing.get_context("spawn")
            workers = stack.enter_context(ProcessPoolExecutor(crew.workers, context))
            list(workers.map(abs, range(crew.workers * 4)))  # start the processes
        consumer = stack.enter_context(KafkaConsumer(task.source.topic, **_options(task)))
        if task.measure == "memory":
            released = threading.Event()
            flight = _Flight(task, released.set)
            run = KeyedWorkers(
                consumer,
                lambda _: released.wait(),
                workers=workers,
                max_in_flight=task.count,
                metadata_limit_bytes=_METADATA_BYTES,
            )
            run.run(lambda: flight.ended(lambda: _in_flight(run)))
            return flight.figures()
        clock = _Clock(task)
        handle = sleep if task.measure == "sleep" else nothing
        run = KeyedWorkers(consumer, handle, workers=workers)
        run.run(lambda: clock.ended(run.done))
        return clock.figures()


async def _asynchronous(task: Task, crew: Crew) -> Figures:
    async with AsyncKafkaConsumer(task.source.topic, **_options(task)) as consumer:
        if task.measure == "memory":
            released = asyncio.Event()
            flight = _Flight(task, released.set)

            async def waiting(_record: ConsumerRecord) -> None:
                await released.wait()

            run = AsyncKeyedWorkers(
                consumer,
                waiting,
                workers=crew.workers,
                max_in_flight=task.count,
                metadata_limit_bytes=_METADATA_BYTES,
            )
            await run.run(lambda: flight.ended(lambda: _in_flight(run)))
            return flight.figures()
        clock = _Clock(task)
        handle = _sleep if task.measure == "sleep" else _nothing
        run = AsyncKeyedWorkers(consumer, handle, workers=crew.workers)
        await run.run(lambda: clock.ended(run.done))
        return clock.figures()


def _run(task: Task) -> Figures:
    crew = CREWS[task.reader]
    if crew.kind == "loop":
        return _loop(task)
    if crew.kind == "tasks":
        return asyncio.run(_asynchronous(task, crew))
    return _blocking(task, crew)


def main() -> None:
    """Run as `python -m benchmarks.workers.process <task>`."""
    print(json.dumps(_run(Task.from_json(sys.argv[1]))), flush=True)


if __name__ == "__main__":
    main()
