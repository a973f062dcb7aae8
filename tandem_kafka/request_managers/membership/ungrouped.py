"""Subscribing without a group: every partition of the subscribed topics is ours."""

# ruff: noqa: ARG002 - what a group would be told, nobody is

from __future__ import annotations

import logging
from typing import Any

from tandem_kafka.events.background import PartitionsAssigned, PartitionsRevoked
from tandem_kafka.events.completable import Completion
from tandem_kafka.request_managers.base import IDLE, PollResult
from tandem_kafka.request_managers.context import ManagerContext
from tandem_kafka.request_managers.membership.callbacks import CallbackRunner
from tandem_kafka.types import LeaveOperation, TopicPartition, named

__all__ = ["UngroupedMembership"]

log = logging.getLogger(__name__)


class UngroupedMembership:
    """Follows the metadata of the subscribed topics, as kafka-python does without a `group_id`.

    The assignment changes inside poll(), with the listener's calls, as that of a group does. A
    partition keeps its place while the metadata do not show its topic: a broker that has just
    started may not know it yet, and a new start would leave records out.
    """

    def __init__(self, context: ManagerContext) -> None:
        self._subscription = context.subscription
        self._cluster = context.metadata
        self._callbacks = CallbackRunner(context.background, context.group, context.polls)
        self._leaving = False

    @property
    def resolves_regex(self) -> bool:
        """There is no coordinator that could."""
        return False

    def application_polled(self) -> None:
        """Call again what failed."""
        self._callbacks.retry()

    def subscription_changed(self) -> None:
        """Follow other topics from the next turn on."""
        self._leaving = False

    def prepare_to_leave(self) -> None:
        """Assign nothing any more."""
        self._leaving = True
        self._callbacks.cancel()

    def leave(self, future: Completion[Any], operation: LeaveOperation, reason: str) -> None:
        """Nobody needs to be told."""
        self._subscription.set_assigned(())
        future.complete(None)

    def callback_completed(self, number: int, error: Exception | None) -> None:
        """The application thread has run a rebalance callback."""
        self._callbacks.completed(number, error)

    def commit_rejected(self, error: Exception) -> None:
        """There are no commits."""

    def enforce_rebalance(self, reason: str) -> None:
        """There is nobody to share with."""

    def poll(self, now_ms: int) -> PollResult:
        """Have the application take over what has come, and give back what is gone."""
        if not self._leaving and not self._callbacks.busy and self._subscription.auto_assigned:
            self._reconcile()
        return IDLE

    def close(self, now_ms: int) -> PollResult:
        """There is nothing to send."""
        return IDLE

    def _reconcile(self) -> None:
        owned = frozenset(self._subscription.assigned)
        target = self._target(owned)
        if gone := owned - target:
            log.info("no longer subscribed to %s", named(gone))
            event = PartitionsRevoked(gone)
            self._callbacks.run(event, lambda: self._subscription.set_assigned(owned & target))
        elif new := target - owned:
            log.info("assigned without a group: %s", named(new))
            self._callbacks.run(PartitionsAssigned(target, new), self._start_fetching)

    def _start_fetching(self) -> None:
        """Hand out records of what the listener has heard of."""
        for state in self._subscription.assigned.values():
            state.awaiting_callback = False

    def _target(self, owned: frozenset[TopicPartition]) -> frozenset[TopicPartition]:
        subscription, topics = self._subscription, self._cluster.snapshot.topics
        if not subscription.resolved:
            return owned
        existing = {
            TopicPartition(name, partition)
            for name in subscription.topics
            if name in topics
            for partition in topics[name].partitions
        }
        return frozenset(existing | {tp for tp in owned if tp.topic in subscription.topics})
