"""What a heartbeat says of one of `group_local_assignors`."""

from __future__ import annotations

from typing import Any, NamedTuple

from tandem_kafka.assignors.local import PartitionAssignor
from tandem_kafka.wire.messages import ConsumerGroupHeartbeatRequest

__all__ = ["Announcement", "announced"]


class Announcement(NamedTuple):
    """The fields of ClientAssignors, comparable with what was said before."""

    name: str
    minimum_version: int
    maximum_version: int
    reason: int
    metadata_version: int
    metadata_bytes: bytes

    def encoded(self) -> Any:
        """Return the entry of the message."""
        return ConsumerGroupHeartbeatRequest.ClientAssignor(**self._asdict())


def announced(assignor: PartitionAssignor, metadata: bytes | None = None) -> Announcement:
    """Ask an assignor; with `metadata` it is not asked for that."""
    return Announcement(
        assignor.name,
        assignor.minimum_version,
        assignor.maximum_version,
        assignor.reason,
        assignor.version,
        bytes(assignor.metadata()) if metadata is None else metadata,
    )
