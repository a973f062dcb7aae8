"""Members of classic groups that are nothing but their requests, sent as a test wants them.

Each has a line of its own to a real coordinator or to the simulated one: a JoinGroup may be parked.
"""

from __future__ import annotations

from typing import Any

from kafka.errors import for_code

from tandem_kafka.wire.messages import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from tests.integration.lines import Line

__all__ = ["RawClassicMember", "name_of"]

_PARKED_S = 0.3
_GLANCE_S = 0.02
_GLANCES = 1_500
_SYNC_VERSION = 5
_HEARTBEAT_VERSION = 4
_LEAVE_VERSION = 5


def name_of(code: int) -> str | None:
    """Return the name of an error's class, None if there was none."""
    return for_code(code).__name__ if code else None


class RawClassicMember:
    """Speaks to the coordinator; keeps its id, and nothing else.

    Attributes:
        member_id: The id that it was given; empty as long as it has none.
        session_ms: The session that it asks for when it joins.
        rebalance_ms: Its rebalance timeout.
        protocols: What it says in JoinGroup, by the name of each protocol, most preferred first.
    """

    def __init__(
        self,
        line: Line,
        group: str,
        instance: str | None = None,
        *,
        session_ms: int = 10_000,
        rebalance_ms: int = 20_000,
    ) -> None:
        self._line = line
        self._group = group
        self._instance = instance
        self._version = 9
        self.member_id = ""
        self.session_ms = session_ms
        self.rebalance_ms = rebalance_ms
        self.protocols = {"range": b"said"}

    def ask_to_join(self, version: int = 9) -> None:
        """Send JoinGroup, with the id that the member has."""
        self._version = version
        entry = JoinGroupRequest.JoinGroupRequestProtocol
        request = JoinGroupRequest(
            group_id=self._group,
            session_timeout_ms=self.session_ms,
            rebalance_timeout_ms=self.rebalance_ms,
            member_id=self.member_id,
            group_instance_id=self._instance,
            protocol_type="consumer",
            protocols=[entry(name=n, metadata=said) for n, said in self.protocols.items()],
            reason=None,
        )
        self._line.say(request, version)

    def is_parked(self) -> bool:
        """Tell whether the answer does not come at once."""
        return not self._line.answered(_PARKED_S)

    def joined(self) -> Any:
        """Return the answer to JoinGroup; the member takes its id from it."""
        answer = self._line.hear(JoinGroupResponse, self._version)
        self.member_id = answer.member_id
        return answer

    def join(self, version: int = 9) -> Any:
        """Join, once more if the coordinator has to name the member first; returns the answer."""
        self.ask_to_join(version)
        answer = self.joined()
        if name_of(answer.error_code) == "MemberIdRequiredError":
            self.ask_to_join(version)
            answer = self.joined()
        return answer

    def ask_to_sync(self, generation: int, **assigned: bytes) -> None:
        """Send SyncGroup; a leader names everybody's assignment by the member's id."""
        entry = SyncGroupRequest.SyncGroupRequestAssignment
        request = SyncGroupRequest(
            group_id=self._group,
            generation_id=generation,
            member_id=self.member_id,
            group_instance_id=self._instance,
            protocol_type="consumer",
            protocol_name=next(iter(self.protocols)),
            assignments=[entry(member_id=m, assignment=a) for m, a in assigned.items()],
        )
        self._line.say(request, _SYNC_VERSION)

    def synced(self) -> tuple[str | None, bytes]:
        """Return the error and the assignment that SyncGroup brought."""
        answer = self._line.hear(SyncGroupResponse, _SYNC_VERSION)
        return name_of(answer.error_code), bytes(answer.assignment)

    def beat(self, generation: int) -> str | None:
        """Send a heartbeat; returns the error."""
        request = HeartbeatRequest(
            group_id=self._group,
            generation_id=generation,
            member_id=self.member_id,
            group_instance_id=self._instance,
        )
        self._line.say(request, _HEARTBEAT_VERSION)
        return name_of(self._line.hear(HeartbeatResponse, _HEARTBEAT_VERSION).error_code)

    @property
    def is_static(self) -> bool:
        """True with an instance id; who has none is handed a member id before it may join."""
        return self._instance is not None

    def is_called_in(self, generation: int) -> bool:
        """Send a heartbeat; tells whether the answer is that it has to join again."""
        return self.beat(generation) == "RebalanceInProgressError"

    def await_round(self, generation: int) -> None:
        """Wait until it has to join again.

        Requests of several connections are not handled in the order in which they are sent: what
        another member has asked before may still be on its way.
        """
        for _ in range(_GLANCES):
            if self.is_called_in(generation):
                return
            self._line.sleep(_GLANCE_S)
        raise AssertionError("there is no round")

    def leave(self, *others: RawClassicMember) -> list[str | None]:
        """Leave, and have others leave; returns the error of each."""
        entry = LeaveGroupRequest.MemberIdentity
        request = LeaveGroupRequest(
            group_id=self._group,
            members=[
                entry(member_id=m.member_id, group_instance_id=m._instance, reason=None)
                for m in (self, *others)
            ],
        )
        self._line.say(request, _LEAVE_VERSION)
        answer = self._line.hear(LeaveGroupResponse, _LEAVE_VERSION)
        assert not answer.error_code, name_of(answer.error_code)
        return [name_of(each.error_code) for each in answer.members]
