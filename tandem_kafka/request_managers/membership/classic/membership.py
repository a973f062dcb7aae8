"""Membership in a classic group: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

States and transitions are in `states.py`. With eager assignors, a member releases all
partitions before JoinGroup. With cooperative assignors (KIP-429), it keeps them and releases those
that the new assignment lacks. It then rejoins, so that they can be assigned to other members. The
tasks of the leader are in `leadership.py`.

A member whose assignor fails leaves the group, and joins again after a pause that grows. SyncGroup
has no field for an error, and other clients cannot tell a member's empty assignment from one that
is meant. If the leader leaves, the coordinator makes another member the leader, whose assignor may
work; otherwise that one fails in turn, and its application gets the error, too. A leader that
stayed would be elected again for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from kafka.errors import FencedInstanceIdError, IllegalGenerationError, MemberIdRequiredError

from tandem_kafka.assignors.classic import ClassicAssignors, decode_assignment
from tandem_kafka.errors import LOGIN_ERRORS, UnexpectedResponseError, reason_of
from tandem_kafka.events.background import PartitionsAssigned, PartitionsRevoked
from tandem_kafka.events.completable import Completion
from tandem_kafka.logs import client_logger
from tandem_kafka.network.backoff import FOREVER_MS, Backoff
from tandem_kafka.network.request import ClientResponse, ToNode, UnsentRequest
from tandem_kafka.request_managers.base import IDLE, PollResult
from tandem_kafka.request_managers.context import ManagerContext
from tandem_kafka.request_managers.coordinator_request_manager import CoordinatorRequestManager
from tandem_kafka.request_managers.group_errors import group_error
from tandem_kafka.request_managers.membership.classic.assignor_calls import (
    AssignorCalls,
    assignor_error,
)
from tandem_kafka.request_managers.membership.classic.heartbeats import Heartbeats
from tandem_kafka.request_managers.membership.classic.join_and_sync import ClassicRequests
from tandem_kafka.request_managers.membership.classic.leadership import Leadership
from tandem_kafka.request_managers.membership.classic.states import TRANSITIONS, State
from tandem_kafka.request_managers.membership.member import Member
from tandem_kafka.request_managers.metadata_refresh import MetadataRefresher
from tandem_kafka.request_managers.reactions import MEMBERSHIP, Reaction, reaction_to
from tandem_kafka.state.group import NO_GENERATION, REBALANCING
from tandem_kafka.types import LeaveOperation, TopicPartition, names_of
from tandem_kafka.wire.topic_partitions import numbers_by

log = client_logger(__name__)

#: How long a member stays outside of the group after a failure of its assignor: at first, and at
#: most. Each return to the group is a rebalance for all members.
ASSIGNOR_PAUSE_MS = 1_000
LONGEST_ASSIGNOR_PAUSE_MS = 30_000
#: How long a leaving member waits for its member id, which the coordinator gives at once (KIP-394).
ID_WAIT_MS = 1_000


class ClassicMembership(Member[State]):
    """One member of a classic group."""

    def __init__(
        self,
        context: ManagerContext,
        coordinator: CoordinatorRequestManager,
        metadata: MetadataRefresher,
    ) -> None:
        super().__init__(context, coordinator, State.UNJOINED, TRANSITIONS)
        self._assignors = ClassicAssignors(context.config.partition_assignment_strategy)
        self._requests = ClassicRequests(context, self._assignors)
        self._calls = AssignorCalls(context, self._assignors, self._assignor_failed)
        self._leadership = Leadership(context, metadata, self._assignors)
        self._heartbeats = Heartbeats(context, self._timer, self._heartbeat_failed)
        #: JoinGroup and SyncGroup. Invariant: only a complete rebalance resets its backoff, so that
        #: an error that recurs in every rebalance does not make the member spin.
        self._request = context.request_state()
        #: Whether one was retried without a backoff since the last complete rebalance.
        self._expedited = False
        self._assignor_pauses = Backoff(
            ASSIGNOR_PAUSE_MS, LONGEST_ASSIGNOR_PAUSE_MS, context.random
        )
        self._metadata = metadata
        #: The partitions of an assignment that has some which the metadata lack, and the version
        #: of these metadata.
        self._incomplete: Mapping[str, frozenset[int]] = {}
        self._incomplete_in = -1
        #: Requests to send in the next iteration.
        self._unsent: list[UnsentRequest] = []
        self._rejoin_reason: str | None = None
        self._join_reason = ""
        self._joined_topics: frozenset[str] = frozenset()
        #: Waits for the member id that JoinGroup brings, and until when, while the member leaves.
        self._leaving: tuple[Completion[Any], int] | None = None
        #: A JoinGroup response for which SyncGroup has not been sent yet.
        self._pending_sync: Any = None

    def __repr__(self) -> str:
        """Show the group, the state and the generation."""
        group = self._group.metadata
        name = f"{group.member_id!r} of {group.group_id!r}"
        return f"<ClassicMembership {name}, {self.state.value}, generation {group.generation_id}>"

    # --- calls ---------------------------------------------------------------------------------

    def subscription_changed(self) -> None:
        """Do nothing: `_check_rejoin` detects the change."""

    def enforce_rebalance(self, reason: str) -> None:
        """Rejoin although nothing has changed."""
        self._rejoin_reason = reason

    def commit_rejected(self, error: Exception) -> None:
        """End the membership: others may own the partitions, so no more records are returned."""
        if self.state is State.STABLE and self._group.fatal is None:
            self._lose_membership(error)

    def prepare_to_leave(self) -> None:
        """Keep sending heartbeats while the listener runs."""
        super().prepare_to_leave()
        self._rejoin_reason = None
        if self.state not in (State.UNJOINED, State.LEAVING):
            self._machine.move(State.LEAVING)

    def leave(self, future: Completion[Any], operation: LeaveOperation, reason: str) -> None:
        """Send LeaveGroup; done after the response, or if it cannot be sent."""
        self._leave(future, operation, reason)
        self._forget_failures()

    def _leave(self, future: Completion[Any], operation: LeaveOperation, reason: str) -> None:
        member = self._group.metadata
        joins = self._request.in_flight and not (member.member_id or member.group_instance_id)
        self.prepare_to_leave()
        # After the commits on the same connection: the coordinator rejects them once we have left.
        known = self._coordinator.known
        destination = self._coordinator.offsets_destination() if known else None
        if (
            self.state is not State.LEAVING
            or destination is None
            or not self._must_notify(operation)
        ):
            self._end_membership()
            self._left().complete(None)
            if joins and self._coordinator.known:
                self._leaving = future, self._context.clock.now_ms() + ID_WAIT_MS
            else:
                future.complete(None)
            return
        log.info("group %s: leaving: %s", self._context.config.group_id, reason)
        member_id = self._group.metadata.member_id
        self._unsent.append(self._requests.leave(destination, reason, future, member_id))
        self._end_membership()

    def _must_notify(self, operation: LeaveOperation) -> bool:
        """Tell whether the coordinator must be notified that the member leaves."""
        if not self._group.metadata.member_id:
            return False
        if operation is LeaveOperation.DEFAULT:
            return self._group.metadata.group_instance_id is None
        return operation is LeaveOperation.LEAVE

    # --- requests ------------------------------------------------------------------------------

    def poll(self, now_ms: int) -> PollResult:
        """Return the requests that the state requires."""
        unsent, wait_ms = self._poll(now_ms)
        if self._leaving is not None:
            left_ms = self._leaving[1] - now_ms
            if left_ms <= 0:
                self._left().complete(None)
            else:
                wait_ms = min(wait_ms, left_ms)
        return PollResult(unsent, wait_ms)

    def _poll(self, now_ms: int) -> PollResult:
        if self._unsent:
            return self.close(now_ms)
        if self._group.fatal is not None or not self._start():
            return IDLE
        left_ms = self._timer.left_ms(now_ms)
        if left_ms <= 0 and self.state is not State.LEAVING:
            self._stop_polling(now_ms)
            return self.close(now_ms)
        self._check_rejoin()
        self._assign_known()
        result = self._send_for_state(now_ms)
        wait_ms = min(result.wait_ms, left_ms) if left_ms > 0 else result.wait_ms
        return PollResult(result.unsent, wait_ms)

    def close(self, now_ms: int) -> PollResult:  # noqa: ARG002 - the managers' interface
        """Return unsent requests such as LeaveGroup."""
        unsent, self._unsent = tuple(self._unsent), []
        return PollResult(unsent, 0 if unsent else FOREVER_MS)

    def _start(self) -> bool:
        """Start to join if wanted; return whether there is a membership to maintain."""
        if self.state is not State.UNJOINED:
            return True
        if not self._join_wanted or self._user_code_running or not self._subscription.resolved:
            return False
        self._prepare("the application polls")
        return True

    def _send_for_state(self, now_ms: int) -> PollResult:
        destination = self._coordinator.destination()
        if destination is None:
            return IDLE  # finding the coordinator wakes the loop
        if self.state is State.COMPLETING_REBALANCE:
            return self._sync_when_ready(destination, now_ms)
        if self.state is not State.PREPARING_REBALANCE or self._user_code_running:
            return self._heartbeats.poll(destination, now_ms)
        return self._join_when_ready(destination, now_ms)

    @property
    def _user_code_running(self) -> bool:
        """True while the next step waits for the user's listener or assignor."""
        return self._callbacks.busy or self._calls.installing

    # --- when to rebalance ---------------------------------------------------------------------

    def _check_rejoin(self) -> None:
        if self.state is not State.STABLE or self._user_code_running:
            return
        if self._subscription.topics != self._joined_topics and self._subscription.resolved:
            self._rejoin_reason = "the subscription has changed"
        elif self._leadership.outdated:
            self._rejoin_reason = "the partitions of a topic have changed"
        if self._rejoin_reason is not None:
            self._prepare(self._rejoin_reason)

    def _prepare(self, reason: str) -> None:
        """Start a rebalance: release partitions as required, then join."""
        log.info("group %s: joining, because %s", self._context.config.group_id, reason)
        self._rejoin_reason, self._join_reason = None, reason
        self._wait_for({}, frozenset())
        self._calls.forget()
        self._machine.move(State.PREPARING_REBALANCE)
        self._group.set_state(REBALANCING)
        self._rebalance.begin()
        self._request.abandon()
        owned = frozenset(self._subscription.assigned)
        if self._assignors.cooperative:
            owned = frozenset(tp for tp in owned if tp.topic not in self._subscription.topics)
        self._revoke(owned, lambda: None)

    def _revoke(self, partitions: frozenset[TopicPartition], then: Callable[[], None]) -> None:
        if not partitions:
            then()
            return
        for tp in partitions:
            self._subscription.assigned[tp].pending_revocation = True

        def revoked() -> None:
            # Keep the order: the order of a set differs between runs of Python.
            kept = [tp for tp in self._subscription.assigned if tp not in partitions]
            self._subscription.set_assigned(kept)
            then()

        self._callbacks.run(PartitionsRevoked(partitions), revoked)

    # --- losing the membership -----------------------------------------------------------------

    def _lose_membership(self, why: object) -> None:
        """End the membership and lose all partitions, which others may own already."""
        pause_ms = self._removals.removed(why)
        self._lose(why)
        if pause_ms:
            self._request.hold(self._context.clock.now_ms() + pause_ms)
        else:
            self._expedite()

    def _lose(self, why: object) -> None:
        member_id = self._group.metadata.member_id
        self._end_membership()
        if isinstance(why, IllegalGenerationError):  # the coordinator still knows this member id
            self._group.fenced(member_id)
        # Otherwise a sticky assignor would claim, in the next JoinGroup, what others own by now.
        self._calls.lost()
        self._lose_partitions(lambda: None)

    def _stop_polling(self, now_ms: int) -> None:
        self._timer.log_expiry(now_ms)
        self.leave(Completion(), LeaveOperation.DEFAULT, "max_poll_interval_ms exceeded")
        self._lose("poll() was not called in time")

    def _end_membership(self) -> None:
        self._machine.move(State.UNJOINED)
        self._callbacks.cancel()
        self._rebalance.fail()
        self._group.fatal = None
        self._pending_sync = None
        self._wait_for({}, frozenset())
        self._calls.cancel()
        self._leadership.end()
        self._joined_topics = frozenset()
        self._group.left()
        self._request.abandon()
        self._heartbeats.reset()

    def _coordinator_failed(self, error: Exception) -> None:
        if self.state is not State.UNJOINED:
            self._context.raise_in_poll(error, of_membership=True)

    def _forget_failures(self) -> None:
        """Join without a backoff next time, because a rebalance or the membership is complete."""
        self._request.reset()
        self._expedited = False
        self._assignor_pauses.reset()
        self._group.assignor_failure = None

    def _fail(self, error: Exception) -> None:
        """Raise an error that only the user can fix in every poll() until unsubscribe()."""
        if self.state is State.UNJOINED:
            return
        if not isinstance(error, LOGIN_ERRORS):  # the next login may succeed
            self._group.fatal = error  # before poll() is called to look at it
            self._rebalance.fail()
        self._context.raise_in_poll(error, of_membership=True)
        if isinstance(error, FencedInstanceIdError):
            self._group.lost = True

    # --- JoinGroup -----------------------------------------------------------------------------

    def _join_when_ready(self, destination: ToNode, now_ms: int) -> PollResult:
        """Return JoinGroup once the assignors have described the member."""
        if not self._request.can_send(now_ms):
            return PollResult(wait_ms=self._request.wait_ms(now_ms))
        described = self._calls.description(self._requests.view())
        if described is None:
            return self._heartbeats.poll(destination, now_ms)
        self._joined_topics = self._subscription.topics
        request = self._context.request(
            self._requests.join(described, self._join_reason),
            destination,
            on_response=self._joined,
            on_error=partial(self._handle_error_in, State.PREPARING_REBALANCE),
            state=self._request,
            timeout_ms=self._requests.join_timeout_ms,
            held_ms=None,
            on_late=self._joined_late,
        )
        return PollResult((request,))

    def _joined(self, response: ClientResponse) -> None:
        if self.state is not State.PREPARING_REBALANCE:
            self._joined_late(response)
            return
        message = response.message
        if message.error_code:
            error, known = (
                group_error(message.error_code, self._context.config),
                self._group.metadata,
            )
            if message.member_id:
                self._group.joined(NO_GENERATION, message.member_id)
            # Invariant: not without an id, which would be asked for at once, again and again.
            given = message.member_id and not known.member_id
            if isinstance(error, MemberIdRequiredError) and given:
                self._request.proceed()  # no failure: KIP-394 prescribes a second JoinGroup
                return
            raise error
        self._context.metrics.record("join-latency", response.latency_ms)
        self._request.proceed()
        self._group.joined(message.generation_id, message.member_id)
        self._machine.move(State.COMPLETING_REBALANCE)
        self._calls.forget()
        try:
            self._leadership.joined(message)
        except Exception as error:  # noqa: BLE001 - a member may have sent anything
            self._assignor_failed("reading the subscriptions of the members", error)
            return
        self._pending_sync = message
        # A leader sends a heartbeat immediately. While its assignor holds the GIL, the transport
        # repeats the heartbeat of the last request.
        self._heartbeats.start(immediately=self._leadership.leads(message))

    def _joined_late(self, response: ClientResponse) -> None:
        """Give back a member id that comes after the end of the membership that asked for it.

        The coordinator would wait for that member until its session ends, and nobody in the group
        would get partitions. It does so for an id that has not joined yet, too (KIP-394).
        """
        message, member, left = response.message, self._group.metadata, self._left()
        given = message.error_code in (0, MemberIdRequiredError.errno)
        known = message.member_id in ("", member.member_id)
        destination = self._coordinator.offsets_destination() if self._coordinator.known else None
        if not given or known or destination is None or member.group_instance_id is not None:
            left.complete(None)
            return
        reason = "the consumer did not wait for JoinGroup"
        self._unsent.append(self._requests.leave(destination, reason, left, message.member_id))

    def _left(self) -> Completion[Any]:
        """Return what waits for a member id, which is here or late."""
        leaving, self._leaving = self._leaving, None
        return Completion() if leaving is None else leaving[0]

    # --- SyncGroup -----------------------------------------------------------------------------

    def _sync_when_ready(self, destination: ToNode, now_ms: int) -> PollResult:
        """Return SyncGroup; a leader first waits for metadata, and computes the assignments."""
        joined = self._pending_sync
        if joined is None:
            return PollResult(wait_ms=self._request.wait_ms(now_ms))
        wait_ms = self._leadership.wait_ms(now_ms)
        assignments: Mapping[str, bytes] | None = None
        if not self._leadership.leads(joined):
            assignments = {}
        elif wait_ms <= 0:
            assignments = self._calls.assignments(lambda: self._leadership.plan(joined))
        if assignments is None:
            unsent, heartbeat_ms = self._heartbeats.poll(destination, now_ms)
            return PollResult(unsent, min(heartbeat_ms, wait_ms) if wait_ms > 0 else heartbeat_ms)
        self._pending_sync = None
        self._calls.forget()
        request = self._context.request(
            self._requests.sync(joined, assignments),
            destination,
            on_response=partial(self._synced, joined.protocol_name),
            on_error=partial(self._handle_error_in, State.COMPLETING_REBALANCE),
            state=self._request,
            held_ms=None,
        )
        request.keep_alive = self._heartbeats.keep_alive(now_ms)
        return PollResult((request,))

    def _synced(self, protocol_name: str, response: ClientResponse) -> None:
        if self.state is not State.COMPLETING_REBALANCE:
            return
        message = response.message
        if message.error_code:
            raise group_error(message.error_code, self._context.config)
        self._context.metrics.record("sync-latency", response.latency_ms)
        generation = self._group.metadata.generation_id
        assignment = decode_assignment(message.assignment)
        assigned = numbers_by(assignment.assigned_partitions)
        unexpected = sorted(assigned.keys() - self._joined_topics)
        if unexpected:
            raise UnexpectedResponseError(
                f"the group leader assigned partitions of topics to which this member is not "
                f"subscribed: {unexpected}"
            )
        self._machine.move(State.STABLE)
        self._group.set_state("<stable>")
        self._heartbeats.start()
        self._calls.install(
            protocol_name, assignment, generation, lambda: self._installed(assigned)
        )

    def _installed(self, sent: Mapping[str, frozenset[int]]) -> None:
        """Apply the assignment after the assignor has been notified of it."""
        self._forget_failures()
        assigned = self._known(sent)
        revoked = frozenset(self._subscription.assigned) - assigned
        if revoked:  # cooperative: the next round assigns them to other members
            self._rejoin_reason = "partitions were revoked"
        self._revoke(revoked, lambda: self._apply_assignment(assigned))

    def _known(self, sent: Mapping[str, frozenset[int]]) -> frozenset[TopicPartition]:
        """Return the partitions of an assignment that are owned, or that the metadata have.

        Invariant: there is no object for each of the others, which wait for a refresh. Their number
        is anybody's.
        """
        snapshot, owned = self._context.metadata.snapshot, self._subscription.assigned
        described = {topic: snapshot.described(topic, numbers) for topic, numbers in sent.items()}
        short = {topic for topic, found in described.items() if len(found) < len(sent[topic])}
        found = {TopicPartition(topic, each) for topic in sent for each in described[topic]}
        found |= {tp for tp in owned if tp.topic in short and tp.partition in sent[tp.topic]}
        self._wait_for(sent if short else {}, frozenset(short))
        return frozenset(found)

    def _wait_for(self, sent: Mapping[str, frozenset[int]], topics: frozenset[str]) -> None:
        self._incomplete, self._incomplete_in = sent, self._context.metadata.snapshot.version
        self._metadata.need_partitions(topics)

    def _assign_known(self) -> None:
        """Assign what newer metadata have of the assignment."""
        if self.state is not State.STABLE or self._user_code_running or not self._incomplete:
            return
        if self._incomplete_in != self._context.metadata.snapshot.version:
            assigned = self._known(self._incomplete)
            if assigned != frozenset(self._subscription.assigned):
                self._apply_assignment(assigned)

    def _apply_assignment(self, assigned: frozenset[TopicPartition]) -> None:
        added = assigned - frozenset(self._subscription.assigned)
        log.info(
            "group %s: generation %d, assigned %s, added %s",
            self._context.config.group_id,
            self._group.metadata.generation_id,
            names_of(assigned),
            names_of(added),
        )
        self._callbacks.run(PartitionsAssigned(assigned, added), self._start_fetching)

    def _start_fetching(self) -> None:
        super()._start_fetching()
        self._rebalance.complete()

    # --- errors --------------------------------------------------------------------------------

    def _handle_error_in(self, state: State, error: Exception) -> None:
        """Handle an error of JoinGroup or SyncGroup, unless the state has changed since."""
        if self.state is state:
            self._react(error)

    def _assignor_failed(self, what: str, error: Exception) -> None:
        """Leave the group for a while, because user code of an assignor has failed."""
        failure = assignor_error(what, error)
        if self.state is State.LEAVING:
            self._context.raise_in_poll(failure)
            return
        pause_ms = self._assignor_pauses.next_ms()
        group_id = self._context.config.group_id
        text = (
            f"{reason_of(failure)}; this member leaves the group {group_id!r}, so that another one "
            f"leads it, and joins again after {pause_ms} ms"
        )
        failure.args = (text,)
        log.warning(
            "partition_assignment_strategy: %s failed; this member leaves the group %s, so that "
            "another one leads it, and joins again after %d ms",
            what,
            group_id,
            pause_ms,
            exc_info=error,
        )
        self._context.raise_in_poll(failure, of_membership=True)
        self._group.assignor_failure = text
        polls = self._join_wanted
        self._leave(Completion(), LeaveOperation.LEAVE, f"{what} failed")
        self._lose(failure)
        self._join_wanted = polls
        self._request.hold(self._context.clock.now_ms() + pause_ms)

    def _heartbeat_failed(self, error: Exception) -> None:
        """Handle a heartbeat error; ignore those that a running rebalance explains."""
        if self._rebalancing:
            if reaction_to(MEMBERSHIP, error) in (Reaction.REJOIN, Reaction.RETRY):
                return
            self._request.failed(self._context.clock.now_ms())  # JoinGroup used the same connection
        self._react(error)

    def _react(self, error: Exception) -> None:
        reaction = reaction_to(MEMBERSHIP, error)
        if reaction is Reaction.REDISCOVER:
            self._coordinator.mark_unknown(error)
        if self.state is State.LEAVING:
            return
        if reaction is Reaction.LOST:
            self._lose_membership(error)
        elif reaction is Reaction.FAIL:
            self._fail(error)
        else:
            if reaction is Reaction.RAISE:
                self._context.raise_in_poll(error, of_membership=True)
            self._rejoin(error, immediately=reaction is Reaction.REJOIN)

    @property
    def _rebalancing(self) -> bool:
        return self.state in (State.PREPARING_REBALANCE, State.COMPLETING_REBALANCE)

    def _rejoin(self, error: BaseException, *, immediately: bool) -> None:
        if self._rebalancing:
            self._machine.move(State.PREPARING_REBALANCE)
            if immediately:
                self._expedite()
        elif immediately:
            self._rejoin_reason = f"the coordinator returned {type(error).__name__}"

    def _expedite(self) -> None:
        """Send the next JoinGroup without a backoff, but once only until a rebalance completes."""
        if not self._expedited:
            self._expedited = True
            self._request.proceed()
