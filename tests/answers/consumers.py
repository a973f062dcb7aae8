"""The kinds of consumers, and the cluster that answers them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final

from tandem_kafka import AsyncShareConsumer, TopicPartition
from tandem_kafka_testing import Simulation
from tandem_kafka_testing.cluster.telemetry import TelemetryReceiver
from tests.scenarios.share_members import share_consumer

__all__ = ["GROUP", "RECORD_EVERY_MS", "Asking", "asking"]

GROUP: Final = "g"
#: Each partition gets a record, so that there is something to read all the time.
RECORD_EVERY_MS: Final = 2_000
_PARTITIONS: Final = tuple(TopicPartition("orders", number) for number in range(2))
#: Heartbeats often enough that two minutes have many, and a rebalance that waits for nobody.
_OPTIONS: Final = {
    "group_id": GROUP,
    "auto_offset_reset": "earliest",
    "auto_commit_interval_ms": 2_000,
    "fetch_max_wait_ms": 5_000,
    "metadata_max_age_ms": 10_000,
    "bootstrap_timeout_ms": 0,
}
_LOGIN: Final = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "sasl_plain_username": "ada",
    "sasl_plain_password": "secret",
}


class Asking:
    """One consumer, and a cluster in which what is needed for its requests happens.

    Attributes:
        simulation: The cluster, the network and the clock.
        consumer: The consumer; None until `start`.
    """

    def __init__(self, seed: str, asker: str, needs: str, kafka: str | None = None) -> None:
        self.simulation = Simulation(seed, brokers=2, kafka=kafka, trace_lines=400)
        self.asker, self._needs = asker, needs
        self.shares = asker.endswith("share")
        self.is_async = asker.startswith("async")
        self.consumer: Any = None
        self._stopped = False
        cluster = self.simulation.cluster
        cluster.create_topic("orders", len(_PARTITIONS))
        cluster.configure_group(GROUP, share_auto_offset_reset="earliest")
        if needs == "telemetry":
            cluster.telemetry = TelemetryReceiver(accepted=())
        elif needs == "login":
            cluster.users["ada"] = "secret"
        elif needs == "elections":
            self._every(10_000, self.elect)
        self._every(RECORD_EVERY_MS, self._produce)

    def run(self, use: Coroutine[Any, Any, None]) -> None:
        """Run what uses the consumer: without an event loop, no await of it suspends."""
        if self.is_async:
            self.simulation.run(use)
            return
        try:
            use.send(None)
        except StopIteration:
            return
        raise AssertionError("a call of a consumer without asyncio suspends")

    def _options(self) -> dict[str, Any]:
        options: dict[str, Any] = {**_OPTIONS, **(_LOGIN if self._needs == "login" else {})}
        if self.shares:
            for name in ("auto_offset_reset", "auto_commit_interval_ms"):
                del options[name]
        elif not self.asker.endswith(("assigned", "classic")):
            options["group_protocol"] = "consumer"
        return options

    async def start(self) -> None:
        """Make the consumer."""
        simulation, options = self.simulation, self._options()
        topics = () if self.asker == "assigned" else ("orders",)
        if self.asker == "async share":
            options["bootstrap_servers"] = simulation.cluster.bootstrap()
            self.consumer = AsyncShareConsumer(*topics, **options)
            self.consumer._run_in(*simulation._environment())
        elif self.is_async:
            self.consumer = simulation.async_consumer(*topics, **options)
        elif self.shares:
            self.consumer = share_consumer(simulation, *topics, **options)
        else:
            self.consumer = simulation.consumer(*topics, **options)
            simulation.consumers.clear()  # closed here
        if self.is_async:
            await self.consumer.start()
        if self.asker == "assigned":
            self.consumer.assign(_PARTITIONS)

    async def poll(self, timeout_ms: int) -> int:
        """Return how many records there were."""
        result = self.consumer.poll(timeout_ms)
        if self.is_async:
            result = await result
        if result and self._needs == "slow work":
            self.simulation.sleep(700)  # what is done is acknowledged alone
        return sum(map(len, result.values()))

    async def close(self) -> None:
        """Close the consumer; nothing else happens."""
        self._stopped = True
        result = self.consumer.close()
        if self.is_async:
            await result

    def cut(self) -> None:
        """Cut all connections, so that new ones are opened."""
        for broker in self.simulation.cluster.brokers.values():
            self.simulation.network.cut(broker.address)

    def abandon(self) -> None:
        """Forget the consumer: after a failure, closing it may last."""
        self._stopped = True
        if self.consumer is not None:
            self.consumer._core.closed = True

    @property
    def iterations(self) -> int:
        """How often the network thread woke up."""
        return sum(driver.iterations for driver in self.simulation.drivers)

    def _every(self, interval_ms: int, action: Callable[[], None]) -> None:
        def act() -> None:
            if not self._stopped:
                action()
                self.simulation.after(interval_ms, act)

        self.simulation.after(interval_ms, act)

    def _produce(self) -> None:
        for tp in _PARTITIONS:
            self.simulation.cluster.produce(tp, b"x")

    def elect(self) -> None:
        """Move the leaders of all partitions."""
        for tp in _PARTITIONS:
            leader = self.simulation.cluster.at(tp).leader
            self.simulation.cluster.move_leader(tp, 3 - leader)


def asking(seed: str, asker: str, needs: str) -> Asking:
    """Return a consumer of a kind and its cluster."""
    return Asking(seed, asker, needs)
