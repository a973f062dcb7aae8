"""The interface of a membership, independent of the group protocol."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from tandem_kafka.events.completable import Completion
from tandem_kafka.request_managers.base import RequestManager
from tandem_kafka.request_managers.context import ManagerContext
from tandem_kafka.request_managers.membership.callbacks import CallbackRunner
from tandem_kafka.types import LeaveOperation


class Membership(RequestManager, ABC):
    """A request manager that keeps the consumer in the group. Network thread only."""

    #: Whether the coordinator can match a `SubscriptionPattern`.
    resolves_regex = False

    def __init__(self, context: ManagerContext) -> None:
        self._context = context
        self._group = context.group
        self._subscription = context.subscription
        self._callbacks = CallbackRunner(context.background, context.group, context.polls)

    @abstractmethod
    def application_polled(self) -> None:
        """Join, rejoin or run failed callbacks again, because the application is in poll()."""

    @abstractmethod
    def subscription_changed(self) -> None:
        """Note that topics or pattern have changed; takes effect when the application polls."""

    @abstractmethod
    def prepare_to_leave(self) -> None:
        """Ignore new assignments, because the application starts to leave."""

    @abstractmethod
    def leave(self, future: Completion[Any], operation: LeaveOperation, reason: str) -> None:
        """Leave the group; complete the future whatever the outcome."""

    @abstractmethod
    def commit_rejected(self, error: Exception) -> None:
        """End the membership: the coordinator rejected a commit, because it removed the member."""

    @abstractmethod
    def enforce_rebalance(self, reason: str) -> None:
        """Ask the group to rebalance, if the protocol supports it."""

    def callback_completed(self, number: int, error: Exception | None) -> None:
        """Process the outcome of a rebalance callback."""
        self._callbacks.completed(number, error)

    def _start_fetching(self) -> None:
        """Allow fetches, after the listener has been called."""
        for state in self._subscription.assigned.values():
            state.awaiting_callback = False
