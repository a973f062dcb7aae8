"""What every request manager is built with."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from tandem_kafka.config import Config
from tandem_kafka.events.background import ErrorEvent
from tandem_kafka.events.queues import BackgroundQueue
from tandem_kafka.metrics import ConsumerMetrics
from tandem_kafka.network.backoff import Backoff
from tandem_kafka.network.request import ClientResponse, Destination, KeepAlive, UnsentRequest
from tandem_kafka.request_managers.base import RequestState
from tandem_kafka.request_managers.exchange import Exchange, OutcomeHandler
from tandem_kafka.request_managers.user_code import InlineUserCode, UserCode
from tandem_kafka.runtime import Clock, Random
from tandem_kafka.shared.fetch_buffer import FetchBuffer
from tandem_kafka.shared.group import GroupIdentity
from tandem_kafka.shared.metadata import ClusterMetadata
from tandem_kafka.shared.partition import AssignedPartition, Position
from tandem_kafka.shared.polls import Polls
from tandem_kafka.shared.subscription import SubscriptionState

__all__ = ["ManagerContext"]

MIN_PAUSE_MS = 50


@dataclass(frozen=True, slots=True)
class ManagerContext:
    """Configuration, time, chance and the state that managers share on the network thread."""

    config: Config
    clock: Clock
    random: Random
    metadata: ClusterMetadata
    subscription: SubscriptionState
    buffer: FetchBuffer
    group: GroupIdentity
    background: BackgroundQueue
    metrics: ConsumerMetrics
    polls: Polls = field(default_factory=Polls)
    user_code: UserCode = field(default_factory=InlineUserCode)

    @property
    def read_committed(self) -> bool:
        """True when records of open and aborted transactions are left out."""
        return self.config.isolation_level == "read_committed"

    @property
    def retry_pause_ms(self) -> int:
        """Pause before one thing of many is tried again; never so short that it would spin."""
        return max(self.config.retry_backoff_ms, MIN_PAUSE_MS)

    def backoff(self) -> Backoff:
        """Return a back-off between retries of one kind of request."""
        config = self.config
        return Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms, self.random)

    def request_state(self) -> RequestState:
        """Return the state of one kind of request."""
        return RequestState(self.backoff())

    def request(  # noqa: PLR0913 - a request has that many sides
        self,
        message: Any,
        destination: Destination,
        *,
        on_response: Callable[[ClientResponse], None],
        on_error: Callable[[Exception], None],
        state: RequestState | None = None,
        decode: Callable[[memoryview, int], Any] | None = None,
        timeout_ms: int | None = None,
        held_ms: int | None = 0,
    ) -> UnsentRequest:
        """Make a request whose outcome comes to `on_response` or `on_error` (see `Exchange`)."""
        timeout_ms = self.config.request_timeout_ms if timeout_ms is None else timeout_ms
        deadline_ms = self.clock.now_ms() + timeout_ms
        request = UnsentRequest(
            message, destination, deadline_ms, timeout_ms, decode=decode, held_ms=held_ms
        )
        outcomes = OutcomeHandler(message.name, on_error, self.raise_in_poll)
        request.future.then(Exchange(outcomes, on_response, self.clock, state).arrived)
        return request

    def keep_alive(
        self,
        message: Any,
        *,
        period_ms: int,
        until_ms: int,
        on_response: Callable[[Any], None],
        on_error: Callable[[Exception], None],
    ) -> KeepAlive:
        """Make a heartbeat that the transport sends by itself; its responses come likewise."""
        outcomes = OutcomeHandler(message.name, on_error, self.raise_in_poll)

        def heard(response: Any) -> None:
            error = outcomes.run(lambda: on_response(response))
            if error is not None:
                outcomes.fail(error)

        return KeepAlive(message, period_ms, until_ms, heard)

    def raise_in_poll(
        self, error: Exception, about: Iterable[tuple[AssignedPartition, Position]] = ()
    ) -> None:
        """Have the next poll() raise this, unless it is about positions sought elsewhere."""
        # Who was told of it and polls all the same wants it tried again.
        self.polls.event_needed = True
        self.background.add_error(ErrorEvent(error, tuple(about)))
