"""A cluster of three brokers inside this process, and the stream that is written to it."""

from __future__ import annotations

import time

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from tandem_kafka.demo.ledger import Ledger
from tandem_kafka.testing.embedded import MockCluster

PARTITIONS = 4

#: Time that the coordinator waits for the first members of a group.
_FIRST_JOIN_MS = 1_000
_TIMEOUT_S = 10.0


class Cluster:
    """The cluster and a producer for it."""

    def __init__(self, brokers: int) -> None:
        self._mock = MockCluster(brokers, initial_rebalance_delay_ms=_FIRST_JOIN_MS)
        self.bootstrap = self._mock.bootstrap
        self.producer = Producer(
            {"bootstrap.servers": self.bootstrap, "linger.ms": 20, "log_level": 0}
        )

    def create_topic(self, topic: str) -> None:
        """Create a topic."""
        self._mock.create_topic(topic, PARTITIONS)

    def committed(self, group: str, topic: str) -> dict[int, int]:
        """Return the group's committed offsets by partition, as reported by the cluster."""
        client = Consumer({"bootstrap.servers": self.bootstrap, "group.id": group, "log_level": 0})
        try:
            partitions = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
            found = client.committed(partitions, timeout=_TIMEOUT_S)
            return {each.partition: max(0, each.offset) for each in found}
        finally:
            client.close()


class Stream:
    """Writes the numbers 0, 1, 2 ... at an even pace, to the partitions in turn.

    Attributes:
        written: Numbers passed to the producer.

    """

    def __init__(self, cluster: Cluster, topic: str, ledger: Ledger, *, per_second: int) -> None:
        self.written = 0
        self._producer = cluster.producer
        self._topic = topic
        self._ledger = ledger
        self._per_second = per_second
        self._begin = time.monotonic()
        self._ended = False

    def write(self) -> None:
        """Write the numbers that are due by now."""
        due = int((time.monotonic() - self._begin) * self._per_second)
        while self.written < due and not self._ended:
            self._producer.produce(
                self._topic,
                value=b"%d" % self.written,
                partition=self.written % PARTITIONS,
                on_delivery=self._delivered,
            )
            self.written += 1
        self._producer.poll(0)

    def end(self) -> None:
        """Stop writing."""
        self._ended = True

    @property
    def delivered(self) -> bool:
        """Whether the cluster has everything that was written."""
        return self._ledger.produced_total == self.written

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        partition, value = message.partition(), message.value()
        if error is not None or partition is None or value is None:
            raise RuntimeError(f"a record was not delivered: {error}")
        self._ledger.produced(partition, int(value))
