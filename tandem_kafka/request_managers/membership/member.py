"""What the members of both group protocols have in common."""

from __future__ import annotations

import enum
import logging
from abc import abstractmethod
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Final, Generic, TypeVar

from tandem_kafka.events.background import PartitionsLost
from tandem_kafka.logs import client_logger
from tandem_kafka.network.outages import Outage
from tandem_kafka.request_managers.context import ManagerContext
from tandem_kafka.request_managers.coordinator_request_manager import CoordinatorRequestManager
from tandem_kafka.request_managers.membership.interface import Membership
from tandem_kafka.request_managers.membership.timers import PollTimer, RebalanceTimer
from tandem_kafka.state.state_machine import StateMachine

log = client_logger(__name__)

S = TypeVar("S", bound=enum.Enum)

#: A member that stays for longer is removed for a new reason. Shorter than a usual session.
APART_MS: Final = 30_000


class Removals:
    """Logs removals within bounds, and makes a member that is removed again and again wait."""

    def __init__(self, context: ManagerContext) -> None:
        self._context = context
        self._outage, self._backoff = Outage(), context.backoff()
        self._last_ms = -APART_MS

    def removed(self, why: object) -> int:
        """Log a removal; return when the member may join again, in ms: at once after the first."""
        now_ms = self._context.clock.now_ms()
        again, self._last_ms = now_ms - self._last_ms < APART_MS, now_ms
        if not again:
            self._outage, self._backoff = Outage(), self._context.backoff()
        self._context.group.removed_again = (now_ms, str(why)) if again else None
        level = logging.WARNING if self._outage.failed(now_ms) else logging.DEBUG
        log.log(
            level,
            "group %s: the coordinator removed this member: %s (removals in a row: %d)",
            self._context.config.group_id,
            why,
            self._outage.failures,
        )
        return self._backoff.next_ms() if again else 0


class Member(Membership, Generic[S]):
    """One member of a group, which joins when the application polls."""

    def __init__(
        self,
        context: ManagerContext,
        coordinator: CoordinatorRequestManager,
        initial: S,
        transitions: Mapping[S, AbstractSet[S]],
    ) -> None:
        super().__init__(context)
        self._coordinator = coordinator
        self._machine = StateMachine(initial, transitions)
        self._timer = PollTimer(context)
        self._rebalance = RebalanceTimer(context)
        self._removals = Removals(context)
        self._join_wanted = False
        coordinator.on_fatal(self._coordinator_failed)

    @property
    def state(self) -> S:
        """The state of the member."""
        return self._machine.state

    def application_polled(self) -> None:
        """Join, rejoin or run a failed callback again."""
        if self._group.fatal is None:
            self._callbacks.retry()
            self._join_wanted = True

    def prepare_to_leave(self) -> None:
        """Keep sending heartbeats while the listener runs."""
        self._callbacks.cancel()
        self._rebalance.fail()
        self._join_wanted = False  # until the application polls
        self._context.polls.event_needed = True

    @abstractmethod
    def _coordinator_failed(self, error: Exception) -> None:
        """Raise an error of a search for the coordinator, which continues."""

    def _lose_partitions(self, then: Callable[[], None]) -> None:
        """Return no more records of the partitions, because others may own them already."""
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
