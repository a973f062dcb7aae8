"""What the coordinator wants a KIP-848 member to own, and which of it can be named yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import UUID

from tandem_kafka.types import TopicPartition

__all__ = [
    "NO_PARTITIONS",
    "Assignment",
    "AssignorMetadata",
    "Resolved",
    "TopicIdPartitions",
    "assignor_metadata",
    "by_topic_id",
]

TopicIdPartitions = Mapping[UUID, frozenset[int]]

NO_PARTITIONS: TopicIdPartitions = {}


@dataclass(frozen=True, slots=True)
class Assignment:
    """Partitions by topic id, and how often such a thing has been received.

    Attributes:
        local_epoch: Grows with every target that differs from the one before, so that a target
            that changes and changes back is reconciled and acknowledged again.
    """

    local_epoch: int = -1
    partitions: TopicIdPartitions = field(default_factory=dict)

    def next(self, partitions: TopicIdPartitions) -> Assignment:
        """Return the assignment that follows when the coordinator sends these partitions."""
        if self.local_epoch >= 0 and partitions == self.partitions:
            return self
        return Assignment(self.local_epoch + 1, partitions)


class AssignorMetadata(NamedTuple):
    """What comes along with partitions that a member of the group has computed."""

    assignor: str
    version: int
    metadata: bytes
    error: int


@dataclass(frozen=True, slots=True)
class Resolved:
    """The part of a target whose topics' names are known, and these names."""

    partitions: frozenset[TopicPartition]
    by_id: TopicIdPartitions
    names: Mapping[UUID, str]
    unknown: frozenset[UUID]

    @classmethod
    def of(
        cls, target: TopicIdPartitions, known_names: Mapping[UUID, str], owned: Mapping[UUID, str]
    ) -> Resolved:
        """Resolve topic ids by the names known now, else by the names of what is owned."""
        names = {
            topic_id: known_names.get(topic_id) or owned[topic_id]
            for topic_id in target
            if topic_id in known_names or topic_id in owned
        }
        known = {topic_id: target[topic_id] for topic_id in names}
        return cls(
            frozenset(
                TopicPartition(names[topic_id], number)
                for topic_id, numbers in known.items()
                for number in numbers
            ),
            known,
            names,
            frozenset(target.keys() - known.keys()),
        )


def by_topic_id(entries: Any) -> TopicIdPartitions:
    """Read the assignment of a heartbeat response."""
    return {entry.topic_id: frozenset(entry.partitions) for entry in entries if entry.partitions}


def assignor_metadata(assignment: Any) -> AssignorMetadata | None:
    """Read what comes along; None if the coordinator has computed by itself."""
    name = assignment.assignor_name
    if name is None:
        return None
    metadata = bytes(assignment.metadata_bytes)
    return AssignorMetadata(name, assignment.metadata_version, metadata, assignment.error)
