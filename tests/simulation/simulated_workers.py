"""Workers on a simulated cluster: handlers take simulated time, in an executor or in asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from typing import Any

from tandem_kafka.consumer.consumer import KafkaConsumer
from tandem_kafka.runtime import Random, Runtime
from tandem_kafka.workers import AsyncKeyedWorkers, AsyncShareWorkers, KeyedWorkers, ShareWorkers
from tandem_kafka_testing.simulation import Simulation
from tests.scenarios.simulated_executor import SimulatedExecutor
from tests.simulation.sharing import Start, started

__all__ = [
    "KINDS",
    "OPTIONS",
    "Blocking",
    "async_share_workers",
    "keyed_workers",
    "share_workers",
    "simulated_workers",
    "workers_on",
]

#: Both kinds of workers.
KINDS = ["threads", "asyncio"]
OPTIONS: dict[str, Any] = {
    "group_id": "billing",
    "enable_auto_commit": False,
    "auto_offset_reset": "earliest",
}


def simulated_workers(
    simulation: Simulation,
    consumer: KafkaConsumer,
    handle: Callable[..., Any],
    *,
    at_once: int = 4,
    duration_ms: Callable[[], int] = lambda: 5,
    **options: Any,
) -> KeyedWorkers:
    """Return workers whose handlers take simulated time."""
    executor = SimulatedExecutor(simulation, at_once, duration_ms)
    workers = KeyedWorkers(consumer, handle, workers=executor, **options)
    random = Random(f"{simulation.seed}/workers {len(simulation.consumers)}")
    workers._runtime = Runtime(simulation.clock, consumer._core.driver, random)
    workers._letters = executor
    return workers


def workers_on(
    simulation: Simulation, consumer: Any, handle: Callable[..., Any], **options: Any
) -> Any:
    """Return workers for asyncio."""
    made: AsyncKeyedWorkers[Any, Any] = AsyncKeyedWorkers(consumer, handle, **options)
    driver = consumer._core.driver
    made._runtime = Runtime(simulation.clock, driver, Random(f"{simulation.seed}/workers"))
    return made


class Blocking:
    """Workers for asyncio whose runs block, like those of the others."""

    def __init__(self, runner: asyncio.Runner, workers: Any) -> None:
        self._runner = runner
        self._workers = workers

    def run(self, until: Callable[[], object] | None = None, **options: Any) -> None:
        """Run until a condition holds; no task is left."""

        async def run() -> None:
            before = asyncio.all_tasks()
            await self._workers.run(until, **options)
            assert asyncio.all_tasks() == before, "no task is left"

        self._runner.run(run())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._workers, name)


@contextmanager
def keyed_workers(
    kind: str,
    simulation: Simulation,
    handle: Callable[[Any], object],
    *,
    at_once: int = 4,
    duration_ms: Callable[[], int] = lambda: 5,
    pattern: Any = None,
    consumer_options: dict[str, Any] = OPTIONS,
    **options: Any,
) -> Iterator[Any]:
    """Workers of either kind, of a consumer that reads one topic or has subscribed to a pattern."""
    topics = ("orders",) if pattern is None else ()
    if kind == "threads":
        consumer = simulation.consumer(*topics, **consumer_options)
        if pattern is not None:
            consumer.subscribe(pattern=pattern)
        how = {"at_once": at_once, "duration_ms": duration_ms}
        yield simulated_workers(simulation, consumer, handle, **how, **options)
        return

    async def coroutine(record: Any) -> None:
        await asyncio.sleep(duration_ms() / 1_000)
        handle(record)

    async def started() -> Any:
        consumer = simulation.async_consumer(*topics, **consumer_options)
        await consumer.start()
        if pattern is not None:
            await consumer.subscribe(pattern=pattern)
        return consumer

    with simulation.runner() as runner:
        consumer = runner.run(started())
        workers = workers_on(simulation, consumer, coroutine, workers=at_once, **options)
        try:
            yield Blocking(runner, workers)
        finally:
            runner.run(consumer.close())


@asynccontextmanager
async def async_share_workers(
    simulation: Simulation, handle: Callable[[Any], Any], **options: Any
) -> AsyncIterator[AsyncShareWorkers[Any, Any]]:
    """Workers for asyncio, of a share consumer that is closed at the end."""
    consumer = await started(simulation)
    try:
        workers = AsyncShareWorkers(consumer, handle, **options)
        workers._runtime = replace(workers._runtime, clock=simulation.clock)
        yield workers
    finally:
        await consumer.close()


@contextmanager
def share_workers(
    kind: str,
    simulation: Simulation,
    start: Start,
    handle: Callable[[Any], object],
    **options: Any,
) -> Iterator[Any]:
    """Workers of either kind, of a share consumer."""
    if kind == "threads":
        yield ShareWorkers(start(), handle, **options)
        return

    async def coroutine(record: Any) -> None:
        await asyncio.sleep(0)
        handle(record)

    with simulation.runner() as runner:
        making = async_share_workers(simulation, coroutine, **options)
        workers = runner.run(making.__aenter__())
        try:
            yield Blocking(runner, workers)
        finally:
            runner.run(making.__aexit__(None, None, None))
