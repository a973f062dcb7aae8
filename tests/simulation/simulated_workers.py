"""Workers on a simulated cluster: handlers run in an executor that works in simulated time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tandem_kafka.consumer.consumer import KafkaConsumer
from tandem_kafka.runtime import Random, Runtime
from tandem_kafka.workers import KeyedWorkers
from tandem_kafka_testing.simulation import Simulation
from tests.scenarios.simulated_executor import SimulatedExecutor

__all__ = ["simulated_workers"]


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
