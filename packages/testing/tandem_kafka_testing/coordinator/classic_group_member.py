"""A member of a classic group, and the states of the group."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from tandem_kafka_testing.coordinator.requests import JoinGroup, SyncGroup


class ClassicGroupState(enum.Enum):
    """The state of a classic group."""

    EMPTY = "empty"
    JOINING = "joining"
    SYNCING = "syncing"
    STABLE = "stable"


@dataclass(slots=True, eq=False)
class ClassicMember:
    """One member; `joining` and `syncing` are its parked requests.

    Attributes:
        is_new: Whether its first JoinGroup has no response yet.
        last_assignment: The last assignment sent to it; the ownership in its metadata is older.
        left_out_of: The first generation that began before it had joined again, if it is a static
            member; 0 for none.
    """

    member_id: str
    instance_id: str | None
    protocols: dict[str, bytes] = field(default_factory=dict)
    session_ms: int = 0
    rebalance_ms: int = 0
    expires_ms: int = 0
    joining: JoinGroup | None = None
    syncing: SyncGroup | None = None
    assignment: bytes = b""
    last_assignment: bytes = b""
    is_new: bool = True
    left_out_of: int = 0

    def update(self, request: JoinGroup) -> None:
        """Take over the fields of a JoinGroup; the assignment stays."""
        self.protocols = dict(request.protocols)
        self.session_ms, self.rebalance_ms = request.session_ms, request.rebalance_ms
