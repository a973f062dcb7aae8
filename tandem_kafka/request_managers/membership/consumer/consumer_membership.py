"""Membership in a KIP-848 group: one request, ConsumerGroupHeartbeat, and a target to reconcile.

States and transitions are in `consumer_states.py`, the fields of a heartbeat in
`consumer_heartbeat.py`, taking a target over in `reconciliation.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from kafka.errors import GroupIdNotFoundError

from tandem_kafka.errors import LOGIN_ERRORS, UnreleasedInstanceIdError, UnsupportedVersionError
from tandem_kafka.events.background import PartitionsLost
from tandem_kafka.events.completable import Completion
from tandem_kafka.network.request import ClientResponse, ToNode, UnsentRequest
from tandem_kafka.request_managers.base import IDLE, PollResult, RequestManager
from tandem_kafka.request_managers.context import ManagerContext
from tandem_kafka.request_managers.coordinator import CoordinatorManager
from tandem_kafka.request_managers.membership.callbacks import CallbackRunner
from tandem_kafka.request_managers.membership.consumer.consumer_heartbeat import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    HeartbeatFields,
    epoch_to_leave,
    error_of,
    new_member_id,
    with_advice,
)
from tandem_kafka.request_managers.membership.consumer.consumer_states import (
    IN_GROUP,
    TAKES_TARGETS,
    TRANSITIONS,
    State,
)
from tandem_kafka.request_managers.membership.consumer.local_assignment import LocalAssignment
from tandem_kafka.request_managers.membership.consumer.reconciliation import Reconciliation
from tandem_kafka.request_managers.membership.state_machine import StateMachine
from tandem_kafka.request_managers.membership.timers import PollTimer, RebalanceTimer
from tandem_kafka.request_managers.metadata_refresh import MetadataRefresher
from tandem_kafka.request_managers.reactions import GROUP_HEARTBEAT, Reaction, reaction_to
from tandem_kafka.types import LeaveOperation

__all__ = ["ConsumerMembership"]

log = logging.getLogger(__name__)


class ConsumerMembership(RequestManager):
    """One member."""

    resolves_regex = True

    def __init__(
        self,
        context: ManagerContext,
        coordinator: CoordinatorManager,
        metadata: MetadataRefresher,
        on_unsupported: Callable[[UnsupportedVersionError], None] | None = None,
    ) -> None:
        self._on_unsupported = on_unsupported
        self._context = context
        self._group = context.group
        self._subscription = context.subscription
        self._static = context.config.group_instance_id is not None
        self._coordinator = coordinator
        self._machine: StateMachine[State] = StateMachine(State.UNSUBSCRIBED, TRANSITIONS)
        self._callbacks = CallbackRunner(context.background, context.group, context.polls)
        self._local_assignment = LocalAssignment(context)
        self._reconciliation = Reconciliation(
            context,
            self._callbacks,
            metadata,
            self._acknowledge,
            self._local_assignment.notify_assignor,
        )
        self._fields = HeartbeatFields(context, self._local_assignment.announced)
        self._timer = PollTimer(context)
        self._rebalance = RebalanceTimer(context)
        self._request = context.request_state()
        #: Made by the client and kept for as long as the consumer lives (KIP-1082).
        self.member_id = new_member_id(context.random)
        self._epoch = JOIN_EPOCH
        self._interval_ms = 0
        self._next_ms = 0
        self._join_wanted = False
        #: Since the last success a heartbeat was sent without a pause after a failure.
        self._expedited = False
        #: The coordinator may just read what we own, and give all else to others: nothing is
        #: taken over before it has answered.
        self._full_heartbeat_pending = False
        #: The coordinator says that another holds our instance id; we ask whether it is ourselves.
        self._rejected_instance: UnreleasedInstanceIdError | None = None
        self._leave_epoch: int | None = None
        self._leave_futures: list[Completion[Any]] = []
        coordinator.on_fatal(self._fail)

    @property
    def state(self) -> State:
        """Where the member stands."""
        return self._machine.state

    # --- what is asked -------------------------------------------------------------------------

    def application_polled(self) -> None:
        """The application is alive: join, join again, call again what failed."""
        if self._group.fatal is not None:
            return
        self._callbacks.retry()
        self._join_wanted = True
        self._maybe_join()

    def subscription_changed(self) -> None:
        """The next heartbeat says so; a member that is none joins when the application polls."""
        if self.state in TAKES_TARGETS:
            self._next_ms = 0

    def enforce_rebalance(self, reason: str) -> None:
        """There is no such thing: the coordinator decides (KIP-848)."""
        log.warning("enforce_rebalance(%r) has no effect with group_protocol='consumer'", reason)

    def commit_rejected(self, error: Exception) -> None:
        """Others may own the partitions already: no more of them is handed out."""
        active = self.state in TAKES_TARGETS and self.state is not State.JOINING
        if active and self._group.fatal is None:
            self._request.reset()
            self._fenced(error)

    def callback_completed(self, number: int, error: Exception | None) -> None:
        """The application thread has run a rebalance callback."""
        self._callbacks.completed(number, error)

    def prepare_to_leave(self) -> None:
        """The listener is about to run; heartbeats go on."""
        self._callbacks.cancel()
        self._rebalance.fail()
        self._join_wanted = False  # until the application polls
        self._context.polls.event_needed = True
        if self.state in TAKES_TARGETS:
            self._machine.move(State.PREPARE_LEAVING)

    def leave(self, future: Completion[Any], operation: LeaveOperation, reason: str) -> None:
        """Send the last heartbeat; done when it is answered, or cannot be sent."""
        self.prepare_to_leave()
        if self.state is State.LEAVING and self._coordinator.known:
            self._leave_futures.append(future)  # the last heartbeat is about to be sent
            return
        if self.state is not State.PREPARE_LEAVING:
            self._end_membership()
            future.complete(None)
            return
        log.info("group %s: leaving: %s", self._context.config.group_id, reason)
        self._machine.move(State.LEAVING)
        self._leave_epoch = epoch_to_leave(operation, static=self._static)
        if self._leave_epoch is None or not self._coordinator.known:
            self._end_membership()
            future.complete(None)
            return
        self._leave_futures.append(future)

    # --- the turn ------------------------------------------------------------------------------

    def poll(self, now_ms: int) -> PollResult:
        """Send the heartbeat that is due, and go on with the target."""
        machine = self._machine
        if machine.state not in IN_GROUP:
            self._maybe_join()
            if machine.state not in IN_GROUP:
                return IDLE
        left_ms = self._timer.left_ms(now_ms)
        if left_ms <= 0 and machine.state in TAKES_TARGETS:
            return self._leave_stale(now_ms)
        if machine.state is State.STABLE and self._reconciliation.check_names():
            self._reconcile()
        if machine.state is State.RECONCILING and not self._full_heartbeat_pending:
            self._reconciliation.step()
        unsent, wait_ms = self._send_if_due(now_ms)
        if 0 < left_ms < wait_ms:
            wait_ms = left_ms
        if self._local_assignment.active and machine.state in TAKES_TARGETS:
            unsent += self._local_assignment.poll(self._coordinator.destination())
        return PollResult(unsent, wait_ms)

    def close(self, now_ms: int) -> PollResult:
        """Send the last heartbeat if it still waits."""
        return self.poll(now_ms) if self.state is State.LEAVING else IDLE

    def _maybe_join(self) -> None:
        if not self._join_wanted or self._callbacks.busy or not self._subscription.resolved:
            return
        if self.state in (State.UNSUBSCRIBED, State.STALE):
            self._start_joining()

    def _start_joining(self) -> None:
        log.info("group %s: joining as %s", self._context.config.group_id, self.member_id)
        self._epoch = JOIN_EPOCH
        self._rejected_instance = None
        self._reconciliation.reset()
        self._local_assignment.forget()
        self._fields.forget()
        self._next_ms = 0
        self._machine.move(State.JOINING)
        self._group.set_state("<rebalancing>")

    # --- heartbeats ----------------------------------------------------------------------------

    def _send_if_due(self, now_ms: int) -> PollResult:
        destination = self._coordinator.destination()
        if destination is None:
            return IDLE  # its discovery wakes the loop
        if self.state is State.LEAVING:
            # Behind the commits: the coordinator would refuse those of a member that has left.
            offsets_destination = self._coordinator.offsets_destination() or destination
            return PollResult((self._final_heartbeat(offsets_destination),))
        wait_ms, state = self._request.wait_ms(now_ms), self._machine.state
        urgent = state in (State.JOINING, State.ACKNOWLEDGING) or self._fields.outdated
        if not urgent:
            wait_ms = max(wait_ms, self._next_ms - now_ms)
        if wait_ms > 0:
            return PollResult(wait_ms=wait_ms)
        if not urgent or not self._local_assignment.described:
            self._local_assignment.describe()
        if not self._local_assignment.described:
            return IDLE  # their answers wake the loop
        return PollResult((self._heartbeat(destination, now_ms),))  # its answer wakes the loop

    def _heartbeat(self, destination: ToNode, now_ms: int) -> UnsentRequest:
        message = self._fields.message(
            self.member_id,
            self._epoch if self._rejected_instance is None else STATIC_LEAVE_EPOCH,
            self._reconciliation.owned,
            self._reconciliation.claimed,
            joining=self.state is State.JOINING,
        )
        self._context.metrics.happened("last-heartbeat-seconds-ago")
        self._full_heartbeat_pending = message.topic_partitions is not None
        self._next_ms = now_ms + self._interval_ms
        if self.state is State.ACKNOWLEDGING:
            settled = self._reconciliation.settled
            self._machine.move(State.STABLE if settled else State.RECONCILING)
            if not settled:
                self._rebalance.begin()
        request = self._context.request(
            message,
            destination,
            on_response=self._handle_response,
            on_error=self._handle_error,
            state=self._request,
        )
        request.keep_alive = self._context.keep_alive(
            self._fields.plain(self.member_id, self._epoch),
            period_ms=self._interval_ms,
            until_ms=now_ms + self._timer.left_ms(now_ms),
            on_response=self._handle_keep_alive,
            on_error=self._handle_keep_alive_error,
        )
        return request

    def _handle_keep_alive(self, message: Any) -> None:
        """Take a response to a heartbeat of the transport, as if we had asked ourselves."""
        if self.state not in TAKES_TARGETS or self.state is State.JOINING:
            return  # of a membership that is over
        if message.error_code:
            raise error_of(message)
        self._apply_response(message)

    def _handle_keep_alive_error(self, error: Exception) -> None:
        self._request.failed(self._context.clock.now_ms())
        self._handle_error(error)

    def _final_heartbeat(self, destination: ToNode) -> UnsentRequest:
        """Sent also while another is in flight; whatever comes of it, we have left."""
        epoch = LEAVE_EPOCH if self._leave_epoch is None else self._leave_epoch
        message = self._fields.message(self.member_id, epoch, self._reconciliation.owned)
        futures, self._leave_futures = self._leave_futures, []
        self._end_membership()

        def done(_: object) -> None:
            for future in futures:
                future.complete(None)

        return self._context.request(message, destination, on_response=done, on_error=done)

    def _handle_response(self, response: ClientResponse) -> None:
        if self.state not in IN_GROUP:
            return  # of a membership that is over
        self._context.metrics.record("heartbeat-latency", response.latency_ms)
        message = response.message
        if message.error_code:
            raise error_of(message)
        self._expedited = self._full_heartbeat_pending = False
        self._interval_ms = max(1, message.heartbeat_interval_ms)
        self._next_ms = self._context.clock.now_ms() + self._interval_ms
        self._apply_response(message)

    def _apply_response(self, message: Any) -> None:
        """Take over epoch and target."""
        if message.member_epoch < 0:
            self._rejected_instance = None  # it was ourselves: now we join
            return
        self._epoch = message.member_epoch
        if self._group.metadata.generation_id != self._epoch:
            self._group.joined(self._epoch, self.member_id)
        if self.state not in TAKES_TARGETS:
            return  # leaving: the epoch counts for commits and heartbeats, the target does not
        self._local_assignment.handle_heartbeat(message)
        if message.assignment is not None:
            self._reconciliation.take_target(message.assignment)
        if not self._reconciliation.settled:
            if self.state is not State.ACKNOWLEDGING:
                self._reconcile()
        elif self.state is State.JOINING:
            self._machine.move(State.STABLE)
            self._group.set_state("<stable>")

    def _reconcile(self) -> None:
        self._machine.move(State.RECONCILING)
        self._group.set_state("<rebalancing>")
        self._rebalance.begin()

    def _acknowledge(self) -> None:
        """A target has been taken over: the next heartbeat, sent at once, says so."""
        if self.state is State.RECONCILING:
            self._machine.move(State.ACKNOWLEDGING)
            self._group.set_state("<stable>")
            self._rebalance.complete()

    # --- errors --------------------------------------------------------------------------------

    def _handle_error(self, error: Exception) -> None:
        if self.state not in IN_GROUP:
            return  # of a membership that is over
        self._fields.forget()
        if isinstance(error, UnsupportedVersionError):
            error = with_advice(error, self._context)
        reaction = reaction_to(GROUP_HEARTBEAT, error)
        error, reaction = self._resolve_instance_conflict(error, reaction)
        if reaction is Reaction.REDISCOVER:
            self._coordinator.mark_unknown(error)
        if reaction in (Reaction.REDISCOVER, Reaction.LOST) and not self._expedited:
            self._expedited = True  # at once, but not again and again
            self._request.reset()
        self._next_ms = 0
        if reaction is Reaction.LOST:
            self._fenced(error)
        elif reaction is Reaction.RAISE:
            self._context.raise_in_poll(error)
        elif reaction is Reaction.FAIL:
            self._fail(error)

    def _resolve_instance_conflict(
        self, error: Exception, reaction: Reaction
    ) -> tuple[Exception, Reaction]:
        """Find out who holds our instance id.

        A static member that is known cannot join, not even the one that is in: the answer to its
        first join may have been lost. So it leaves for a moment, if it is in, and joins.
        """
        if self._rejected_instance is not None and reaction in (Reaction.LOST, Reaction.FAIL):
            rejected, self._rejected_instance = self._rejected_instance, None
            return rejected, Reaction.FAIL
        if isinstance(error, UnreleasedInstanceIdError) and self.state is State.JOINING:
            self._rejected_instance = error
            return error, Reaction.RETRY
        if isinstance(error, GroupIdNotFoundError) and self.state is not State.JOINING:
            return error, Reaction.LOST  # the group went, or became a classic one, without us
        return error, reaction

    def _fail(self, error: Exception) -> None:
        """An error that only the user can mend: every poll raises it until unsubscribe()."""
        if self.state is State.UNSUBSCRIBED and not self._join_wanted:
            return
        if isinstance(error, LOGIN_ERRORS):
            self._context.raise_in_poll(error)  # a rejected log-in may be mended by the next try
            return
        # An expression for the coordinator is nothing that another could do.
        other = self._on_unsupported if self._subscription.regex is None else None
        if isinstance(error, UnsupportedVersionError) and other is not None:
            # Another takes over: nothing that happens later is any business of this one.
            self._join_wanted = False
            self._machine.move(State.FATAL)
            self._end_membership()
            other(error)
            return
        log.error("group %s: cannot be a member: %s", self._context.config.group_id, error)
        self._machine.move(State.FATAL)
        self._rebalance.fail()
        self._group.lost = True
        self._lose_partitions(lambda: None)
        self._context.raise_in_poll(error)
        self._group.fatal = error

    def _fenced(self, why: object) -> None:
        log.warning("group %s: fenced: %s; joining again", self._context.config.group_id, why)
        leaving = self.state in (State.PREPARE_LEAVING, State.LEAVING)
        self._machine.move(State.FENCED)
        self._rebalance.fail()
        if leaving:
            self._end_membership()
            return
        self._group.fenced(self.member_id)
        self._lose_partitions(self._start_joining)

    def _leave_stale(self, now_ms: int) -> PollResult:
        """Leave at once; the partitions are lost when the application polls again."""
        self._timer.log_expiry(now_ms)
        self.prepare_to_leave()
        self._machine.move(State.LEAVING)
        destination = self._coordinator.destination()
        epoch = STATIC_LEAVE_EPOCH if self._static else LEAVE_EPOCH
        message = self._fields.message(self.member_id, epoch, self._reconciliation.owned)
        self._request.reset()  # what is in flight does not count any more
        self._machine.move(State.STALE)
        self._group.left()
        self._fields.forget()
        self._lose_partitions(lambda: None)
        if destination is None:
            return IDLE
        request = self._context.request(
            message, destination, on_response=lambda _: None, on_error=lambda _: None
        )
        return PollResult((request,))

    def _lose_partitions(self, then: Any) -> None:
        """Others may own our partitions already: nothing more of them is handed out."""
        owned = frozenset(self._subscription.assigned)
        for state in self._subscription.assigned.values():
            state.pending_revocation = True

        def lost() -> None:
            self._subscription.set_assigned(())
            then()

        if owned:
            self._callbacks.run(PartitionsLost(owned), lost)
        else:
            self._callbacks.cancel()
            then()

    def _end_membership(self) -> None:
        """Forget the membership."""
        self._group.fatal = None
        if self.state is not State.STALE:
            self._machine.move(State.UNSUBSCRIBED)
        self._reconciliation.reset()
        self._fields.forget()
        self._request.reset()
        self._group.left()
        futures, self._leave_futures = self._leave_futures, []
        for future in futures:
            future.complete(None)
