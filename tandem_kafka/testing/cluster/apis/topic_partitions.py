"""Partitions as KIP-848's messages have them: by the id of their topic."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from tandem_kafka.testing.cluster.call import Call
from tandem_kafka.types import TopicPartition

__all__ = ["by_topic", "named"]


def by_topic(call: Call, partitions: Iterable[TopicPartition]) -> list[tuple[str, UUID, list[int]]]:
    """Return name, id and numbers for each topic that there still is."""
    numbers: dict[str, list[int]] = {}
    for tp in sorted(partitions):
        if tp.topic in call.cluster.topics:
            numbers.setdefault(tp.topic, []).append(tp.partition)
    return [(name, call.cluster.topics[name].topic_id, each) for name, each in numbers.items()]


def named(call: Call, entries: Iterable[Any]) -> list[TopicPartition | None]:
    """Return what entries of a request name, None for each partition of an unknown topic."""
    found: list[TopicPartition | None] = []
    for entry in entries:
        topic = call.cluster.topic_named(None, entry.topic_id)
        found += [
            TopicPartition(topic.name, number) if topic is not None else None
            for number in entry.partitions
        ]
    return found
