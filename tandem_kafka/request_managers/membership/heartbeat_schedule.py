"""When the next heartbeat of a member is due: at an interval, at once, or soon after a failure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kafka.errors import GroupIdNotFoundError

from tandem_kafka.errors import UnexpectedResponseError
from tandem_kafka.events.completable import Completion
from tandem_kafka.network.request import ToNode, UnsentRequest
from tandem_kafka.request_managers.context import MIN_PAUSE_MS, ManagerContext
from tandem_kafka.request_managers.coordinator_request_manager import CoordinatorRequestManager
from tandem_kafka.request_managers.reactions import GROUP_HEARTBEAT, Reaction, reaction_to


class HeartbeatSchedule:
    """One heartbeat is in flight at a time.

    Attributes:
        request: Whether one is in flight, and the backoff after a failure.
        interval_ms: The time between two.
    """

    def __init__(self, context: ManagerContext, interval_ms: int = 0) -> None:
        self._context = context
        self.request = context.request_state()
        self.interval_ms = interval_ms
        self._next_ms = 0
        #: Whether one was sent without a backoff since the last success.
        self._expedited = False

    def due(self, in_ms: int = 0) -> None:
        """Let the next one be due after a time."""
        self._next_ms = self._context.clock.now_ms() + in_ms

    def wait_ms(self, now_ms: int, *, urgent: bool = False) -> int:
        """Return the time until the next one; one that is urgent waits for no interval."""
        wait_ms = self.request.wait_ms(now_ms)
        return wait_ms if urgent else max(wait_ms, self._next_ms - now_ms)

    def sent(self, now_ms: int) -> None:
        """Note that one is sent."""
        self._context.metrics.happened("last-heartbeat-seconds-ago")
        self._next_ms = now_ms + self.interval_ms

    def accepted(self) -> None:
        """Note that the coordinator accepted one, and keeps this member in the group."""
        self._context.metrics.happened("last-heartbeat-accepted-seconds-ago")

    def answered(self, interval_ms: int) -> None:
        """Note that the coordinator accepted one, and named an interval."""
        self.accepted()
        self._expedited = False
        # Invariant: what a broker names has a lower bound, or a wrong one would make this spin.
        self.interval_ms = max(MIN_PAUSE_MS, interval_ms)
        self.due(self.interval_ms)

    def failed(
        self, error: Exception, reaction: Reaction, coordinator: CoordinatorRequestManager
    ) -> None:
        """Note that one failed: the next is due, and the first one comes without a backoff."""
        if reaction is Reaction.REDISCOVER:
            coordinator.mark_unknown(error)
        if reaction in (Reaction.REDISCOVER, Reaction.LOST) and not self._expedited:
            self._expedited = True
            self.request.reset()
        self.due()


def check_epoch(epoch: int) -> None:
    """Check the epoch of a member that the coordinator has accepted.

    Raises:
        UnexpectedResponseError: It is the one of a member outside of the group.
    """
    if epoch <= 0:
        raise UnexpectedResponseError(f"the coordinator accepted a member with the epoch {epoch}")


def heartbeat_reaction(error: Exception, *, joining: bool) -> Reaction:
    """Return the reaction to the error of a heartbeat."""
    if isinstance(error, GroupIdNotFoundError):
        # It was deleted, or is one of another kind, which no member of this kind may join.
        return Reaction.FAIL if joining else Reaction.LOST
    return reaction_to(GROUP_HEARTBEAT, error)


def final_heartbeat(
    context: ManagerContext,
    message: Any,
    destination: ToNode,
    futures: Sequence[Completion[Any]] = (),
) -> UnsentRequest:
    """Return the last heartbeat of a member, which has left whatever the outcome."""

    def done(_: object) -> None:
        for future in futures:
            future.complete(None)

    return context.request(message, destination, on_response=done, on_error=done)
