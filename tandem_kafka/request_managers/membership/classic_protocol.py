"""Membership in a classic group: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

The state machine is in `states.py`. Everything happens on the network thread; what the
application must do (listeners, taking over an assignment) is asked of it through `callbacks.py`.
"""

from __future__ import annotations

import logging
from typing import Any

from tandem_kafka.assignors.classic import (
    assign,
    assignment_partitions,
    subscription_metadata,
    topics_of,
)
from tandem_kafka.errors import (
    LOGIN_ERRORS,
    KafkaError,
    for_code,
)
from tandem_kafka.events.background import PartitionsAssigned, PartitionsLost, PartitionsRevoked
from tandem_kafka.events.completable import Completion
from tandem_kafka.request_managers.base import (
    FOREVER_MS,
    ClientResponse,
    PollResult,
    Purpose,
    ToNode,
    UnsentRequest,
)
from tandem_kafka.request_managers.context import ManagerContext
from tandem_kafka.request_managers.coordinator import CoordinatorManager
from tandem_kafka.request_managers.membership.callbacks import CallbackRunner
from tandem_kafka.request_managers.membership.heartbeats import Heartbeats
from tandem_kafka.request_managers.membership.states import MemberStateMachine, State
from tandem_kafka.request_managers.metadata_refresh import MetadataRefresher
from tandem_kafka.request_managers.reactions import MEMBERSHIP, Reaction, reaction_to
from tandem_kafka.shared.group import NO_GENERATION
from tandem_kafka.wire.messages import (
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)

__all__ = ["ClassicMembership"]

log = logging.getLogger(__name__)

PROTOCOL_TYPE = "consumer"
#: Answering JoinGroup may take the broker as long as the slowest member.
JOIN_GRACE_MS = 5_000

_NAMES = {State.UNJOINED: "<unjoined>", State.STABLE: "<stable>"}


