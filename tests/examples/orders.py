"""A topic of orders on a simulated cluster, and the group of an example that reads it."""

from __future__ import annotations

import uuid
import zlib
from collections.abc import Callable
from copy import deepcopy
from typing import Any

from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka.errors import BrokerResponseError
from tandem_kafka.wire.messages import OffsetCommitRequest
from tandem_kafka_testing.cluster import SimCluster
from tandem_kafka_testing.cluster.call import Call
from tandem_kafka_testing.served import ServedKafka
from tandem_kafka_testing.serving import order

__all__ = ["PARTITIONS", "Orders"]

PARTITIONS = 4


class Orders:
    """A new topic and a new group.

    Args:
        kafka: The cluster.
        value: Returns the value of an order with a number; JSON by default.
    """

    def __init__(
        self, kafka: ServedKafka, value: Callable[[int], bytes] = lambda n: order(n)[1]
    ) -> None:
        self._kafka = kafka
        self._value = value
        name = uuid.uuid4().hex[:8]
        self.topic, self.group = f"orders-{name}", f"group-{name}"
        self.written = 0
        self.failed_commits = 0
        kafka.create_topic(self.topic, PARTITIONS)
        kafka.create_topic(f"{self.topic}.dead")

    @property
    def settings(self) -> dict[str, str]:
        """The environment of an example that reads the topic."""
        return {
            "BOOTSTRAP_SERVERS": self._kafka.bootstrap,
            "TOPIC": self.topic,
            "GROUP": self.group,
        }

    def write(self, count: int) -> None:
        """Write the next orders."""
        self._kafka.perform(lambda cluster: self._append(cluster, count))

    def _append(self, cluster: SimCluster, count: int) -> None:
        for number in range(self.written, self.written + count):
            key = order(number)[0]
            partition = TopicPartition(self.topic, zlib.crc32(key) % PARTITIONS)
            cluster.produce(partition, self._value(number), keys=(key,))
        self.written += count

    def committed(self) -> int:
        """Return how many records are committed."""
        partitions = [TopicPartition(self.topic, number) for number in range(PARTITIONS)]
        return self._kafka.perform(
            lambda cluster: sum(cluster.committed(self.group, tp) or 0 for tp in partitions)
        )

    def dead_letters(self) -> int:
        """Return the number of records in the topic of dead letters."""
        dead = TopicPartition(f"{self.topic}.dead", 0)
        return self._kafka.perform(lambda cluster: cluster.at(dead).log.end_offset)

    def delete(self, count: int) -> None:
        """Let retention delete the first orders, in the order of the partitions."""

        def act(cluster: SimCluster) -> None:
            left = count
            for number in range(PARTITIONS):
                partition = TopicPartition(self.topic, number)
                log = cluster.at(partition).log
                before = min(log.end_offset, log.start_offset + left)
                left -= before - log.start_offset
                cluster.delete_records(partition, before)

        self._kafka.perform(act)

    def members(self) -> int:
        """Return the number of members of the group."""
        return self._kafka.perform(lambda cluster: len(cluster.group(self.group).members))

    def reject_commits(self, error: type[BrokerResponseError], times: int) -> None:
        """Answer the next commits of the group with an error."""

        def reject(call: Call) -> Any:
            call.request = deepcopy(call.request)  # decoded requests are shared
            for topic in call.request.topics:
                found = call.cluster.topic_named(topic.name, topic.topic_id)
                for entry in topic.partitions:
                    partition = TopicPartition(found.name, entry.partition_index)
                    entry.committed_offset = call.cluster.committed(self.group, partition) or 0
            response = call.default()  # which has changed nothing
            for topic in response.topics:
                for entry in topic.partitions:
                    entry.error_code = error.errno
            self.failed_commits += 1
            return response

        rejected = [reject] * times
        self._kafka.perform(lambda cluster: cluster.script(OffsetCommitRequest, *rejected))

    def write_and_expel(self, count: int) -> None:
        """Write orders, and remove the member before it can read them and commit."""

        def act(cluster: SimCluster) -> None:
            self._append(cluster, count)
            for member in tuple(cluster.group(self.group).members):
                cluster.expel(self.group, member)

        self._kafka.perform(act)

    def another_member_joins_and_leaves(self) -> None:
        """Rebalance the group twice."""
        with KafkaConsumer(
            self.topic,
            bootstrap_servers=self._kafka.bootstrap,
            group_id=self.group,
            enable_auto_commit=False,
        ) as other:
            while not other.assignment():
                other.poll(50)
