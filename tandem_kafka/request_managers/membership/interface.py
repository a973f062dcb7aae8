"""What the rest of the consumer asks of a membership, whichever protocol it speaks."""

from __future__ import annotations

from typing import Any, Protocol

from tandem_kafka.events.completable import Completion
from tandem_kafka.request_managers.base import PollResult
from tandem_kafka.types import LeaveOperation

__all__ = ["Membership"]


class Membership(Protocol):
    """A request manager that keeps us in the group. Network thread only."""

    @property
    def resolves_regex(self) -> bool:
        """Whether the coordinator can be left to match a pattern."""
        ...

    def application_polled(self) -> None:
        """The application is inside poll(): join, join again, call again what failed."""
        ...

    def subscription_changed(self) -> None:
        """Topics or pattern were set anew; takes effect when the application polls."""
        ...

    def prepare_to_leave(self) -> None:
        """The application begins to leave: no new assignment is taken any more."""
        ...

    def leave(self, future: Completion[Any], operation: LeaveOperation, reason: str) -> None:
        """Leave the group; the future ends whatever comes of the request."""
        ...

    def callback_completed(self, number: int, error: Exception | None) -> None:
        """The application thread has run a rebalance callback."""
        ...

    def commit_rejected(self, error: Exception) -> None:
        """The coordinator refused a commit of this member, which it does not know any more."""
        ...

    def enforce_rebalance(self, reason: str) -> None:
        """Have the group rebalance, where the protocol knows such a thing."""
        ...

    def poll(self, now_ms: int) -> PollResult:
        """One turn."""
        ...

    def close(self, now_ms: int) -> PollResult:
        """The last turn."""
        ...
