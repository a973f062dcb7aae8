"""What classic consumers say to each other inside of JoinGroup and SyncGroup."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass

from kafka.protocol.consumer.metadata import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)

from tandem_kafka.types import TopicPartition

__all__ = ["CONSUMER", "MALFORMED", "Subscription", "assigned", "assignment", "subscription"]

#: The protocol type of consumers, as opposed to Connect's workers.
CONSUMER = "consumer"
#: What reading bytes raises that were not written by a consumer.
MALFORMED = (ValueError, TypeError, IndexError, struct.error, EOFError)


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a member subscribes to, and has."""

    topics: frozenset[str]
    owned: frozenset[TopicPartition]
    rack: str | None


def subscription(metadata: bytes) -> Subscription:
    """Read what a member says of itself.

    Raises:
        ValueError: It is none of a consumer's; or another of `MALFORMED`.
    """
    read = ConsumerProtocolSubscription.decode(metadata)
    owned = frozenset(
        TopicPartition(entry.topic, number)
        for entry in read.owned_partitions or ()
        for number in entry.partitions
    )
    return Subscription(frozenset(read.topics), owned, read.rack_id or None)


def assigned(encoded: bytes) -> frozenset[TopicPartition]:
    """Read what a leader brought for a member; nothing is brought for who shall have nothing."""
    if not encoded:
        return frozenset()
    read = ConsumerProtocolAssignment.decode(encoded)
    return frozenset(
        TopicPartition(topic, number)
        for topic, numbers in read.assigned_partitions
        for number in numbers
    )


def assignment(partitions: Iterable[TopicPartition]) -> bytes:
    """Write what a leader would bring."""
    by_topic: dict[str, list[int]] = {}
    for tp in sorted(partitions):
        by_topic.setdefault(tp.topic, []).append(tp.partition)
    return bytes(ConsumerProtocolAssignment(0, list(by_topic.items()), b"").encode())
