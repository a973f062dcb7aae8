"""The objects that all request managers share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tandem_kafka.config import Config
from tandem_kafka.dataclass import dataclass, field
from tandem_kafka.errors import TopicsDeniedError
from tandem_kafka.events.background import ErrorEvent
from tandem_kafka.events.queues import BackgroundEventQueue
from tandem_kafka.metrics import ConsumerMetrics
from tandem_kafka.network.backoff import FOREVER_MS, Backoff
from tandem_kafka.network.request import (
    ClientResponse,
    Destination,
    KeepAlive,
    ToNode,
    UnsentRequest,
)
from tandem_kafka.request_managers.base import RequestState
from tandem_kafka.request_managers.exchange import Exchange, OutcomeHandler
from tandem_kafka.request_managers.user_code import InlineUserCode, UserCode
from tandem_kafka.runtime import Clock, Random
from tandem_kafka.state.failures import Failures
from tandem_kafka.state.fetch_buffer import FetchBuffer
from tandem_kafka.state.group import GroupIdentity
from tandem_kafka.state.metadata import ClusterMetadata
from tandem_kafka.state.partition import AssignedPartition, Position
from tandem_kafka.state.polls import Polls
from tandem_kafka.state.subscription import SubscriptionState
from tandem_kafka.state.topic_troubles import TopicTroubles

if TYPE_CHECKING:
    from tandem_kafka._native import Notifier


MIN_PAUSE_MS = 50


def due_for_retry(
    states: Sequence[AssignedPartition], now_ms: int
) -> tuple[list[AssignedPartition], int]:
    """Return the partitions whose pauses are over, and when the next one is (see `retry_later`)."""
    due = [state for state in states if state.retry_at_ms <= now_ms]
    pauses = (state.retry_at_ms - now_ms for state in states)
    return due, min((pause_ms for pause_ms in pauses if pause_ms > 0), default=FOREVER_MS)


@dataclass(frozen=True)
class ManagerContext:
    """Configuration, clock, random numbers and state that managers share."""

    config: Config
    clock: Clock
    random: Random
    metadata: ClusterMetadata
    subscription: SubscriptionState
    buffer: FetchBuffer
    group: GroupIdentity
    background: BackgroundEventQueue
    metrics: ConsumerMetrics
    polls: Polls = field(default_factory=Polls)
    topic_troubles: TopicTroubles = field(default_factory=TopicTroubles)
    failures: Failures = field(default_factory=Failures)
    user_code: UserCode = field(default_factory=InlineUserCode)
    #: What a standing fetch notifies to wake the application; None if it cannot.
    notifier: Notifier | None = None

    @property
    def read_committed(self) -> bool:
        """True if records of open and aborted transactions are skipped."""
        return self.config.isolation_level == "read_committed"

    @property
    def retry_pause_ms(self) -> int:
        """The pause before a single partition is retried; long enough to prevent spinning."""
        return max(self.config.retry_backoff_ms, MIN_PAUSE_MS)

    def retry_later(self, state: AssignedPartition, *, at_once_first: bool = False) -> None:
        """Note that a request failed for a partition: it is asked for after a pause that grows.

        All requests of a partition wait, until a fetch of it succeeds or it gets a position.

        Args:
            state: The partition.
            at_once_first: Whether the first failure in a row has no pause.
        """
        failures = state.failures
        state.failures += 1
        if not (at_once_first and not failures):
            state.retry_at_ms = self.clock.now_ms() + self.pause_ms(failures)

    def pause_ms(self, failures: int) -> int:
        """Return the pause of a single partition after so many failures before the last one."""
        return max(MIN_PAUSE_MS, self.backoff().after_ms(failures))

    def backoff(self) -> Backoff:
        """Return a backoff for one kind of request."""
        config = self.config
        return Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms, self.random)

    def request_state(self) -> RequestState:
        """Return the state of one kind of request."""
        return RequestState(self.backoff())

    def request(  # noqa: PLR0913 - all keyword-only but two
        self,
        message: Any,
        destination: Destination,
        *,
        on_response: Callable[[ClientResponse], Exception | None],
        on_error: Callable[[Exception], None],
        state: RequestState | None = None,
        decode: Callable[[memoryview, int], Any] | None = None,
        timeout_ms: int | None = None,
        held_ms: int | None = 0,
        on_late: Callable[[ClientResponse], None] = lambda _: None,
    ) -> UnsentRequest:
        """Create a request whose outcome goes to `on_response` or `on_error` (see `Exchange`)."""
        timeout_ms = self.config.request_timeout_ms if timeout_ms is None else timeout_ms
        deadline_ms = self.clock.now_ms() + timeout_ms
        request = UnsentRequest(
            message, destination, deadline_ms, timeout_ms, decode=decode, held_ms=held_ms
        )
        node_id = destination.node.node_id if isinstance(destination, ToNode) else -1
        outcomes = self._outcomes(message.name, node_id, on_error)
        request.future.then(Exchange(outcomes, on_response, self.clock, state, on_late).arrived)
        return request

    def keep_alive(
        self,
        message: Any,
        *,
        period_ms: int,
        until_ms: int,
        on_response: Callable[[Any], Exception | None],
        on_error: Callable[[Exception], None],
    ) -> KeepAlive:
        """Create a heartbeat that the transport may send by itself (see `KeepAlive`)."""
        coordinator = self.group.coordinator
        node_id = -1 if coordinator is None else coordinator.node_id
        outcomes = self._outcomes(message.name, node_id, on_error)

        def heard(response: Any) -> None:
            error = outcomes.run(lambda: on_response(response))
            if error is not None:
                outcomes.fail(error)

        return KeepAlive(message, period_ms, until_ms, heard)

    def _outcomes(
        self, name: str, node_id: int, on_error: Callable[[Exception], None]
    ) -> OutcomeHandler:
        api, failures, clock = name.removesuffix("Request"), self.failures, self.clock

        def note(error: Exception | None) -> bool:
            if error is None:
                failures.succeeded(api, node_id)
                return False
            return failures.failed(api, node_id, error, clock.now_ms())

        return OutcomeHandler(name, on_error, self.raise_in_poll, note)

    def raise_in_poll(
        self,
        error: Exception,
        about: Iterable[tuple[AssignedPartition, Position | None]] = (),
        topics: Iterable[str] | None = None,
        *,
        of_membership: bool = False,
    ) -> None:
        """Raise an error in the next poll(), unless what it concerns has changed until then.

        Args:
            error: The error.
            about: See `ErrorEvent`.
            topics: See `ErrorEvent`; None for those that a `TopicsDeniedError` names.
            of_membership: Whether it ends with the subscription, because the next one joins anew.
        """
        if topics is None:
            topics = error.args[0] if isinstance(error, TopicsDeniedError) else ()
        # An application that polls again after the error expects a retry.
        self.polls.event_needed = True
        subscription = self.subscription.number if of_membership else None
        self.background.add_error(ErrorEvent(error, tuple(about), frozenset(topics), subscription))