class ClassicMembership:
    """One member."""

    def __init__(
        self, context: ManagerContext, coordinator: CoordinatorManager, metadata: MetadataRefresher
    ) -> None:
        self._context = context
        self._config = context.config
        self._group = context.group
        self._subscription = context.subscription
        self._coordinator = coordinator
        self._metadata = metadata
        self._machine = MemberStateMachine()
        self._callbacks = CallbackRunner(context.background)
        self._request = context.request_state()
        self._heartbeats = Heartbeats(context, self._react)
        self._poll_deadline_ms = 0
        #: The application has polled since it subscribed, or since it was last heard of.
        self._wanted = False
        #: Tells an answer to the newest JoinGroup or SyncGroup from one to an older.
        self._attempt = 0
        self._rejoin_reason: str | None = None
        self._joined_topics: frozenset[str] = frozenset()
        #: The answer to JoinGroup, while SyncGroup is still to be sent.
        self._to_sync: Any = None
        #: As leader: partition counts that the assignment was computed from.
        self._assigned_from: dict[str, int] | None = None
        self._fatal: Exception | None = None
        #: Requests that an answer called for; the next turn sends them.
        self._outbox: list[UnsentRequest] = []
        self._assignors = {a.name: a for a in _instances(self._config)}
        coordinator.on_fatal(self._fail)

    @property
    def _state(self) -> State:
        return self._machine.state

    # --- what is asked -------------------------------------------------------------------------

    def application_polled(self) -> None:
        """The application is alive: join if needed, and call again what failed."""
        now_ms = self._context.clock.now_ms()
        self._poll_deadline_ms = now_ms + self._config.max_poll_interval_ms
        if self._fatal is not None:
            self._context.raise_in_poll(self._fatal)
            return
        self._callbacks.retry()
        self._wanted = True

    def enforce_rebalance(self, reason: str) -> None:
        """Rejoin even though nothing has changed."""
        self._rejoin_reason = reason

    def callback_completed(self, error: Exception | None) -> None:
        """The application thread has run the callback that was asked for."""
        self._callbacks.completed(error)

    def leave(self, future: Completion[Any], reason: str) -> None:
        """Leave the group; done whatever comes of the request."""
        self._callbacks.cancel()
        self._wanted = False
        self._fatal = None
        self._rejoin_reason = None
        member = self._group.metadata
        destination = self._coordinator.destination() if member.member_id else None
        dynamic = member.group_instance_id is None
        # JoinGroup may be parked at the coordinator: what is sent behind it would wait for it.
        behind_join = self._state is State.PREPARING_REBALANCE and self._request.in_flight
        self._forget_membership()
        if destination is None or not dynamic:
            future.complete(None)
            return
        if behind_join:
            destination = ToNode(destination.node, Purpose.MAIN)
        identity = LeaveGroupRequest.MemberIdentity
        message = LeaveGroupRequest(
            group_id=member.group_id,
            member_id=member.member_id,
            members=[identity(member_id=member.member_id, group_instance_id=None, reason=reason)],
        )
        request = self._context.request(message, destination)
        request.future.then(lambda _: future.complete(None))
        self._outbox.append(request)

    # --- the turn ------------------------------------------------------------------------------

    def poll(self, now_ms: int) -> PollResult:
        """Send what the state calls for."""
        if self._outbox:
            return self._empty_outbox()
        if self._fatal is not None:
            return PollResult()
        if self._state is State.UNJOINED:
            if not self._wanted or self._callbacks.busy or not self._subscription.resolved:
                return PollResult()
            self._prepare("the application polls")
        if now_ms >= self._poll_deadline_ms and not self._callbacks.busy:
            self._stop_polling()
            return self.poll(now_ms)
        self._check_rejoin()
        result = self._send_for_state(now_ms)
        wait_ms = min(result.wait_ms, max(1, self._poll_deadline_ms - now_ms))
        return PollResult(result.unsent, wait_ms)

    def close(self, now_ms: int) -> PollResult:  # noqa: ARG002 - the managers' interface
        """Leave has been asked for before; send it if it still waits."""
        return self._empty_outbox()

    def _empty_outbox(self) -> PollResult:
        unsent, self._outbox = tuple(self._outbox), []
        return PollResult(unsent, 0 if unsent else FOREVER_MS)

    def _send_for_state(self, now_ms: int) -> PollResult:
        destination = self._coordinator.destination()
        if destination is None:
            return PollResult()
        if self._state is State.COMPLETING_REBALANCE:
            self._sync()
            return self._empty_outbox()
        if self._state is not State.PREPARING_REBALANCE or self._callbacks.busy:
            return self._heartbeats.poll(destination, now_ms)
        if not self._request.can_send(now_ms):
            return PollResult(wait_ms=self._request.wait_ms(now_ms))
        return PollResult((self._join(destination),), FOREVER_MS)

    # --- rebalancing ---------------------------------------------------------------------------

    def _check_rejoin(self) -> None:
        """Rejoin when the subscription, the topics' partitions or somebody asks for it."""
        if self._state is not State.STABLE or self._callbacks.busy:
            return
        if self._subscription.topics != self._joined_topics:
            self._rejoin_reason = "the subscription has changed"
        elif self._assigned_from is not None and self._assigned_from != self._partition_counts(
            self._assigned_from
        ):
            self._rejoin_reason = "the partitions of a topic have changed"
        if self._rejoin_reason is not None:
            self._prepare(self._rejoin_reason)

    def _prepare(self, reason: str) -> None:
        """Give all partitions back (eager rebalancing), then join."""
        log.info("group %s: joining: %s", self._config.group_id, reason)
        self._rejoin_reason = None
        self._machine.move(State.PREPARING_REBALANCE)
        self._group.set_state("<rebalancing>")
        self._request.reset()
        self._give_back(PartitionsRevoked)

    def _give_back(self, kind: type[PartitionsRevoked | PartitionsLost]) -> None:
        held = frozenset(self._subscription.assigned)
        if not held:
            return
        for state in self._subscription.assigned.values():
            state.pending_revocation = True
        self._callbacks.run(kind(held), lambda: self._subscription.set_assigned(()))

    def _lose(self, why: object, *, keep_id: bool) -> None:
        """Membership is over: others may own the partitions already."""
        log.warning("group %s: membership lost: %s", self._config.group_id, why)
        member_id = self._group.metadata.member_id if keep_id else ""
        self._forget_membership()
        self._group.joined(NO_GENERATION, member_id)
        self._give_back(PartitionsLost)

    def _stop_polling(self) -> None:
        log.warning(
            "group %s: poll() was not called for max_poll_interval_ms=%d; leaving the group. "
            "Poll more often, or take fewer records at a time (max_poll_records)",
            self._config.group_id,
            self._config.max_poll_interval_ms,
        )
        self.leave(Completion(), "max_poll_interval_ms exceeded")
        self._give_back(PartitionsLost)

    def _forget_membership(self) -> None:
        self._machine.move(State.UNJOINED)
        self._group.left()
        self._group.set_state(_NAMES[State.UNJOINED])
        self._request.reset()
        self._heartbeats.reset()
        self._joined_topics = frozenset()
        self._assigned_from = None

    def _fail(self, error: Exception) -> None:
        """An error that only the user can mend: every poll raises it until unsubscribe()."""
        if self._state is State.UNJOINED:
            return
        if not isinstance(error, LOGIN_ERRORS):
            self._fatal = error  # a refused log-in may be mended by the next attempt
        self._context.raise_in_poll(error)

    # --- JoinGroup -----------------------------------------------------------------------------

    def _join(self, destination: ToNode) -> UnsentRequest:
        self._request.sent()
        self._joined_topics = topics = self._subscription.topics
        protocol = JoinGroupRequest.JoinGroupRequestProtocol
        member = self._group.metadata
        message = JoinGroupRequest(
            group_id=member.group_id,
            session_timeout_ms=self._config.session_timeout_ms,
            rebalance_timeout_ms=self._config.max_poll_interval_ms,
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[
                protocol(name=name, metadata=subscription_metadata(assignor, topics))
                for name, assignor in self._assignors.items()
            ],
            reason=None,
        )
        timeout_ms = max(
            self._config.request_timeout_ms, self._config.max_poll_interval_ms + JOIN_GRACE_MS
        )
        request = self._context.request(message, destination, timeout_ms=timeout_ms)
        request.future.then(self._on_state(State.PREPARING_REBALANCE, self._joined))
        return request

    def _joined(self, response: ClientResponse) -> None:
        message = response.message
        if message.error_code:
            error_type = for_code(message.error_code)
            if message.member_id:
                self._group.joined(NO_GENERATION, message.member_id)  # KIP-394
            self._react(error_type(self._config.group_id))
            return
        self._context.metrics.record("join-latency", response.latency_ms)
        self._request.succeeded()
        self._group.joined(message.generation_id, message.member_id)
        self._machine.move(State.COMPLETING_REBALANCE)
        self._to_sync = message

    # --- SyncGroup -----------------------------------------------------------------------------

    def _sync(self) -> None:
        """Send SyncGroup, unless it has been, or the metadata for an assignment are awaited."""
        joined = self._to_sync
        if joined is None:
            return
        try:
            assignments = self._lead(joined) if joined.leader == joined.member_id else {}
            if assignments is None:
                return
        except Exception as error:  # noqa: BLE001 - a user's assignor may raise anything
            failure = KafkaError(f"the assignor {joined.protocol_name!r} failed: {error!r}")
            failure.__cause__ = error
            self._to_sync = None
            self._fail(failure)
            return
        self._to_sync = None
        destination = self._coordinator.destination()
        if destination is None:
            self._machine.move(State.PREPARING_REBALANCE)
            return
        entry = SyncGroupRequest.SyncGroupRequestAssignment
        message = SyncGroupRequest(
            group_id=self._config.group_id,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            group_instance_id=self._config.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=joined.protocol_name,
            assignments=[entry(member_id=m, assignment=a) for m, a in assignments.items()],
        )
        request = self._context.request(message, destination)
        handler = self._on_state(
            State.COMPLETING_REBALANCE,
            lambda response: self._synced(joined.protocol_name, response),
        )
        request.future.then(handler)
        self._request.sent()
        self._outbox.append(request)

    def _lead(self, joined: Any) -> Any:
        """Return every member's assignment; None while the cluster was not asked for a topic."""
        topics = topics_of(joined.members)
        self._metadata.need(topics, self._context.clock.now_ms() + self._config.metadata_max_age_ms)
        if not self._metadata.knows(topics):
            return None
        snapshot = self._context.metadata.snapshot
        assignments = assign(self._assignors[joined.protocol_name], snapshot, joined.members)
        self._assigned_from = dict.fromkeys(topics, 0)
        self._assigned_from = self._partition_counts(self._assigned_from)
        log.info("group %s: leading %d members", self._config.group_id, len(joined.members))
        return assignments

    def _partition_counts(self, topics: Any) -> dict[str, int]:
        known = self._context.metadata.snapshot.topics
        return {t: len(known[t].partitions) if t in known else 0 for t in topics}

    def _synced(self, protocol_name: str, response: ClientResponse) -> None:
        message = response.message
        if message.error_code:
            self._react(for_code(message.error_code)(self._config.group_id))
            return
        self._context.metrics.record("sync-latency", response.latency_ms)
        assignment, partitions = assignment_partitions(message.assignment)
        member = self._group.metadata
        self._assignors[protocol_name].on_assignment(assignment, member.generation_id)
        self._request.succeeded()
        self._machine.move(State.STABLE)
        self._group.set_state(_NAMES[State.STABLE])
        self._heartbeats.start()
        log.info(
            "group %s: generation %d, assigned %s",
            self._config.group_id,
            member.generation_id,
            sorted(partitions),
        )
        self._callbacks.run(PartitionsAssigned(partitions, partitions), self._begin_fetching)

    def _begin_fetching(self) -> None:
        for state in self._subscription.assigned.values():
            state.awaiting_callback = False

    # --- answers -------------------------------------------------------------------------------

    def _on_state(self, expected: State, handle: Any) -> Any:
        """Wrap a handler: an answer to an older request, or when the state is over, is dropped."""
        self._attempt += 1
        attempt = self._attempt

        def answered(future: Completion[ClientResponse]) -> None:
            if self._state is not expected or self._attempt != attempt:
                return
            if future.error is not None:
                self._react(future.error)
            else:
                handle(future.result())

        return answered

    def _react(self, error: BaseException) -> None:
        reaction = reaction_to(MEMBERSHIP, error)
        if self._state in (State.PREPARING_REBALANCE, State.COMPLETING_REBALANCE):
            self._request.failed(self._context.clock.now_ms())
        if reaction is Reaction.REDISCOVER:
            self._coordinator.mark_unknown(error)
        if reaction is Reaction.LOST:
            self._lose(error, keep_id=False)
        elif reaction is Reaction.REJOIN:
            self._rejoin(error)
        elif reaction is Reaction.FAIL and isinstance(error, Exception):
            self._fail(error)
        elif self._state is State.COMPLETING_REBALANCE:
            self._machine.move(State.PREPARING_REBALANCE)

    def _rejoin(self, error: BaseException) -> None:
        if self._state is State.STABLE:
            self._rejoin_reason = f"the coordinator says {type(error).__name__}"
        else:
            self._machine.move(State.PREPARING_REBALANCE)
            self._request.reset()


def _instances(config: Any) -> list[Any]:
    return [a() if isinstance(a, type) else a for a in config.partition_assignment_strategy]
