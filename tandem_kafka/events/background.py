"""What the network thread tells the application thread, to be dealt with inside poll().

Rebalance events are numbered: the answer names the number, and one that was cancelled meanwhile
(`GroupIdentity.callback` holds another) is not run.
"""

from __future__ import annotations

from dataclasses import dataclass

from tandem_kafka.shared.partition import AssignedPartition, Position
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
    """Raise this from poll().

    Attributes:
        about: Partitions and the positions that the error is about; once all of them have been
            sought elsewhere there is nothing to raise.
    """

    error: Exception
    about: tuple[tuple[AssignedPartition, Position], ...] = ()

    @property
    def outdated(self) -> bool:
        """True when the positions it is about are no longer those."""
        return bool(self.about) and all(state.position is not at for state, at in self.about)


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
