"""A cluster of three brokers inside this process, and the stream that is written to it."""

from __future__ import annotations

import time

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from demo.ledger import Ledger

__all__ = ["PARTITIONS", "Cluster", "Stream"]

#: What the built-in cluster gives a topic that is created by its first use.
PARTITIONS = 4

_TIMEOUT_S = 10.0


class Cluster:
    """librdkafka's mock cluster; it lives as long as the producer that owns it."""

    def __init__(self, brokers: int) -> None:
        self.producer = Producer(
            {
                "bootstrap.servers": "",
                "test.mock.num.brokers": brokers,
                "linger.ms": 20,
                "log_level": 0,
            }
        )
        found = self.producer.list_topics(timeout=_TIMEOUT_S).brokers.values()
        self.bootstrap = ",".join(f"{broker.host}:{broker.port}" for broker in found)

    def create_topic(self, topic: str) -> None:
        """Create a topic by asking for it, and wait until its partitions are known."""
        deadline = time.monotonic() + _TIMEOUT_S
        while len(self.producer.list_topics(topic, _TIMEOUT_S).topics[topic].partitions) < 1:
            if time.monotonic() > deadline:
                raise TimeoutError(f"topic {topic} was not created")
            time.sleep(0.05)

    def committed(self, group: str, topic: str) -> dict[int, int]:
        """What the cluster itself says the group has committed, for each partition."""
        client = Consumer({"bootstrap.servers": self.bootstrap, "group.id": group, "log_level": 0})
        try:
            asked = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
            found = client.committed(asked, timeout=_TIMEOUT_S)
            return {each.partition: max(0, each.offset) for each in found}
        finally:
            client.close()


class Stream:
    """Writes the numbers 0, 1, 2 ... at an even pace, in turn to the partitions."""

    def __init__(self, cluster: Cluster, topic: str, ledger: Ledger, *, per_second: int) -> None:
        self._producer = cluster.producer
        self._topic = topic
        self._ledger = ledger
        self._per_second = per_second
        self._begin = time.monotonic()
        self._next = 0

    def write(self, total: int) -> bool:
        """Write the numbers that are due by now; returns whether all `total` are delivered."""
        due = min(total, int((time.monotonic() - self._begin) * self._per_second))
        while self._next < due:
            self._producer.produce(
                self._topic,
                value=b"%d" % self._next,
                partition=self._next % PARTITIONS,
                on_delivery=self._delivered,
            )
            self._next += 1
        self._producer.poll(0)
        return self._ledger.produced_total == total

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        partition, value = message.partition(), message.value()
        if error is not None or partition is None or value is None:
            raise RuntimeError(f"a record was not delivered: {error}")
        self._ledger.produced(partition, int(value))
