"""Topics and partitions of a simulated cluster."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from tandem_kafka_testing.cluster.log import PartitionLog

_VALID_NAME: Final = re.compile(r"(?!\.{1,2}$)[a-zA-Z0-9._-]{1,249}")


def is_valid_name(name: str) -> bool:
    """Return whether a topic may have this name."""
    return _VALID_NAME.fullmatch(name) is not None


@dataclass(slots=True, eq=False)
class SimPartition:
    """One partition; its replicas share one log, whose end a follower may lack.

    Attributes:
        lagging: The end of the log for followers that are not in sync, by broker.
    """

    topic: str
    number: int
    leader: int
    epoch: int
    replicas: tuple[int, ...]
    log: PartitionLog = field(default_factory=PartitionLog)
    lagging: dict[int, int] = field(default_factory=dict)

    def end_at(self, node_id: int) -> int:
        """Return the end of the log of a replica."""
        return min(self.log.end_offset, self.lagging.get(node_id, self.log.end_offset))


@dataclass(slots=True, eq=False)
class SimTopic:
    """One topic; `configs` has the settings that differ from the defaults."""

    name: str
    topic_id: UUID
    partitions: list[SimPartition]
    internal: bool = False
    replicas: int | None = None
    configs: dict[str, str] = field(default_factory=dict)
