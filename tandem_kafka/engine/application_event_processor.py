"""Processes each application event once, on the network thread."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import assert_never

from tandem_kafka.errors import (
    IllegalStateError,
    KafkaError,
    KafkaTimeoutError,
    NoGroupError,
    UnsupportedVersionError,
)
from tandem_kafka.events import application as events
from tandem_kafka.logs import client_logger
from tandem_kafka.request_managers.context import ManagerContext
from tandem_kafka.request_managers.exchange import internal_error
from tandem_kafka.request_managers.managers import GroupManagers, RequestManagers
from tandem_kafka.request_managers.offsets_request_manager import LATEST
from tandem_kafka.types import OffsetAndTimestamp, TopicPartition

log = client_logger(__name__)


class EventProcessor(ABC):
    """Passes each event on to the request manager that handles it."""

    def process(self, event: events.ApplicationEvent) -> None:
        """Process an event; an error fails its future."""
        try:
            self._dispatch(event)
        except KafkaError as error:
            event.future.fail(error)
        except Exception as error:
            log.exception(
                "%s failed on the network thread because of a defect in tandem-kafka; please "
                "report it",
                event.operation,
            )
            event.future.fail(internal_error(error))

    @staticmethod
    def _withdraw(event: events.Withdraw) -> None:
        """Fail an event whose caller has ended its wait: managers drop what is done."""
        asked = event.event
        asked.future.fail(KafkaTimeoutError(f"{asked.operation} was interrupted"))
        event.future.complete(None)

    @abstractmethod
    def _dispatch(self, event: events.ApplicationEvent) -> None:
        """Handle an event by its type."""


class ApplicationEventProcessor(EventProcessor):
    """Passes each event on to the request manager that handles it."""

    def __init__(self, context: ManagerContext, managers: RequestManagers) -> None:
        self._context = context
        self._subscription = context.subscription
        self._managers = managers

    def _dispatch(self, event: events.ApplicationEvent) -> None:  # noqa: C901, PLR0912, PLR0915
        """Handle an event by its type; mypy checks that no type is missing."""
        managers = self._managers
        match event:
            case events.Withdraw():
                self._withdraw(event)
            case events.Poll():
                self._poll(event)
            case events.AutoCommit():
                self._group.commit.auto_commit(event)
            case events.CommitSync():
                self._group.commit.commit(event)
            case events.CommitAsync():
                self._group.commit.commit(event)
            case events.FetchCommitted():
                self._group.committed.look_up(event.partitions, event.future, event.last_errors)
            case events.ListOffsets():
                managers.list_offsets.collect(event.timestamps, event.future, event.last_errors)
            case events.UpdatePositions():
                managers.validation.application_polled()
                managers.positions.wait_for(event)
            case events.Seek():
                managers.positions.seek(
                    event.partition, event.offset, event.leader_epoch, event.topic_id
                )
                event.future.complete(None)
            case events.StopAt():
                self._subscription.get(event.partition).stop_at = event.offset
                event.future.complete(None)
            case events.ResetOffsets():
                managers.positions.reset(event.partitions, event.timestamp)
                event.future.complete(None)
            case events.Assign():
                self._assign(event)
            case events.Subscribe():
                self._subscribe(event)
            case events.SubscribePattern():
                self._subscription.subscribe_pattern(event.pattern)
                managers.metadata.request_update(at_once=True)
                self._notify_membership()
                event.future.complete(None)
            case events.SubscribeRegex():
                self._subscribe_regex(event)
            case events.Unsubscribe():
                self._subscription.unsubscribe()
                self._context.failures.forget()
                if managers.group is not None:
                    managers.group.coordinator.stop_looking()
                event.future.complete(None)
            case events.PrepareToLeave():
                self._managers.membership.prepare_to_leave()
                event.future.complete(None)
            case events.LeaveGroup():
                self._context.group.forget()
                self._managers.membership.leave(event.future, event.leave, event.reason)
            case events.Pause():
                self._set_paused(event)
            case events.DropReadAhead():
                self._drop_read_ahead(event.partitions)
                event.future.complete(None)
            case events.CurrentLag():
                event.future.complete(self._lag(event.partition))
            case events.PartitionsForTopic() | events.ListTopics():
                managers.topic_metadata.look_up(event)
            case events.GetClientInstanceId():
                managers.telemetry.await_client_instance_id(event.future)
            case events.Bootstrap():
                managers.metadata.request_update(at_once=True)
                managers.metadata.wait_for_answer(event.future, refresh=event.refresh)
            case events.EnforceRebalance():
                self._managers.membership.enforce_rebalance(event.reason)
                event.future.complete(None)
            case events.ApplyAssignment():
                self._apply_assignment(event)
            case events.CallbackCompleted():
                self._managers.membership.callback_completed(event.number, event.error)
                event.future.complete(None)
            case events.DrainCommits():
                if managers.group is not None:
                    managers.group.commit.drain()
                event.future.complete(None)
            case events.Close():
                event.future.complete(None)  # the loop handles it
            case events.Acknowledge() | events.CommitAcknowledgements():
                msg = f"{event.operation} needs a share group, which this consumer does not have"
                raise IllegalStateError(msg)
            case _:
                assert_never(event)

    @property
    def _group(self) -> GroupManagers:
        group = self._managers.group
        if group is None:
            msg = "the consumer has no group_id; create it with group_id=... to commit offsets"
            raise NoGroupError(msg)
        return group

    def _poll(self, event: events.Poll) -> None:
        managers = self._managers
        # Reset first: the calls below set it again if they wait for the next poll().
        self._context.polls.event_needed = False
        if self._subscription.auto_assigned:
            managers.membership.application_polled()
        managers.validation.application_polled()
        managers.positions.start_lookups()
        event.future.complete(None)

    def _assign(self, event: events.Assign) -> None:
        known = self._subscription.topics_of_interest()
        self._subscription.assign_by_user(event.partitions)
        if not self._subscription.topics_of_interest() <= known:
            self._managers.metadata.request_update()
        event.future.complete(None)

    def _subscribe(self, event: events.Subscribe) -> None:
        changed = self._subscription.subscribe(event.topics)
        if changed:
            self._managers.metadata.request_update()
        self._notify_membership()
        event.future.complete(None)

    def _subscribe_regex(self, event: events.SubscribeRegex) -> None:
        membership = self._managers.membership
        if not membership.resolves_regex:
            msg = (
                "SubscriptionPattern needs KIP-848, but group_protocol='auto' has chosen the "
                "classic protocol because the cluster did not support KIP-848; subscribe to topic "
                "names or to a str or re.Pattern"
            )
            raise UnsupportedVersionError(msg)
        self._subscription.subscribe_regex(event.regex)
        self._notify_membership()
        event.future.complete(None)

    def _notify_membership(self) -> None:
        """Notify the membership; a consumer that is not a member joins on the next poll()."""
        self._context.polls.event_needed = True
        self._managers.membership.subscription_changed()

    def _apply_assignment(self, event: events.ApplyAssignment) -> None:
        if event.number != self._context.group.callback:
            event.future.complete(False)  # cancelled; another rebalance event follows
            return
        known = self._subscription.assigned
        self._subscription.set_assigned(sorted(event.partitions))
        for tp, state in self._subscription.assigned.items():
            if tp not in known:
                state.awaiting_callback = True
        if (
            not self._subscription.topics_of_interest()
            <= self._context.metadata.snapshot.topics.keys()
        ):
            self._managers.metadata.request_update()
        event.future.complete(True)

    def _set_paused(self, event: events.Pause) -> None:
        # Sorted, so that a simulated run does not depend on the order of a set.
        states = [self._subscription.get(tp) for tp in sorted(event.partitions)]
        for state in states:
            if event.by_workers:
                state.paused_by_workers = event.paused
            else:
                state.paused = event.paused
        event.future.complete(None)

    def _drop_read_ahead(self, partitions: frozenset[TopicPartition]) -> None:
        subscription = self._subscription
        again = subscription.to_fetch_again()
        for tp in partitions:
            state = subscription.assigned.get(tp)
            if state is not None and (state.on_hold or tp in again):
                state.drop_read_ahead()
        subscription.awaiting_drop = again - partitions

    def _lag(self, tp: TopicPartition) -> int | None:
        """Return end minus position; if the end is unknown, start a lookup for a later call."""
        state = self._subscription.get(tp)
        position = state.position
        end = state.end(read_committed=self._context.read_committed)
        if position is None:
            return None
        if end >= 0:
            return max(0, end - position.offset)
        if not state.end_offset_asked:
            state.end_offset_asked = True

            def take(_: TopicPartition, found: OffsetAndTimestamp | None) -> None:
                if found is not None:
                    state.high_watermark = max(state.high_watermark, found.offset)
                    state.last_stable_offset = max(state.last_stable_offset, found.offset)
                state.end_offset_asked = False

            def failed(_: BaseException) -> None:
                state.end_offset_asked = False

            alive = lambda: self._subscription.assigned.get(tp) is state  # noqa: E731
            self._managers.list_offsets.look_up({tp: LATEST}, take, failed, alive)
        return None
