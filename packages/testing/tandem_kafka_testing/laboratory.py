"""The object of the fixture `kafka_cluster`: a simulated Kafka for tests of applications."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tandem_kafka import KafkaConsumer
from tandem_kafka.types import TopicPartition
from tandem_kafka_testing.cluster import SimCluster
from tandem_kafka_testing.simulation import Simulation

__all__ = ["SimulatedKafka"]

#: The default timeout of `poll_until`, in simulated time.
TIMEOUT_MS = 120_000
POLL_MS = 200


class SimulatedKafka:
    """A cluster in this process and the consumers on it, in simulated time.

    Args:
        seed: Determines everything random: the same seed gives the same run.
        brokers: Number of brokers.
        kafka: The release that the brokers simulate: "0.11", "2.8", "3.9" or "4.3". With None they
            support everything that is simulated.
        racks: Racks of the brokers, in turn. Leaders send consumers with a `client_rack` to a
            replica in their rack.

    Attributes:
        simulation: The whole simulation, for example `simulation.cluster.stop(1)` or
            `simulation.network.conditions.loss = 0.1`.
    """

    def __init__(
        self,
        seed: object = 0,
        brokers: int = 2,
        kafka: str | None = None,
        racks: Sequence[str] = (),
    ) -> None:
        self.simulation = Simulation(seed, brokers=brokers, kafka=kafka, racks=racks)

    @property
    def cluster(self) -> SimCluster:
        """Brokers, topics, groups, and scripted responses."""
        return self.simulation.cluster

    @property
    def now_ms(self) -> int:
        """The simulated time."""
        return self.simulation.clock.now_ms()

    def consumer(self, *topics: str, **options: Any) -> KafkaConsumer:
        """Return a real consumer on this cluster; options as for `KafkaConsumer`."""
        return self.simulation.consumer(*topics, **options)

    def create_topic(self, name: str, partitions: int = 1) -> list[TopicPartition]:
        """Create a topic; returns its partitions."""
        self.cluster.create_topic(name, partitions)
        return [TopicPartition(name, number) for number in range(partitions)]

    def produce(self, topic: str, *values: bytes | None, partition: int = 0) -> int:
        """Append records; returns the offset of the first. A missing topic is created."""
        if topic not in self.cluster.topics:
            self.create_topic(topic, partition + 1)
        return self.cluster.produce(TopicPartition(topic, partition), *values)

    def committed(self, consumer: KafkaConsumer, topic: str, partition: int = 0) -> int | None:
        """Return the committed offset of the consumer's group, None without a commit."""
        group_id = str(consumer.group_metadata().group_id)
        return self.cluster.committed(group_id, TopicPartition(topic, partition))

    # --- time ----------------------------------------------------------------------------------

    def advance(self, duration_ms: int) -> None:
        """Let time pass without any poll(); the network threads keep running."""
        self.simulation.sleep(duration_ms)

    def poll_until(self, done: Callable[[], object], *consumers: KafkaConsumer) -> None:
        """Poll these consumers (default: all open ones) until `done()`.

        Their records are dropped.

        Raises:
            TimeoutError: `done()` was still False after two simulated minutes.
        """
        until_ms = self.now_ms + TIMEOUT_MS
        while not done():
            if self.now_ms > until_ms:
                msg = f"not done after {TIMEOUT_MS} simulated milliseconds"
                raise TimeoutError(msg)
            for consumer in consumers or self._open():
                consumer.poll(POLL_MS)

    def _open(self) -> list[KafkaConsumer]:
        return [c for c in self.simulation.consumers if not c._core.closed]  # noqa: SLF001

    # --- faults --------------------------------------------------------------------------------

    def rebalance(self, consumer: KafkaConsumer) -> KafkaConsumer:
        """Let another member join the consumer's group; returns that member.

        `poll()` calls `on_partitions_revoked`. Close the other member to get its partitions back.
        """
        config = consumer._core.config  # noqa: SLF001
        options: dict[str, Any] = {
            "group_id": config.group_id,
            "group_protocol": config.group_protocol,
        }
        if config.group_protocol == "classic":
            options["partition_assignment_strategy"] = list(config.partition_assignment_strategy)
        other = self.consumer(*sorted(consumer.subscription() or ()), **options)
        self.poll_until(other.assignment, consumer, other)
        return other

    def expel(self, consumer: KafkaConsumer) -> None:
        """Let the coordinator remove a member, as after a session timeout.

        `poll()` calls `on_partitions_lost`.
        """
        identity = consumer.group_metadata()
        self.cluster.expel(str(identity.group_id), identity.member_id)
        # Its next heartbeat fails. It joins again after the call of its listener.
        self.poll_until(
            lambda: (
                consumer.group_metadata().member_id != identity.member_id
                or consumer.group_metadata().generation_id != identity.generation_id
            ),
            consumer,
        )

    def cut(self, node_id: int | None = None) -> None:
        """Cut the connections to a broker, or all connections."""
        for broker in self.cluster.brokers.values():
            if node_id in {None, broker.node_id}:
                self.simulation.network.cut(broker.address)

    def close(self) -> None:
        """Close all open consumers."""
        for consumer in self._open():
            consumer.close()
