"""Topics and partitions of a simulated cluster."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from tandem_kafka.testing.cluster.log import PartitionLog

__all__ = ["SimPartition", "SimTopic"]


@dataclass(slots=True, eq=False)
class SimPartition:
    """One partition; its replicas share one log.

    Attributes:
        preferred_replica: Follower that consumers are told to read from (KIP-392), -1 for none.
    """

    topic: str
    number: int
    leader: int
    epoch: int
    replicas: tuple[int, ...]
    log: PartitionLog = field(default_factory=PartitionLog)
    preferred_replica: int = -1


@dataclass(slots=True, eq=False)
class SimTopic:
    """One topic."""

    name: str
    topic_id: UUID
    partitions: list[SimPartition]
    internal: bool = False
