"""Partitions in messages of KIP-848, by topic ids."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from tandem_kafka.types import TopicPartition
from tandem_kafka_testing.cluster.call import Call


def by_topic(call: Call, partitions: Iterable[TopicPartition]) -> list[tuple[str, UUID, list[int]]]:
    """Return name, id and partition numbers for each existing topic."""
    numbers: dict[str, list[int]] = {}
    for tp in sorted(partitions):
        if tp.topic in call.cluster.topics:
            numbers.setdefault(tp.topic, []).append(tp.partition)
    return [(name, call.cluster.topics[name].topic_id, each) for name, each in numbers.items()]


def partitions_in(call: Call, entries: Iterable[Any]) -> list[TopicPartition | None]:
    """Return the partitions in entries of a request, None for those of unknown topics."""
    found: list[TopicPartition | None] = []
    for entry in entries:
        topic = call.cluster.topic_named(None, entry.topic_id)
        found += [
            TopicPartition(topic.name, number) if topic is not None else None
            for number in entry.partitions
        ]
    return found
