"""An executor whose calls take simulated time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any

from tandem_kafka_testing.simulation import Simulation

__all__ = ["SimulatedExecutor"]


class SimulatedExecutor(Executor):
    """Runs calls at simulated times; each begins when a worker is free.

    Args:
        simulation: The simulation.
        max_workers: Number of calls at the same time.
        duration_ms: Returns how long a call takes.

    Attributes:
        killed: Whether the process is gone: calls that run never end.
    """

    def __init__(
        self, simulation: Simulation, max_workers: int, duration_ms: Callable[[], int]
    ) -> None:
        self._simulation = simulation
        self._max_workers = max_workers
        self._duration_ms = duration_ms
        self._waiting: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._busy = 0
        self.killed = False

    @property
    def busy(self) -> bool:
        """Whether a call runs that will end."""
        return self._busy > 0 and not self.killed

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Queue a call."""
        future: Future[Any] = Future()
        self._waiting.append((future, partial(fn, *args, **kwargs)))
        self._begin_next()
        return future

    def _begin_next(self) -> None:
        while self._waiting and self._busy < self._max_workers:
            future, call = self._waiting.popleft()
            if future.set_running_or_notify_cancel():
                self._busy += 1
                self._simulation.after(self._duration_ms(), partial(self._finish, future, call))

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
