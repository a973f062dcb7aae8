"""Lookups in the cluster: committed offsets, watermarks, offsets by time, topics."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tandem_kafka.confluent.codes import Codes
from tandem_kafka.confluent.errors import KafkaError, KafkaException, failure, kafka_error
from tandem_kafka.confluent.partitions import Assigned
from tandem_kafka.confluent.values import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    TopicPartition,
)
from tandem_kafka.confluent.waiting import Time
from tandem_kafka.consumer.consumer import KafkaConsumer
from tandem_kafka.errors import KafkaError as OurKafkaError
from tandem_kafka.shared.metadata import ClusterSnapshot, TopicInfo
from tandem_kafka.types import ConsumerGroupMetadata
from tandem_kafka.types import TopicPartition as Key

__all__ = [
    "BrokerMetadata",
    "ClusterMetadata",
    "Lookups",
    "PartitionMetadata",
    "TopicMetadata",
    "group_bytes",
    "raising",
]


@contextmanager
def raising(what: str) -> Iterator[None]:
    """Convert errors of our consumer to a `KafkaException`; `what` is the prefix of its message."""
    try:
        yield
    except OurKafkaError as error:
        found = kafka_error(error)
        reason = f"{what}: {found.str()}"
        converted = KafkaError(found.code(), reason, found.fatal(), found.retriable())
        raise KafkaException(converted) from error


class BrokerMetadata:
    """A broker: `id`, `host` and `port`."""

    def __init__(self, node_id: int, host: str, port: int) -> None:
        self.id = node_id
        self.host = host
        self.port = port

    def __repr__(self) -> str:
        """Show all fields."""
        return f"BrokerMetadata({self.id}, {self.host}:{self.port})"

    def __str__(self) -> str:
        """Return the address and id, for log lines."""
        return f"{self.host}:{self.port}/{self.id}"


class PartitionMetadata:
    """A partition: `id`, `leader`, `replicas`, `isrs` (ids of brokers) and `error`."""

    def __init__(
        self, number: int, leader: int, replicas: tuple[int, ...], isrs: tuple[int, ...]
    ) -> None:
        self.id = number
        self.leader = leader
        self.replicas = list(replicas)
        self.isrs = list(isrs)
        self.error: KafkaError | None = None

    def __repr__(self) -> str:
        """Show the number."""
        return f"PartitionMetadata({self.id})"

    def __str__(self) -> str:
        """Show the number."""
        return str(self.id)


class TopicMetadata:
    """A topic: `topic`, `partitions` by number, and `error`."""

    def __init__(self, topic: str, info: TopicInfo | None) -> None:
        self.topic = topic
        described = {} if info is None else info.partitions
        self.partitions = {
            number: PartitionMetadata(number, each.leader_id, each.replicas, each.isr)
            for number, each in sorted(described.items())
        }
        self.error = KafkaError(Codes.UNKNOWN_TOPIC_OR_PART) if info is None else None

    def __repr__(self) -> str:
        """Show the name and the number of partitions."""
        error = "" if self.error is None else f", {self.error}"
        return f"TopicMetadata({self.topic}, {len(self.partitions)} partitions{error})"

    def __str__(self) -> str:
        """Show the name."""
        return self.topic


class ClusterMetadata:
    """A cluster: `cluster_id`, `brokers` by id and `topics` by name.

    `controller_id`, `orig_broker_id` and `orig_broker_name` exist but are not known (-1, None).
    """

    def __init__(self, cluster: ClusterSnapshot, topic: str | None) -> None:
        self.cluster_id = cluster.cluster_id
        self.controller_id = -1
        self.orig_broker_id = -1
        self.orig_broker_name: str | None = None
        self.brokers = {
            number: BrokerMetadata(number, node.host, node.port)
            for number, node in cluster.nodes.items()
        }
        names = cluster.topics if topic is None else [topic]
        self.topics = {name: TopicMetadata(name, cluster.topics.get(name)) for name in names}

    def __repr__(self) -> str:
        """Show the id."""
        return f"ClusterMetadata({self.cluster_id})"

    def __str__(self) -> str:
        """Show the id."""
        return str(self.cluster_id)


class Lookups:
    """Lookups through our consumer."""

    def __init__(self, kafka: KafkaConsumer, assigned: Assigned, time: Time) -> None:
        self._time = time
        self._kafka = kafka
        self._assigned = assigned

    def committed(
        self, partitions: list[TopicPartition], timeout_ms: float | None
    ) -> list[TopicPartition]:
        """Return committed offsets; `OFFSET_INVALID` for partitions without one."""
        end_s = None if timeout_ms is None else self._time.now_s() + timeout_ms / 1000
        found = []
        for each in partitions:
            remaining_ms = None if end_s is None else max(0.0, (end_s - self._time.now_s()) * 1000)
            with raising("Failed to get committed offsets"):
                offset: Any = self._kafka.committed(
                    each.key, metadata=True, timeout_ms=remaining_ms
                )
            if offset is None:
                found.append(TopicPartition(each.topic, each.partition, OFFSET_INVALID))
                continue
            found.append(
                TopicPartition(
                    each.topic,
                    each.partition,
                    offset.offset,
                    offset.metadata or None,
                    offset.leader_epoch,
                )
            )
        return found

    def watermarks(self, partition: TopicPartition, timeout_ms: float | None) -> tuple[int, int]:
        """Fetch the first offset and the end offset from a broker."""
        key, what = partition.key, "Failed to get watermark offsets"
        with raising(what):
            self._check_known(key, what, timeout_ms)
            low = self._kafka.beginning_offsets([key], timeout_ms)[key]
            high = self._kafka.end_offsets([key], timeout_ms)[key]
        part = self._assigned.get(key)
        if part is not None:
            part.low = low
        return low, high

    def known_watermarks(self, partition: TopicPartition) -> tuple[int, int]:
        """Return the watermarks if they are known, otherwise `OFFSET_INVALID`."""
        part = self._assigned.get(partition.key)
        if part is None:
            return OFFSET_INVALID, OFFSET_INVALID
        high = self._kafka.highwater(part.tp)
        if high is None:
            return OFFSET_INVALID, OFFSET_INVALID
        if part.low is None:
            with raising("Failed to get watermark offsets"):
                part.low = self._kafka.beginning_offsets([part.tp])[part.tp]
        return part.low, high

    def times(
        self, partitions: list[TopicPartition], timeout_ms: float | None
    ) -> list[TopicPartition]:
        """Return the first offset at or after a time, or the end if there is none."""
        what = "Failed to get offsets"
        times = {each.key: each.offset for each in partitions if each.offset >= 0}
        with raising(what):
            for each in partitions:
                self._check_known(each.key, what, timeout_ms)
            found = self._kafka.offsets_for_times(times, timeout_ms) if times else {}
            return [self._at(each, found.get(each.key), timeout_ms) for each in partitions]

    def _at(
        self, partition: TopicPartition, found: Any, timeout_ms: float | None
    ) -> TopicPartition:
        key, offset = partition.key, OFFSET_END
        if found is not None:
            offset = found.offset
        elif partition.offset == OFFSET_BEGINNING:
            offset = self._kafka.beginning_offsets([key], timeout_ms)[key]
        elif partition.offset == OFFSET_END:
            offset = self._kafka.end_offsets([key], timeout_ms)[key]
        return TopicPartition(key.topic, key.partition, offset)

    def _check_known(self, key: Key, what: str, timeout_ms: float | None) -> None:
        if key.partition not in self._kafka.partitions_for_topic(key.topic, timeout_ms):
            raise failure(
                Codes._UNKNOWN_PARTITION, f"{what}: {KafkaError(Codes._UNKNOWN_PARTITION).str()}"
            )

    def topics(self, topic: str | None, timeout_ms: float | None) -> ClusterMetadata:
        """Describe brokers and topics, or one topic."""
        with raising("Failed to get metadata"):
            return ClusterMetadata(self._kafka.cluster(timeout_ms), topic)


def group_bytes(metadata: ConsumerGroupMetadata) -> bytes:
    """Serialize group metadata for librdkafka's transactional producer."""
    instance = metadata.group_instance_id
    return b"".join(
        (
            b"CGMDv2:",
            int(metadata.generation_id).to_bytes(4, "little", signed=True),
            (metadata.group_id or "").encode() + b"\0",
            metadata.member_id.encode() + b"\0",
            b"\1" if instance is None else b"\0" + instance.encode() + b"\0",
        )
    )
