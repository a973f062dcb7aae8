"""The interface of a membership, independent of the group protocol."""

from __future__ import annotations

from typing import Any, Protocol

from tandem_kafka.events.completable import Completion
from tandem_kafka.request_managers.base import PollResult
from tandem_kafka.types import LeaveOperation


class Membership(Protocol):
    """A request manager that keeps the consumer in the group. Network thread only."""

    @property
    def resolves_regex(self) -> bool:
        """Whether the coordinator can match a `SubscriptionPattern`."""
        ...

    def application_polled(self) -> None:
        """Join, rejoin or run failed callbacks again, because the application is in poll()."""
        ...

    def subscription_changed(self) -> None:
        """Note that topics or pattern have changed; takes effect when the application polls."""
        ...

    def prepare_to_leave(self) -> None:
        """Ignore new assignments, because the application starts to leave."""
        ...

    def leave(self, future: Completion[Any], operation: LeaveOperation, reason: str) -> None:
        """Leave the group; complete the future whatever the outcome."""
        ...

    def callback_completed(self, number: int, error: Exception | None) -> None:
        """Process the outcome of a rebalance callback."""
        ...

    def commit_rejected(self, error: Exception) -> None:
        """End the membership: the coordinator rejected a commit, because it removed the member."""
        ...

    def enforce_rebalance(self, reason: str) -> None:
        """Ask the group to rebalance, if the protocol supports it."""
        ...

    def poll(self, now_ms: int) -> PollResult:
        """Return the requests to send now."""
        ...

    def close(self, now_ms: int) -> PollResult:
        """Return the final requests."""
        ...
