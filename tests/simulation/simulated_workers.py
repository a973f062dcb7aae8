"""Workers on a simulated cluster: handlers run in an executor that works in simulated time."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

from tandem_kafka.consumer.consumer import KafkaConsumer
from tandem_kafka.runtime import Random, Runtime
from tandem_kafka.testing.simulation import Simulation
from tandem_kafka.workers import KeyedWorkers

__all__ = ["SimulatedExecutor", "simulated_workers"]


class SimulatedExecutor(Executor):
    """Runs calls at simulated times; each begins when a worker is free.

    Args:
        simulation: The simulation.
        max_workers: Number of calls at the same time.
        duration_ms: Returns how long a call takes.
    """

    def __init__(
        self, simulation: Simulation, max_workers: int, duration_ms: Callable[[], int]
    ) -> None:
        self._simulation = simulation
        self._max_workers = max_workers
        self._duration_ms = duration_ms
        self._waiting: list[tuple[Future[Any], Callable[[], Any]]] = []
        self._busy = 0
        self.most_busy = 0
        self.killed = False

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self._waiting.append((future, lambda: fn(*args, **kwargs)))
        self._begin_next()
        return future

    def _begin_next(self) -> None:
        while self._waiting and self._busy < self._max_workers:
            future, call = self._waiting.pop(0)
            if future.set_running_or_notify_cancel():
                self._busy += 1
                self.most_busy = max(self.most_busy, self._busy)
                self._simulation.after(self._duration_ms(), lambda: self._finish(future, call))  # noqa: B023

    def _finish(self, future: Future[Any], call: Callable[[], Any]) -> None:
        self._busy -= 1
        if self.killed:
            return
        try:
            result = call()
        except BaseException as error:  # noqa: BLE001 - as executors do
            future.set_exception(error)
        else:
            future.set_result(result)
        self._begin_next()


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
