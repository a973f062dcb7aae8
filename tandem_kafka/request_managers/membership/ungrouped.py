"""Subscription without a group: all partitions of the topics are assigned to this consumer."""

# ruff: noqa: ARG002 - without a group, some arguments of the interface have no use

from __future__ import annotations

from typing import Any

from tandem_kafka.events.background import PartitionsAssigned, PartitionsRevoked
from tandem_kafka.events.completable import Completion
from tandem_kafka.logs import client_logger
from tandem_kafka.request_managers.base import IDLE, PollResult
from tandem_kafka.request_managers.context import ManagerContext
from tandem_kafka.request_managers.membership.interface import Membership
from tandem_kafka.types import LeaveOperation, TopicPartition, names_of

log = client_logger(__name__)


class UngroupedMembership(Membership):
    """Assigns all partitions of the subscribed topics, as kafka-python does without a `group_id`.

    As in a group, the assignment changes inside poll(), with calls of the listener. Invariant: a
    partition stays assigned while the metadata do not contain its topic. A broker that has just
    started may not know the topic yet, and a new start by the reset policy would skip records.
    """

    def __init__(self, context: ManagerContext) -> None:
        super().__init__(context)
        self._cluster = context.metadata
        self._leaving = False

    def application_polled(self) -> None:
        """Run a failed callback again."""
        self._callbacks.retry()

    def subscription_changed(self) -> None:
        """Assign the new topics from the next iteration on."""
        self._leaving = False

    def prepare_to_leave(self) -> None:
        """Stop assigning partitions."""
        self._leaving = True
        self._callbacks.cancel()

    def leave(self, future: Completion[Any], operation: LeaveOperation, reason: str) -> None:
        """End the assignment; there is no coordinator to notify."""
        self._subscription.set_assigned(())
        future.complete(None)

    def commit_rejected(self, error: Exception) -> None:
        """Do nothing: without a group, there are no commits."""

    def enforce_rebalance(self, reason: str) -> None:
        """Do nothing: there are no other members."""

    def poll(self, now_ms: int) -> PollResult:
        """Start the callbacks for new and unsubscribed partitions."""
        if not self._leaving and not self._callbacks.busy and self._subscription.auto_assigned:
            self._reconcile()
        return IDLE

    def _reconcile(self) -> None:
        owned = frozenset(self._subscription.assigned)
        target = self._target(owned)
        if gone := owned - target:
            log.info("releasing %s, which are no longer subscribed", names_of(gone))
            event = PartitionsRevoked(gone)
            self._callbacks.run(event, lambda: self._subscription.set_assigned(owned & target))
        elif new := target - owned:
            log.info("assigning %s without a group", names_of(new))
            self._callbacks.run(PartitionsAssigned(target, new), self._start_fetching)

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
