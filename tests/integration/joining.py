"""Raw members of classic groups: a test chooses each request.

Each has its own connection to a real or simulated coordinator, because a JoinGroup may be parked.
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
from tests.integration.connections import Connection

__all__ = ["RawClassicMember", "name_of"]

_PARKED_S = 0.3
_INTERVAL_S = 0.02
_ATTEMPTS = 1_500
_SYNC_VERSION = 5
_HEARTBEAT_VERSION = 4
_LEAVE_VERSION = 5


def name_of(code: int) -> str | None:
    """Return the name of an error's class, or None."""
    return for_code(code).__name__ if code else None


class RawClassicMember:
    """Sends requests to the coordinator; keeps only its member id.

    Attributes:
        member_id: The assigned member id; empty at first.
        session_ms: Its session timeout.
        rebalance_ms: Its rebalance timeout.
        protocols: Its metadata in JoinGroup by protocol, most preferred first.
    """

    def __init__(
        self,
        connection: Connection,
        group: str,
        instance: str | None = None,
        *,
        session_ms: int = 10_000,
        rebalance_ms: int = 20_000,
    ) -> None:
        self._connection = connection
        self._group = group
        self._instance = instance
        self._version = 9
        self.member_id = ""
        self.session_ms = session_ms
        self.rebalance_ms = rebalance_ms
        self.protocols = {"range": b"said"}

    def send_join(self, version: int = 9) -> None:
        """Send JoinGroup with the member id."""
        self._version = version
        entry = JoinGroupRequest.JoinGroupRequestProtocol
        request = JoinGroupRequest(
            group_id=self._group,
            session_timeout_ms=self.session_ms,
            rebalance_timeout_ms=self.rebalance_ms,
            member_id=self.member_id,
            group_instance_id=self._instance,
            protocol_type="consumer",
            protocols=[entry(name=n, metadata=metadata) for n, metadata in self.protocols.items()],
            reason=None,
        )
        self._connection.send_request(request, version)

    def is_parked(self) -> bool:
        """Return whether no response arrives at once."""
        return not self._connection.has_response(_PARKED_S)

    def receive_join(self) -> Any:
        """Return the response to JoinGroup; the member adopts its member id."""
        response = self._connection.receive_response(JoinGroupResponse, self._version)
        self.member_id = response.member_id
        return response

    def join(self, version: int = 9) -> Any:
        """Join, twice if the coordinator must assign a member id first; returns the response."""
        self.send_join(version)
        response = self.receive_join()
        if name_of(response.error_code) == "MemberIdRequiredError":
            self.send_join(version)
            response = self.receive_join()
        return response

    def send_sync(self, generation: int, **assigned: bytes) -> None:
        """Send SyncGroup; a leader sends the assignments by member id."""
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
        self._connection.send_request(request, _SYNC_VERSION)

    def receive_sync(self) -> tuple[str | None, bytes]:
        """Return the error and the assignment in the response to SyncGroup."""
        response = self._connection.receive_response(SyncGroupResponse, _SYNC_VERSION)
        return name_of(response.error_code), bytes(response.assignment)

    def beat(self, generation: int) -> str | None:
        """Send a heartbeat; returns the error."""
        request = HeartbeatRequest(
            group_id=self._group,
            generation_id=generation,
            member_id=self.member_id,
            group_instance_id=self._instance,
        )
        self._connection.send_request(request, _HEARTBEAT_VERSION)
        return name_of(
            self._connection.receive_response(HeartbeatResponse, _HEARTBEAT_VERSION).error_code
        )

    @property
    def is_static(self) -> bool:
        """True with an instance id; other members get a member id before they can join."""
        return self._instance is not None

    def must_rejoin(self, generation: int) -> bool:
        """Send a heartbeat; returns whether the member must rejoin."""
        return self.beat(generation) == "RebalanceInProgressError"

    def await_rebalance(self, generation: int) -> None:
        """Wait until the member must rejoin.

        The broker may process requests of several connections in another order. An earlier
        request of another member may still be in flight.
        """
        for _ in range(_ATTEMPTS):
            if self.must_rejoin(generation):
                return
            self._connection.sleep(_INTERVAL_S)
        raise AssertionError("there is no rebalance")

    def leave(self, *others: RawClassicMember) -> list[str | None]:
        """Leave together with other members; returns the error of each."""
        entry = LeaveGroupRequest.MemberIdentity
        request = LeaveGroupRequest(
            group_id=self._group,
            members=[
                entry(member_id=m.member_id, group_instance_id=m._instance, reason=None)
                for m in (self, *others)
            ],
        )
        self._connection.send_request(request, _LEAVE_VERSION)
        response = self._connection.receive_response(LeaveGroupResponse, _LEAVE_VERSION)
        assert not response.error_code, name_of(response.error_code)
        return [name_of(each.error_code) for each in response.members]
