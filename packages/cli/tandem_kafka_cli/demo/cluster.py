"""A simulated cluster of three brokers in this process, and the stream that is written to it."""

from __future__ import annotations

import time
from collections import deque
from typing import Any

from tandem_kafka import KafkaProducer, TopicPartition
from tandem_kafka_cli.demo.ledger import Ledger
from tandem_kafka_testing.served import ServedKafka

PARTITIONS = 4

#: Time that the coordinator waits for the first members of a group.
_FIRST_JOIN_MS = 1_000
#: A member that is killed is noticed soon.
SESSION_TIMEOUT_MS = 2_500
_LONGEST_SESSION_MS = 1_800_000


class Cluster:
    """The cluster and a producer for it."""

    def __init__(self, brokers: int, group: str) -> None:
        self._kafka = ServedKafka(brokers=brokers)
        self.bootstrap = self._kafka.bootstrap
        self._kafka.perform(
            lambda cluster: cluster.configure_group(
                group,
                initial_rebalance_delay_ms=_FIRST_JOIN_MS,
                classic_session_limits_ms=(SESSION_TIMEOUT_MS, _LONGEST_SESSION_MS),
            )
        )
        self.producer = KafkaProducer(bootstrap_servers=self.bootstrap, linger_ms=20)

    def create_topic(self, topic: str) -> None:
        """Create a topic."""
        self._kafka.create_topic(topic, PARTITIONS)

    def committed(self, group: str, topic: str) -> dict[int, int]:
        """Return the group's committed offsets by partition, as the cluster has them."""
        return self._kafka.perform(
            lambda cluster: {
                number: cluster.committed(group, TopicPartition(topic, number)) or 0
                for number in range(PARTITIONS)
            }
        )

    def close(self) -> None:
        """End the producer and the cluster."""
        self.producer.close(timeout=1)
        self._kafka.close()


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
        #: Numbers that the cluster may not have yet, with their futures.
        self._sent: deque[tuple[int, Any]] = deque()

    def write(self) -> None:
        """Write the numbers that are due, and record which ones the cluster acknowledged."""
        due = int((time.monotonic() - self._begin) * self._per_second)
        while self.written < due and not self._ended:
            partition = self.written % PARTITIONS
            future = self._producer.send(self._topic, b"%d" % self.written, partition=partition)
            self._sent.append((self.written, future))
            self.written += 1
        while self._sent and self._sent[0][1].is_done:
            number, future = self._sent.popleft()
            self._ledger.produced(future.get(0).partition, number)

    def end(self) -> None:
        """Stop writing."""
        self._ended = True

    @property
    def delivered(self) -> bool:
        """Whether the cluster has everything that was written."""
        return self._ledger.produced_total == self.written
