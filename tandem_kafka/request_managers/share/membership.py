"""Membership in a share group: ShareGroupHeartbeat.

There is no reconciliation: partitions are shared, so nobody has to release one first.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from kafka.errors import GroupIdNotFoundError

from tandem_kafka.errors import UnsupportedVersionError
from tandem_kafka.events.completable import Completion
from tandem_kafka.logs import client_logger
from tandem_kafka.network.request import ClientResponse, ToNode, UnsentRequest
from tandem_kafka.request_managers.base import IDLE, PollResult, RequestManager
from tandem_kafka.request_managers.context import ManagerContext
from tandem_kafka.request_managers.coordinator_request_manager import CoordinatorRequestManager
from tandem_kafka.request_managers.group_errors import group_error, other_kind
from tandem_kafka.request_managers.membership.heartbeat_schedule import (
    HeartbeatSchedule,
    check_epoch,
    final_heartbeat,
    heartbeat_reaction,
)
from tandem_kafka.request_managers.membership.kip848.heartbeat import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    new_member_id,
)
from tandem_kafka.request_managers.membership.kip848.target import (
    NO_PARTITIONS,
    Resolved,
    TopicIdPartitions,
    by_topic_id,
)
from tandem_kafka.request_managers.membership.timers import PollTimer
from tandem_kafka.request_managers.metadata_refresh import MetadataRefresher
from tandem_kafka.request_managers.reactions import Reaction
from tandem_kafka.state.locked_records import LockedRecords
from tandem_kafka.state.state_machine import StateMachine
from tandem_kafka.types import TopicPartition
from tandem_kafka.wire.messages import ShareGroupHeartbeatRequest

log = client_logger(__name__)

#: Version 0 was an early access, with other fields.
FIRST_VERSION: Final = 1
#: The first wait for partitions. The coordinator gives none to the first member of a group until it
#: has begun to keep their state, which takes it some milliseconds, and would be asked only after
#: the interval of heartbeats.
_FIRST_WAIT_MS: Final = 50


class State(enum.Enum):
    """The state of the member."""

    OUTSIDE = "outside"
    JOINING = "joining"
    STABLE = "stable"
    #: The application has not polled in time, so the member has left.
    STALE = "stale"
    FATAL = "fatal"


TRANSITIONS: Final[Mapping[State, frozenset[State]]] = {
    State.OUTSIDE: frozenset({State.JOINING, State.FATAL}),
    State.JOINING: frozenset({State.STABLE, State.OUTSIDE, State.STALE, State.FATAL}),
    State.STABLE: frozenset({State.JOINING, State.OUTSIDE, State.STALE, State.FATAL}),
    State.STALE: frozenset({State.JOINING, State.OUTSIDE}),
    State.FATAL: frozenset({State.OUTSIDE}),
}
_IN_GROUP: Final = frozenset({State.JOINING, State.STABLE})


class ShareMembership(RequestManager):
    """One member of a share group.

    Attributes:
        member_id: Made up by this client, and kept for its lifetime.
    """

    def __init__(
        self,
        context: ManagerContext,
        coordinator: CoordinatorRequestManager,
        metadata: MetadataRefresher,
        records: LockedRecords,
    ) -> None:
        self._context = context
        self._records = records
        self._coordinator = coordinator
        self._metadata = metadata
        self._machine: StateMachine[State] = StateMachine(State.OUTSIDE, TRANSITIONS)
        self._timer = PollTimer(context)
        self._heartbeats = HeartbeatSchedule(context)
        self.member_id = new_member_id(context.random)
        context.group.client.member_id = self.member_id
        self._epoch = JOIN_EPOCH
        self._partitions_wait_ms = _FIRST_WAIT_MS
        self._sent_topics: frozenset[str] | None = None
        self._assignment: TopicIdPartitions = NO_PARTITIONS
        #: What `assigned` has returned last, and of which assignment and metadata.
        self._assigned: Mapping[TopicPartition, UUID] = {}
        self._assigned_with: tuple[TopicIdPartitions, int] = NO_PARTITIONS, -1
        self._leaving: list[Completion[Any]] = []
        coordinator.on_fatal(self._coordinator_failed)
        metadata.on_ids_unsupported(self._fail)

    @property
    def state(self) -> State:
        """The state of the member."""
        return self._machine.state

    def assigned(self) -> Mapping[TopicPartition, UUID]:
        """Return the partitions to fetch, with the ids of their topics.

        Those that the metadata lack wait for a refresh.
        """
        assignment, snapshot = self._assignment, self._context.metadata.snapshot
        of, version = self._assigned_with
        if of is not assignment or version != snapshot.version:
            self._assigned_with = assignment, snapshot.version
            resolved = Resolved.of(assignment, snapshot)
            self._metadata.need_ids(resolved.unknown)
            self._metadata.need_partitions(resolved.short)
            self._assigned = {
                TopicPartition(resolved.names[topic_id], number): topic_id
                for topic_id, numbers in resolved.by_id.items()
                for number in sorted(numbers)
            }
        return self._assigned

    # --- calls ---------------------------------------------------------------------------------

    def application_polled(self) -> None:
        """Join, because the application polls."""
        if self._context.subscription.topics and self.state in (State.OUTSIDE, State.STALE):
            self._join("the application polls")

    def leave(self, future: Completion[Any]) -> None:
        """Send the final heartbeat; done after the response, or if it cannot be sent."""
        inside = self.state in _IN_GROUP
        self._end(State.OUTSIDE)
        self._context.group.fatal = None
        if inside and self._coordinator.known:
            self._leaving.append(future)
        else:
            future.complete(None)

    # --- requests ------------------------------------------------------------------------------

    def poll(self, now_ms: int) -> PollResult:
        """Return a heartbeat if one is due."""
        destination = self._coordinator.destination() if self._wants_coordinator else None
        if destination is None:
            return IDLE
        if self._leaving:
            return PollResult((self._final_heartbeat(destination),))
        left_ms = self._timer.left_ms(now_ms)
        if left_ms <= 0:
            # Invariant: whose locks are renewed, stays in the group: a slow handler is alive.
            left_ms = self._records.renewed_until_ms() - now_ms
        if left_ms <= 0:
            self._timer.log_expiry(now_ms)
            self._end(State.STALE)
            return PollResult((self._final_heartbeat(destination),))
        changed = self._sent_topics != self._context.subscription.topics
        urgent = changed or self.state is State.JOINING
        wait_ms = self._heartbeats.wait_ms(now_ms, urgent=urgent)
        if wait_ms > 0:
            return PollResult(wait_ms=min(wait_ms, left_ms))
        return PollResult((self._heartbeat(destination, now_ms),), left_ms)

    def close(self, now_ms: int) -> PollResult:
        """Return the final heartbeat if it has not been sent."""
        return self.poll(now_ms) if self._leaving else IDLE

    @property
    def _wants_coordinator(self) -> bool:
        return bool(self._leaving) or self.state in _IN_GROUP

    def _join(self, why: str) -> None:
        log.info("share group %s: joining: %s", self._context.config.group_id, why)
        self._epoch, self._sent_topics = JOIN_EPOCH, None
        self._heartbeats.due()
        self._partitions_wait_ms = _FIRST_WAIT_MS
        self._machine.move(State.JOINING)
        self._context.group.set_state("<rebalancing>")

    def _end(self, state: State) -> None:
        self._heartbeats.request.reset()
        self._assignment = {}
        self._context.polls.event_needed = True
        self._context.group.left()
        if self.state is not state:
            self._machine.move(state)

    def _heartbeat(self, destination: ToNode, now_ms: int) -> UnsentRequest:
        config, topics = self._context.config, self._context.subscription.topics
        joining = self.state is State.JOINING
        fields: dict[str, Any] = {}
        if joining:
            fields["rack_id"] = config.client_rack or None
        if self._sent_topics != topics:
            fields["subscribed_topic_names"] = sorted(topics)
            self._sent_topics = topics
        self._heartbeats.sent(now_ms)
        return self._context.request(
            self._message(self._epoch, **fields),
            destination,
            on_response=self._handle_response,
            on_error=self._handle_error,
            state=self._heartbeats.request,
        )

    def _final_heartbeat(self, destination: ToNode) -> UnsentRequest:
        futures, self._leaving = self._leaving, []
        return final_heartbeat(self._context, self._message(LEAVE_EPOCH), destination, futures)

    def _message(self, epoch: int, **fields: Any) -> ShareGroupHeartbeatRequest:
        return ShareGroupHeartbeatRequest(
            group_id=self._context.config.group_id,
            member_id=self.member_id,
            member_epoch=epoch,
            min_version=FIRST_VERSION,
            **fields,
        )

    # --- responses -----------------------------------------------------------------------------

    def _handle_response(self, response: ClientResponse) -> None:
        if self.state not in _IN_GROUP:
            return  # of an earlier membership
        self._context.metrics.record("heartbeat-latency", response.latency_ms)
        message = response.message
        if message.error_code:
            raise group_error(message.error_code, self._context.config, message.error_message)
        check_epoch(message.member_epoch)
        self._heartbeats.answered(message.heartbeat_interval_ms)
        self._epoch = message.member_epoch
        self._context.group.joined(self._epoch, self.member_id)
        if message.assignment is not None:
            self._context.metrics.record("assignment", 1)
            self._context.metrics.happened("last-rebalance-seconds-ago")
            self._assignment = by_topic_id(message.assignment.topic_partitions)
        if not self._assignment:
            self._heartbeats.due(min(self._heartbeats.interval_ms, self._partitions_wait_ms))
            self._partitions_wait_ms *= 2
        if self.state is State.JOINING:
            self._machine.move(State.STABLE)
        self._context.group.set_state("<stable>")

    def _handle_error(self, error: Exception) -> None:
        if self.state not in _IN_GROUP:
            return  # of an earlier membership
        self._sent_topics = None
        reaction = heartbeat_reaction(error, joining=self.state is State.JOINING)
        self._heartbeats.failed(error, reaction, self._coordinator)
        if reaction is Reaction.LOST:
            self._assignment = NO_PARTITIONS
            self._context.group.fenced(self.member_id)
            self._join(f"the coordinator removed this member: {error}")
        elif reaction is Reaction.RAISE:
            self._context.raise_in_poll(self._with_advice(error), of_membership=True)
        elif reaction is Reaction.FAIL:
            self._fail(self._with_advice(error))

    def _with_advice(self, error: Exception) -> Exception:
        if isinstance(error, GroupIdNotFoundError):
            return other_kind(error, self._context.config)
        if not isinstance(error, UnsupportedVersionError):
            return error
        found = type(error)(
            "the cluster has no share groups (KIP-932): they need Kafka 4.2, and the feature "
            "share.version=1 (kafka-features.sh upgrade --feature share.version=1)"
        )
        found.__cause__ = error
        return found

    def _coordinator_failed(self, error: Exception) -> None:
        """Raise an error of a search for the coordinator, which continues."""
        if self.state in _IN_GROUP:
            self._context.raise_in_poll(error, of_membership=True)

    def _fail(self, error: Exception) -> None:
        """Raise an error that only the user can fix in every poll() until unsubscribe()."""
        if self.state not in _IN_GROUP:
            return
        log.error(
            "share group %s: the membership failed; poll() raises this: %s",
            self._context.config.group_id,
            error,
        )
        self._end(State.FATAL)
        self._context.group.fatal = error
        self._context.raise_in_poll(error, of_membership=True)
