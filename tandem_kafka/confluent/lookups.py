"""Lookups in the cluster: committed offsets, watermarks, offsets by time, topics."""

from __future__ import annotations

from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    KafkaError,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    BrokerMetadata,
    ClusterMetadata,
    PartitionMetadata,
    TopicMetadata,
)

from tandem_kafka.confluent.errors import kafka_error, raising, refusal
from tandem_kafka.confluent.partitions import Given, as_topic_partition
from tandem_kafka.confluent.shared import Shared
from tandem_kafka.errors import InvalidTopicError, TopicAuthorizationFailedError
from tandem_kafka.types import ClusterSnapshot, ConsumerGroupMetadata, TopicInfo
from tandem_kafka.types import TopicPartition as Key


class Lookups:
    """Lookups through our consumer."""

    def __init__(self, shared: Shared) -> None:
        self._kafka, self._assigned, self._clock = shared.kafka, shared.assigned, shared.clock

    def committed(self, partitions: list[Given], timeout_ms: float | None) -> list[TopicPartition]:
        """Return committed offsets; `OFFSET_INVALID` for partitions without one.

        A partition of a topic that this client may not describe has an error.
        """
        end_ms = None if timeout_ms is None else self._clock.now_ms() + timeout_ms
        found = []
        for each in partitions:
            left_ms = None if end_ms is None else max(0.0, end_ms - self._clock.now_ms())
            offset, denied = None, None
            with raising("Failed to get committed offsets"):
                try:
                    offset = self._kafka.committed(each.key, metadata=True, timeout_ms=left_ms)
                except TopicAuthorizationFailedError as error:
                    denied = kafka_error(error)
            found.append(as_topic_partition(each.key, offset, denied))
        return found

    def watermarks(self, partition: Given, timeout_ms: float | None) -> tuple[int, int]:
        """Fetch the first offset and the end offset from a broker."""
        key, what = partition.key, "Failed to get watermark offsets"
        with raising(what):
            if self._unknown(key, timeout_ms) is not None:
                raise refusal(what, KafkaError._UNKNOWN_PARTITION)
            low = self._kafka.beginning_offsets([key], timeout_ms)[key]
            high = self._kafka.end_offsets([key], timeout_ms)[key]
        part = self._assigned.get(key)
        if part is not None:
            part.low = low
        return low, high

    def known_watermarks(self, partition: Given) -> tuple[int, int]:
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

    def times(self, partitions: list[Given], timeout_ms: float | None) -> list[TopicPartition]:
        """Return the first offset at or after a time, or the end if there is none.

        A partition that does not exist, or that this client may not describe, has an error, and the
        offset that was given.

        Raises:
            KafkaException: There is no other partition (`_UNKNOWN_PARTITION`); or a time is
                negative, and neither the beginning nor the end (`UNSUPPORTED_VERSION`).
        """
        what = "Failed to get offsets"
        if not partitions:
            raise refusal(what, KafkaError._INVALID_ARG)
        with raising(what):
            unknown = {each.key: self._unknown(each.key, timeout_ms) for each in partitions}
            known = [each for each in partitions if unknown[each.key] is None]
            if not known:
                raise refusal(what, KafkaError._UNKNOWN_PARTITION)
            times = {each.key: each.offset for each in known if each.offset >= 0}
            if any(each.offset < OFFSET_BEGINNING for each in known):
                raise refusal(what, KafkaError.UNSUPPORTED_VERSION)
            found = self._kafka.offsets_for_times(times, timeout_ms) if times else {}
            return [
                self._at(each, found.get(each.key), timeout_ms)
                if unknown[each.key] is None
                else as_topic_partition(each.key, each.target, unknown[each.key])
                for each in partitions
            ]

    def _at(self, partition: Given, found: Any, timeout_ms: float | None) -> TopicPartition:
        key, offset = partition.key, OFFSET_END
        if found is not None:
            offset = found.offset
        elif partition.offset == OFFSET_BEGINNING:
            offset = self._kafka.beginning_offsets([key], timeout_ms)[key]
        elif partition.offset == OFFSET_END:
            offset = self._kafka.end_offsets([key], timeout_ms)[key]
        return TopicPartition(key.topic, key.partition, offset)

    def _unknown(self, key: Key, timeout_ms: float | None) -> KafkaError | None:
        """Return the error of a partition that does not exist, None if it exists."""
        try:
            numbers = self._kafka._known_partitions(key.topic, timeout_ms)
        except (TopicAuthorizationFailedError, InvalidTopicError) as error:
            return kafka_error(error)
        if key.partition in numbers:
            return None
        return KafkaError(
            KafkaError._UNKNOWN_PARTITION if numbers else KafkaError.UNKNOWN_TOPIC_OR_PART
        )

    def topics(self, topic: str | None, timeout_ms: float | None) -> ClusterMetadata:
        """Describe brokers and topics, or one topic."""
        with raising("Failed to get metadata"):
            return cluster_metadata(self._kafka.cluster(timeout_ms), topic)


def cluster_metadata(cluster: ClusterSnapshot, topic: str | None) -> ClusterMetadata:
    """Describe brokers and topics; the controller is not known (-1)."""
    made = ClusterMetadata()
    made.cluster_id = cluster.cluster_id  # type: ignore[assignment]
    for number, node in cluster.nodes.items():
        broker = made.brokers[number] = BrokerMetadata()
        broker.id, broker.host, broker.port = number, node.host, node.port  # type: ignore[assignment]
    for name in cluster.topics if topic is None else [topic]:
        made.topics[name] = _topic_metadata(name, cluster.topics.get(name))
    return made


def _topic_metadata(name: str, info: TopicInfo | None) -> TopicMetadata:
    made = TopicMetadata()
    made.topic = name
    if info is None:
        made.error = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
        return made
    for number, each in sorted(info.partitions.items()):
        partition = made.partitions[number] = PartitionMetadata()
        partition.id, partition.leader = number, each.leader_id
        partition.replicas, partition.isrs = list(each.replicas), list(each.isr)
    return made


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
