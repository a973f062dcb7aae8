"""The protocol of classic consumers inside JoinGroup and SyncGroup."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass

from kafka.protocol.consumer.metadata import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)

from tandem_kafka.types import TopicPartition

#: The protocol type of consumers; Connect's workers have another one.
CONSUMER = "consumer"
#: Errors raised for bytes that no consumer has written.
MALFORMED = (ValueError, TypeError, IndexError, struct.error, EOFError)


@dataclass(frozen=True, slots=True)
class Subscription:
    """The subscription of a member, and the partitions that it owns."""

    topics: frozenset[str]
    owned: frozenset[TopicPartition]
    rack: str | None


def read_subscription(metadata: bytes) -> Subscription:
    """Decode the subscription of a member.

    Raises:
        ValueError: It is not from a consumer; or another error of `MALFORMED`.
    """
    read = ConsumerProtocolSubscription.decode(metadata)
    owned = frozenset(
        TopicPartition(entry.topic, number)
        for entry in read.owned_partitions or ()
        for number in entry.partitions
    )
    return Subscription(frozenset(read.topics), owned, read.rack_id or None)


def read_assignment(encoded: bytes) -> frozenset[TopicPartition]:
    """Decode the assignment of a member; without bytes, it has no partitions."""
    if not encoded:
        return frozenset()
    read = ConsumerProtocolAssignment.decode(encoded)
    return frozenset(
        TopicPartition(topic, number)
        for topic, numbers in read.assigned_partitions
        for number in numbers
    )


def write_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    """Encode an assignment, as a leader does."""
    by_topic: dict[str, list[int]] = {}
    for tp in sorted(partitions):
        by_topic.setdefault(tp.topic, []).append(tp.partition)
    return bytes(ConsumerProtocolAssignment(0, list(by_topic.items()), b"").encode())
