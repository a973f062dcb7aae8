"""What the network thread tells the application thread, to be dealt with inside poll().

Rebalance events are numbered: the answer names the number, and one that was cancelled meanwhile
(`GroupIdentity.callback` holds another) is not run.
"""

from __future__ import annotations

from dataclasses import dataclass

from tandem_kafka.types import TopicPartition

__all__ = [
    "BackgroundEvent",
    "ErrorEvent",
    "PartitionsAssigned",
    "PartitionsLost",
    "PartitionsRevoked",
]


@dataclass(frozen=True, slots=True)
class ErrorEvent:
    """Raise this from poll()."""

    error: Exception


@dataclass(frozen=True, slots=True)
class PartitionsAssigned:
    """The group assigned partitions: apply them, then call `on_partitions_assigned(added)`.

    Attributes:
        assignment: All partitions that are ours from now on.
        added: What the listener is told.
    """

    assignment: frozenset[TopicPartition]
    added: frozenset[TopicPartition]
    number: int = 0


@dataclass(frozen=True, slots=True)
class PartitionsRevoked:
    """The group takes partitions back: commit if asked to, then `on_partitions_revoked`."""

    partitions: frozenset[TopicPartition]
    number: int = 0


@dataclass(frozen=True, slots=True)
class PartitionsLost:
    """Membership is gone, others may own the partitions already: `on_partitions_lost`."""

    partitions: frozenset[TopicPartition]
    number: int = 0


BackgroundEvent = ErrorEvent | PartitionsAssigned | PartitionsRevoked | PartitionsLost
