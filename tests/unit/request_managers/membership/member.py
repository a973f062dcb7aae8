"""A member of a classic group, and the responses of its coordinator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment

from tandem_kafka.events.background import BackgroundEvent, ErrorEvent
from tandem_kafka.events.completable import Completion
from tandem_kafka.network.request import UnsentRequest
from tandem_kafka.request_managers.membership.classic.states import State
from tandem_kafka.types import LeaveOperation, TopicPartition
from tandem_kafka.wire.messages import (
    HeartbeatResponse,
    JoinGroupResponse,
    LeaveGroupResponse,
    SyncGroupResponse,
)
from tests.unit.request_managers.world import TP, TP1, World, code

MEMBER = "member-1"
BOTH = (TP, TP1)


def joined_response(error: type[Exception] | None = None, member_id: str = MEMBER) -> Any:
    return JoinGroupResponse(
        throttle_time_ms=0,
        error_code=0 if error is None else code(error),
        generation_id=-1 if error is not None else 4,
        protocol_type="consumer",
        protocol_name="range",
        leader="another-member",
        skip_assignment=False,
        member_id=member_id,
        members=[],
    )


def leading_response(join: UnsentRequest, *member_ids: str) -> Any:
    """A JoinGroup response: this member is the leader, and all have the same metadata."""
    response = joined_response()
    response.leader = MEMBER
    described = bytes(join.message.protocols[0].metadata)
    entry = JoinGroupResponse.JoinGroupResponseMember
    response.members = [
        entry(member_id=member_id, group_instance_id=None, metadata=described)
        for member_id in member_ids or (MEMBER,)
    ]
    return response


def synced_response(
    partitions: tuple[TopicPartition, ...] = BOTH, error: type[Exception] | None = None
) -> Any:
    numbers = [tp.partition for tp in partitions]
    assigned = ConsumerProtocolAssignment(0, [("orders", numbers)] if numbers else [], b"")
    return SyncGroupResponse(
        throttle_time_ms=0,
        error_code=0 if error is None else code(error),
        protocol_type="consumer",
        protocol_name="range",
        assignment=b"" if error is not None else bytes(assigned.encode()),
    )


def heartbeat_response(error: type[Exception] | None = None) -> Any:
    return HeartbeatResponse(throttle_time_ms=0, error_code=0 if error is None else code(error))


def left_response() -> Any:
    return LeaveGroupResponse(throttle_time_ms=0, error_code=0, members=[])


class Member:
    """The world of a group member whose coordinator is known."""

    def __init__(self, **options: Any) -> None:
        self.world = World(group_id="readers", **options)
        self.world.find_coordinator()
        self.manager = self.world.group.membership
        self.world.subscription.subscribe(["orders"])
        self.world.managers.metadata._response_topics = frozenset({"orders"})

    @property
    def state(self) -> State:
        return self.manager.state  # type: ignore[attr-defined]

    def application_polls(self) -> None:
        self.world.application_polls()

    def send(self, *, after_ms: int = 0) -> UnsentRequest:
        return self.world.sent(self.manager, after_ms=after_ms)

    def quiet(self, *, after_ms: int = 0) -> bool:
        return not self.world.poll(self.manager, after_ms=after_ms).unsent

    def respond(self, unsent: UnsentRequest, message: Any) -> None:
        self.world.respond(unsent, message)

    def take_numbered_event(self) -> BackgroundEvent | None:
        """Return the event for the application."""
        return self.world.background.take()

    def take_event(self) -> BackgroundEvent | None:
        """Return the event for the application, without its number."""
        event = self.take_numbered_event()
        return event if event is None or isinstance(event, ErrorEvent) else replace(event, number=0)

    def callback_done(self, error: Exception | None = None) -> None:
        self.manager.callback_completed(self.world.identity.callback, error)

    def join(self, partitions: tuple[TopicPartition, ...] = BOTH) -> None:
        """Establish a stable membership."""
        self.application_polls()
        self.respond(self.send(), joined_response())
        self.respond(self.send(), synced_response(partitions))
        self.apply(partitions)
        self.callback_done()
        assert self.state is State.STABLE

    def apply(self, partitions: tuple[TopicPartition, ...] = BOTH) -> None:
        """Apply an assignment, as the event processor does."""
        event = self.take_numbered_event()
        assert event is not None
        self.world.subscription.set_assigned(sorted(partitions))

    def leave(self, operation: LeaveOperation = LeaveOperation.DEFAULT) -> Completion[Any]:
        future: Completion[Any] = Completion()
        self.manager.leave(future, operation, "enough")
        return future
