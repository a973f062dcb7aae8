"""Prepares a cluster for a test: topics, records and their deletion (with confluent-kafka)."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewPartitions, NewTopic

_TIMEOUT_S = 90.0
#: Kafka cannot create ten thousand partitions in one request.
_AT_ONCE = 5_000
#: What a broker answers until a group has a coordinator.
_NO_COORDINATOR = (
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
)


@dataclass(frozen=True, slots=True)
class Record:
    """A record to produce."""

    value: bytes | None
    key: bytes | None = None
    partition: int = 0
    timestamp_ms: int = 0
    headers: Sequence[tuple[str, bytes | None]] = field(default=())


class ClusterAdmin:
    """Changes a cluster for a test; methods return after the change is effective."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    @cached_property
    def client(self) -> AdminClient:
        """The client, for operations without a method here."""
        return AdminClient({"bootstrap.servers": self._bootstrap, "log_level": 0})

    def wait_for_brokers(self, count: int) -> None:
        """Wait until the metadata has `count` brokers."""

        def missing() -> str:
            try:
                seen = len(self.client.list_topics(timeout=2.0).brokers)
            except KafkaException:
                seen = 0
            return "" if seen >= count else f"{seen} of {count} brokers in the metadata"

        _wait(missing)

    def wait_for_leaders(self) -> None:
        """Wait until all existing partitions have a leader."""

        def missing() -> str:
            without = [
                f"{topic.topic}-{number}"
                for topic in self.client.list_topics(timeout=_TIMEOUT_S).topics.values()
                for number, partition in topic.partitions.items()
                if partition.leader < 0
            ]
            return f"{len(without)} partitions without a leader: {without[:5]}" if without else ""

        _wait(missing)

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        *,
        replicas: int = 1,
        config: Mapping[str, str] | None = None,
    ) -> str:
        """Create a topic and wait until every partition has a leader; returns its name."""
        first = min(partitions, _AT_ONCE)
        topic = NewTopic(name, first, replicas, config=dict(config or {}))
        self._finish(self.client.create_topics([topic]))
        for total in range(first, partitions, _AT_ONCE):
            more = NewPartitions(name, min(partitions, total + _AT_ONCE))
            self._finish(self.client.create_partitions([more]))
        self._wait_for_leaders(name, partitions)
        return name

    def new_topic(self, like: str, partitions: int = 1) -> str:
        """Create a topic with a name that no other has; returns it.

        Args:
            like: What the name begins with, for example the name of a test.
            partitions: The number of partitions.
        """
        readable = re.sub(r"[^A-Za-z0-9_-]+", "-", like).strip("-")[:80]
        return self.create_topic(f"{readable}-{uuid.uuid4().hex[:8]}", partitions)

    def add_partitions(self, topic: str, total: int) -> None:
        """Increase the number of partitions of a topic."""
        self._finish(self.client.create_partitions([NewPartitions(topic, total)]))
        self._wait_for_leaders(topic, total)

    def delete_topic(self, name: str) -> None:
        """Delete a topic."""
        self._finish(self.client.delete_topics([name]))

    def delete_records(self, topic: str, before: Mapping[int, int]) -> None:
        """Delete the records before the given offset of each partition."""
        offsets = [TopicPartition(topic, part, offset) for part, offset in before.items()]
        self._finish(self.client.delete_records(offsets))

    def configure_group(self, group: str, settings: Mapping[str, str]) -> None:
        """Set options of a KIP-848 group."""
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
            for name, value in settings.items()
        ]
        resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=entries)
        self._finish(self.client.incremental_alter_configs([resource]))

    def members(self, group: str) -> int:
        """Return the number of members of a group."""
        described = self.client.describe_consumer_groups([group])
        return len(described[group].result(_TIMEOUT_S).members)

    def committed(self, group: str, topic: str) -> int:
        """Return the sum of the offsets that a group has committed for a topic."""
        # Invariant: not by the admin client, which crashes if a new cluster has no coordinator yet.
        asking = {
            "bootstrap.servers": self._bootstrap,
            "group.id": group,
            "log_level": 0,
            # Otherwise it waits for the end of an open transaction of the group.
            "isolation.level": "read_uncommitted",
        }
        give_up = time.monotonic() + _TIMEOUT_S
        with closing(Consumer(asking)) as consumer:
            numbers = consumer.list_topics(topic, timeout=_TIMEOUT_S).topics[topic].partitions
            partitions = [TopicPartition(topic, number) for number in numbers]
            while partitions:
                try:
                    found = consumer.committed(partitions, timeout=_TIMEOUT_S)
                    return sum(each.offset for each in found if each.offset > 0)
                except KafkaException as error:
                    starting = error.args[0].code() in _NO_COORDINATOR
                    if not starting or time.monotonic() > give_up:
                        raise
                    time.sleep(0.05)
        return 0

    def produce(
        self,
        topic: str,
        records: Iterable[Record | bytes],
        config: Mapping[str, str | int] | None = None,
    ) -> int:
        """Produce records (a plain value goes to partition 0), and return their number."""
        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "linger.ms": 5,
                "log_level": 0,
                # Otherwise a retry, which is common with a new topic, would change the order.
                "max.in.flight.requests.per.connection": 1,
                **(config or {}),
            }
        )
        failures: list[object] = []
        count = 0
        for each in records:
            record = each if isinstance(each, Record) else Record(each)
            _produce_one(producer, topic, record, failures)
            count += 1
        left = producer.flush(_TIMEOUT_S)
        if left or failures:
            raise RuntimeError(f"{left} records not delivered; errors: {failures[:3]}")
        return count

    def _wait_for_leaders(self, topic: str, partitions: int) -> None:
        def missing() -> str:
            found = self.client.list_topics(topic, timeout=_TIMEOUT_S).topics[topic].partitions
            led = sum(each.leader >= 0 for each in found.values())
            return "" if led >= partitions else f"{topic} has no leader for some of its partitions"

        _wait(missing)

    @staticmethod
    def _finish(futures: Mapping[Any, Any]) -> None:
        for future in futures.values():
            future.result(_TIMEOUT_S)


def _wait(missing: Callable[[], str]) -> None:
    """Check repeatedly until nothing is missing."""
    deadline = time.monotonic() + _TIMEOUT_S
    while text := missing():
        if time.monotonic() > deadline:
            raise TimeoutError(text)
        time.sleep(0.02)


def _produce_one(producer: Producer, topic: str, record: Record, failures: list[object]) -> None:
    while True:
        try:
            producer.produce(
                topic,
                value=record.value,
                key=record.key,
                partition=record.partition,
                timestamp=record.timestamp_ms,
                headers=list(record.headers),
                on_delivery=lambda error, _: failures.append(error) if error else None,
            )
        except BufferError:
            producer.poll(0.1)
        else:
            producer.poll(0)
            return
