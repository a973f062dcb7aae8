"""A member of a KIP-848 group, and the responses of its coordinator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

from tandem_kafka.events.background import BackgroundEvent, ErrorEvent, PartitionsAssigned
from tandem_kafka.events.completable import Completion
from tandem_kafka.network.request import UnsentRequest
from tandem_kafka.request_managers.membership.kip848.membership import Kip848Membership
from tandem_kafka.request_managers.membership.kip848.states import State
from tandem_kafka.types import LeaveOperation, TopicPartition
from tandem_kafka.wire.messages import ConsumerGroupHeartbeatResponse
from tests.unit.request_managers.world import TOPIC_ID, TP, TP1, World, code

BOTH = (0, 1)
HELD = frozenset({TP, TP1})
INTERVAL_MS = 5_000

Target = Mapping[UUID, tuple[int, ...]]


def beat_response(
    epoch: int = 1,
    target: tuple[int, ...] | Target | None = None,
    error: type[Exception] | None = None,
    interval_ms: int = INTERVAL_MS,
    text: str | None = None,
) -> Any:
    """A heartbeat response; a plain target has partitions of topic `orders`."""
    assignment = None
    if target is not None:
        by_id: Target = target if isinstance(target, Mapping) else {TOPIC_ID: target}
        entry = ConsumerGroupHeartbeatResponse.Assignment.TopicPartitions
        assignment = ConsumerGroupHeartbeatResponse.Assignment(
            topic_partitions=[entry(topic_id=i, partitions=list(p)) for i, p in by_id.items()]
        )
    return ConsumerGroupHeartbeatResponse(
        throttle_time_ms=0,
        error_code=0 if error is None else code(error),
        error_message=text,
        member_id=None,
        member_epoch=epoch,
        heartbeat_interval_ms=interval_ms,
        assignment=assignment,
    )


def owned(unsent: UnsentRequest) -> dict[UUID, list[int]] | None:
    """The owned partitions in a heartbeat."""
    entries = unsent.message.topic_partitions
    return None if entries is None else {e.topic_id: list(e.partitions) for e in entries}


class ConsumerMember:
    """The world of a KIP-848 member whose coordinator is known."""

    def __init__(self, *topics: str, **options: Any) -> None:
        options.setdefault("group_protocol", "consumer")
        self.world = World(group_id="readers", **options)
        self.world.find_coordinator()
        self.manager: Any = self.world.group.membership
        self.world.subscription.subscribe(topics or ["orders"])

    @property
    def chosen(self) -> Kip848Membership:
        return getattr(self.manager, "_membership", self.manager)

    @property
    def state(self) -> State:
        return self.chosen.state

    @property
    def assigned(self) -> set[TopicPartition]:
        return set(self.world.subscription.assigned)

    # --- the application -----------------------------------------------------------------------

    def polls(self) -> None:
        self.world.application_polls()

    def take_event(self) -> BackgroundEvent | None:
        """Return the event for the application, without its number."""
        event = self.world.background.take()
        return event if event is None or isinstance(event, ErrorEvent) else replace(event, number=0)

    def done(self, error: Exception | None = None) -> None:
        self.manager.callback_completed(self.world.identity.callback, error)

    def apply_assignment(self, error: Exception | None = None) -> PartitionsAssigned:
        """Apply an assignment, as the event processor and the listener do."""
        event = self.take_event()
        assert isinstance(event, PartitionsAssigned)
        known = self.world.subscription.assigned
        self.world.subscription.set_assigned(sorted(event.assignment))
        for tp, state in self.world.subscription.assigned.items():
            state.awaiting_callback = state.awaiting_callback or tp not in known
        self.done(error)
        return event

    def leaves(self, operation: LeaveOperation = LeaveOperation.DEFAULT) -> Completion[Any]:
        future: Completion[Any] = Completion()
        self.manager.leave(future, operation, "enough")
        return future

    # --- the network ---------------------------------------------------------------------------

    def send(self, *, after_ms: int = 0) -> UnsentRequest:
        return self.world.sent(self.manager, after_ms=after_ms)

    def iterate(self) -> None:
        """Run an iteration in which nothing is sent."""
        assert not self.world.poll(self.manager).unsent

    def quiet(self, *, after_ms: int = 0) -> bool:
        return not self.world.poll(self.manager, after_ms=after_ms).unsent

    def respond(self, unsent: UnsentRequest, message: Any) -> None:
        self.world.respond(unsent, message)

    def fail(self, unsent: UnsentRequest, error: type[Exception]) -> None:
        """Fail a request by a response if the error has a code, else by the connection."""
        if getattr(error, "errno", -1) > 0:
            self.respond(unsent, beat_response(-1, error=error))
        else:
            unsent.future.fail(error("lost"))

    def join(self, target: tuple[int, ...] | Target = BOTH) -> UnsentRequest:
        """Establish a stable membership; return the acknowledgement, which is in flight."""
        self.polls()
        self.respond(self.send(), beat_response(1, target))
        self.iterate()
        self.apply_assignment()
        acknowledgement = self.send()
        assert self.state is State.STABLE
        return acknowledgement

    def settle(self, target: tuple[int, ...] | Target = BOTH) -> None:
        """Establish a stable membership, including the response to the acknowledgement."""
        self.respond(self.join(target), beat_response(1))

    def beat(self, response: Any) -> UnsentRequest:
        """Respond to the next heartbeat."""
        unsent = self.send(after_ms=INTERVAL_MS)
        self.respond(unsent, response)
        return unsent
