"""The fixture `kafka_cluster`: a simulated Kafka, with handles for tests of applications."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tandem_kafka.consumer.consumer import KafkaConsumer
from tandem_kafka.testing.cluster import SimCluster
from tandem_kafka.testing.simulation import Simulation
from tandem_kafka.types import TopicPartition

__all__ = ["SimulatedKafka"]

#: So much simulated time an application is given for what must happen in the end.
PATIENCE_MS = 120_000
POLL_MS = 200


class SimulatedKafka:
    """A cluster in this process and the consumers on it; time passes only when a test lets it.

    Args:
        seed: What is left to chance comes from it: the same seed gives the same run.
        brokers: How many there are.
        kafka: The release that they pretend to be of: "0.11", "2.8", "3.9" or "4.3"; with None
            they speak all that is simulated.
        racks: Where they stand, in turns; leaders send consumers with a `client_rack` to a
            replica there.

    Attributes:
        simulation: All of it, for what has no handle here: `simulation.cluster.stop(1)`,
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
        """Brokers, topics, groups, and scripted answers."""
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
        """Append records; returns the offset of the first. An unknown topic is created."""
        if topic not in self.cluster.topics:
            self.create_topic(topic, partition + 1)
        return self.cluster.produce(TopicPartition(topic, partition), *values)

    def committed(self, consumer: KafkaConsumer, topic: str, partition: int = 0) -> int | None:
        """Return what the consumer's group has committed."""
        group_id = str(consumer.group_metadata().group_id)
        return self.cluster.committed(group_id, TopicPartition(topic, partition))

    # --- time ----------------------------------------------------------------------------------

    def advance(self, duration_ms: int) -> None:
        """Let time pass in which applications do not poll; their network threads go on."""
        self.simulation.sleep(duration_ms)

    def poll_until(self, done: Callable[[], object], *consumers: KafkaConsumer) -> None:
        """Poll these consumers (default: all that are open) until `done()`.

        What they read is dropped.

        Raises:
            TimeoutError: It was not done within two simulated minutes.
        """
        until_ms = self.now_ms + PATIENCE_MS
        while not done():
            if self.now_ms > until_ms:
                msg = f"not done after {PATIENCE_MS} simulated milliseconds"
                raise TimeoutError(msg)
            for consumer in consumers or self._open():
                consumer.poll(POLL_MS)

    def _open(self) -> list[KafkaConsumer]:
        return [c for c in self.simulation.consumers if not c._core.closed]  # noqa: SLF001

    # --- trouble -------------------------------------------------------------------------------

    def rebalance(self, consumer: KafkaConsumer) -> KafkaConsumer:
        """Have another member join the consumer's group and take its share; returns that one.

        `on_partitions_revoked` is called, inside of poll(). Close the other one to have its
        partitions come back.
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
        """Have the coordinator forget a member, as one that was silent for too long.

        `on_partitions_lost` is called, inside of poll().
        """
        identity = consumer.group_metadata()
        self.cluster.expel(str(identity.group_id), identity.member_id)
        # It hears of it with its next heartbeat, and joins again once the listener was called.
        self.poll_until(
            lambda: (
                consumer.group_metadata().member_id != identity.member_id
                or consumer.group_metadata().generation_id != identity.generation_id
            ),
            consumer,
        )

    def cut(self, node_id: int | None = None) -> None:
        """Cut the connections to a broker, or all there are."""
        for broker in self.cluster.brokers.values():
            if node_id in {None, broker.node_id}:
                self.simulation.network.cut(broker.address)

    def close(self) -> None:
        """Close what is open."""
        for consumer in self._open():
            consumer.close()
