"""One simulation with all its parts, made from one seed."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from tandem_kafka import AsyncKafkaConsumer, KafkaConsumer
from tandem_kafka.config import Config
from tandem_kafka.runtime import Random, Runtime
from tandem_kafka_testing.clock import SimClock
from tandem_kafka_testing.cluster import SimCluster
from tandem_kafka_testing.driver import SteppedDriver
from tandem_kafka_testing.event_loop import SimulatedEventLoop
from tandem_kafka_testing.network import Conditions, SimNetwork, SimTransport
from tandem_kafka_testing.scheduler import Scheduler
from tandem_kafka_testing.trace import Trace

T = TypeVar("T")


class Simulation:
    """A clock, a network, a cluster, and the consumers that use them.

    The same seed gives the same run, line by line of `trace`. Time passes only while a consumer
    waits, and in `sleep`. As a context manager, it closes the open consumers; if an error was
    raised, it adds the seed and the trace to it.

    Args:
        seed: Determines everything random.
        brokers: Number of brokers.
        kafka: The release that the brokers simulate: "0.11", "2.8", "3.9" or "4.3". With None they
            support everything that is simulated.
        racks: Racks of the brokers, in turn.
        conditions: The faults of the network.
        trace_lines: Number of lines that `trace` keeps; None for all.

        with Simulation(seed=7) as simulation:
            simulation.cluster.create_topic("orders")
            consumer = simulation.consumer(group_id="readers", auto_offset_reset="earliest")
    """

    def __init__(
        self,
        seed: object = 0,
        *,
        brokers: int = 1,
        kafka: str | None = None,
        racks: Sequence[str] = (),
        conditions: Conditions | None = None,
        trace_lines: int | None = 400,
    ) -> None:
        self.seed = seed
        self.random = self._random_for("test")
        self.clock = SimClock()
        self.trace = Trace(self.clock, trace_lines)
        self.network = SimNetwork(self.clock, self._random_for("network"), self.trace, conditions)
        self.cluster = SimCluster(self.network, self._random_for("cluster"), brokers, kafka, racks)
        self.consumers: list[KafkaConsumer] = []
        self.drivers: list[SteppedDriver] = []
        self._scheduler = Scheduler(self.clock, self.network, self._random_for("turns"), seed)

    def _random_for(self, subject: str) -> Random:
        """Return a separate source of randomness, so that one subject does not affect others."""
        return Random(f"{self.seed}/{subject}")

    def consumer(self, *topics: str, **options: Any) -> KafkaConsumer:
        """Return a real consumer on the simulated network; options as for `KafkaConsumer`."""
        options.setdefault("bootstrap_servers", self.cluster.bootstrap())
        options.setdefault("client_id", f"simulated-{len(self.drivers) + 1}")
        runtime, transport = self._environment()
        consumer = KafkaConsumer.__new__(KafkaConsumer)
        consumer._start(Config.from_options(options), runtime, topics, transport)  # noqa: SLF001
        self.consumers.append(consumer)
        return consumer

    def async_consumer(self, *topics: str, **options: Any) -> AsyncKafkaConsumer[Any, Any]:
        """Return a real asyncio consumer on the simulated network, for coroutines of `run()`."""
        options.setdefault("bootstrap_servers", self.cluster.bootstrap())
        options.setdefault("client_id", f"simulated-{len(self.drivers) + 1}")
        consumer = AsyncKafkaConsumer(*topics, **options)
        runtime, transport = self._environment()
        consumer._run_in(runtime, transport)  # noqa: SLF001
        return consumer

    def _environment(self) -> tuple[Runtime, SimTransport]:
        """Return the clock, driver, randomness and transport of another consumer."""
        number = len(self.drivers) + 1
        transport = SimTransport(self.network)
        driver = SteppedDriver(self._scheduler, transport, self._random_for(f"driver {number}"))
        self.drivers.append(driver)
        return Runtime(self.clock, driver, self._random_for(f"consumer {number}")), transport

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in an event loop of simulated time; return its result."""
        with self.runner() as runner:
            return runner.run(coroutine)

    def runner(self) -> asyncio.Runner:
        """Return a runner of several coroutines in one event loop of simulated time."""
        return asyncio.Runner(loop_factory=lambda: SimulatedEventLoop(self._scheduler))

    @property
    def on_network_thread(self) -> bool:
        """True while the running code would be on the network thread of a consumer."""
        return self._scheduler.on_network_thread

    def sleep(self, duration_ms: int) -> None:
        """Let time pass without calls of the application; the network threads keep running."""
        until_ms = self.clock.now_ms() + duration_ms
        while self.clock.now_ms() < until_ms:
            self._scheduler.step(until_ms)

    def jump(self, by_ms: int) -> None:
        """Let time pass while the whole machine is suspended."""
        self.trace.note(f"the clock jumps by {by_ms} ms")
        self.clock.advance_to(self.clock.now_ms() + by_ms)
        self.sleep(1)

    def after(self, delay_ms: int, action: Any) -> None:
        """Call `action()` after a delay, as from another thread."""
        self.network.at(self.clock.now_ms() + delay_ms, action)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None:
            error.add_note(f"in the simulation with seed {self.seed!r}; its last lines:")
            error.add_note("\n".join(self.trace.lines[-40:]))
        for consumer in self.consumers:
            if error is None:
                consumer.close()
            else:
                consumer._core.closed = True  # noqa: SLF001 - closing could hide the failure


def simulated_consumer(*topics: str, seed: object = 0, **options: Any) -> KafkaConsumer:
    """Return a consumer with its own simulation, for a test of one line."""
    return Simulation(seed).consumer(*topics, **options)
