"""The target assignment of a KIP-848 member, and the resolution of its topic ids to names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from uuid import UUID

from tandem_kafka.dataclass import dataclass, field
from tandem_kafka.types import ClusterSnapshot, TopicPartition
from tandem_kafka.wire.topic_partitions import numbers_by

TopicIdPartitions = Mapping[UUID, frozenset[int]]

NO_PARTITIONS: TopicIdPartitions = {}
NO_NAMES: Mapping[UUID, str] = {}


@dataclass(frozen=True)
class TargetAssignment:
    """Partitions by topic id, with a local epoch.

    Attributes:
        local_epoch: Increases with every different target. A target that changes and changes back
            is therefore reconciled and acknowledged again.
        partitions: Partition numbers by topic id.
    """

    local_epoch: int = -1
    partitions: TopicIdPartitions = field(default_factory=dict)

    def next(self, partitions: TopicIdPartitions) -> TargetAssignment:
        """Return the next assignment after the coordinator has sent these partitions."""
        if self.local_epoch >= 0 and partitions == self.partitions:
            return self
        return TargetAssignment(self.local_epoch + 1, partitions)


class AssignorMetadata(NamedTuple):
    """Data for a member's assignor, sent with partitions that another member has computed."""

    assignor: str
    version: int
    metadata: bytes
    error: int


@dataclass(frozen=True)
class Resolved:
    """The part of a target that the metadata have, of subscribed topics.

    Invariant: there is no object for each of the other partitions. Their number is anybody's.

    Attributes:
        partitions: The partitions.
        by_id: The same by topic id.
        names: The names of their topics.
        unknown: Topic ids without a name yet.
        short: Topics of which the metadata lack partitions.
        foreign: Topics without a subscription: the coordinator does not know its change yet.
    """

    partitions: frozenset[TopicPartition]
    by_id: TopicIdPartitions
    names: Mapping[UUID, str]
    unknown: frozenset[UUID]
    short: frozenset[str]
    foreign: frozenset[str]

    @classmethod
    def of(
        cls,
        target: TopicIdPartitions,
        snapshot: ClusterSnapshot,
        owned: Mapping[UUID, str] = NO_NAMES,
        owned_partitions: TopicIdPartitions = NO_PARTITIONS,
        may_assign: Callable[[str], bool] = lambda _: True,
    ) -> Resolved:
        """Resolve topic ids by the metadata, else by the names of owned partitions."""
        known_names = snapshot.topic_names
        names = {
            topic_id: known_names.get(topic_id) or owned[topic_id]
            for topic_id in target
            if topic_id in known_names or topic_id in owned
        }
        unknown = target.keys() - names.keys()
        foreign = frozenset(name for name in names.values() if not may_assign(name))
        names = {topic_id: name for topic_id, name in names.items() if name not in foreign}
        known = {
            topic_id: snapshot.described(name, target[topic_id])
            | target[topic_id].intersection(owned_partitions.get(topic_id, ()))
            for topic_id, name in names.items()
        }
        short = {names[i] for i, numbers in known.items() if len(numbers) < len(target[i])}
        return cls(
            frozenset(
                TopicPartition(names[topic_id], number)
                for topic_id, numbers in known.items()
                for number in numbers
            ),
            known,
            names,
            frozenset(unknown),
            frozenset(short),
            foreign,
        )


def by_topic_id(entries: Any) -> TopicIdPartitions:
    """Read the assignment of a heartbeat response."""
    return numbers_by((entry.topic_id, entry.partitions) for entry in entries if entry.partitions)


def assignor_metadata(assignment: Any) -> AssignorMetadata | None:
    """Return the data for the assignor; None if the coordinator computed the assignment."""
    name = assignment.assignor_name
    if name is None:
        return None
    metadata = bytes(assignment.metadata_bytes)
    return AssignorMetadata(name, assignment.metadata_version, metadata, assignment.error)
