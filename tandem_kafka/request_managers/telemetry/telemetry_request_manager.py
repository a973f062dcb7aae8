"""Requests the subscription of a broker to metrics, and pushes them to it (KIP-714)."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

from tandem_kafka.dataclass import dataclass
from tandem_kafka.errors import UnexpectedResponseError, for_code
from tandem_kafka.events.completable import Completion
from tandem_kafka.logs import client_logger
from tandem_kafka.network.backoff import FOREVER_MS
from tandem_kafka.network.request import ANY_NODE, ClientResponse, ToNode, UnsentRequest
from tandem_kafka.request_managers.base import IDLE, PollResult, RequestManager
from tandem_kafka.request_managers.context import ManagerContext
from tandem_kafka.request_managers.telemetry.measurements import Measurements
from tandem_kafka.state.state_machine import StateMachine
from tandem_kafka.types import Node
from tandem_kafka.wire import messages
from tandem_kafka.wire.framing import decode_message
from tandem_kafka.wire.responses import reject_nulls


class State(enum.Enum):
    """The state of pushing metrics."""

    SUBSCRIPTION_NEEDED = "subscription needed"
    SUBSCRIPTION_IN_PROGRESS = "subscription in progress"
    PUSH_NEEDED = "push needed"
    PUSH_IN_PROGRESS = "push in progress"
    TERMINATED = "terminated"


#: The states that may follow each state.
TRANSITIONS: dict[State, frozenset[State]] = {
    State.SUBSCRIPTION_NEEDED: frozenset({State.SUBSCRIPTION_IN_PROGRESS, State.TERMINATED}),
    State.SUBSCRIPTION_IN_PROGRESS: frozenset(
        {State.SUBSCRIPTION_NEEDED, State.PUSH_NEEDED, State.TERMINATED}
    ),
    State.PUSH_NEEDED: frozenset({State.PUSH_IN_PROGRESS, State.TERMINATED}),
    State.PUSH_IN_PROGRESS: frozenset(
        {State.SUBSCRIPTION_NEEDED, State.PUSH_NEEDED, State.TERMINATED}
    ),
    State.TERMINATED: frozenset(),
}


log = client_logger(__name__)

#: Tells whether the last connected broker offers an API, by its key.
Offers = Callable[[int], bool]

DEFAULT_INTERVAL_MS: Final = 300_000
#: A shorter interval would keep the network thread busy.
SHORTEST_INTERVAL_MS: Final = 1_000
#: Each metric is compared with each prefix; there are fewer metrics than this.
MOST_PREFIXES: Final = 1_000
#: A larger subscription is not decoded, which would block the network thread for 0.2 s per MB.
MOST_BYTES: Final = 1 << 18
_NO_ID: Final = UUID(int=0)
#: The API key of GetTelemetrySubscriptions.
_GET_SUBSCRIPTIONS: Final = 71
#: The first push comes after this share of the interval, so that clients that start together do
#: not push together.
_FIRST_PUSH: Final = (0.5, 1.5)

#: A new subscription is needed immediately: UNKNOWN_SUBSCRIPTION_ID, UNSUPPORTED_COMPRESSION_TYPE.
_OUTDATED: Final = frozenset({117, 76})
#: The next attempt is due after the interval: TELEMETRY_TOO_LARGE, THROTTLING_QUOTA_EXCEEDED.
_TEMPORARY: Final = frozenset({118, 89})


@dataclass(frozen=True)
class _Subscription:
    """What a broker subscribes to."""

    node: Node
    client_instance_id: UUID
    number: int
    interval_ms: int
    accepted: tuple[int, ...]
    delta: bool
    prefixes: tuple[str, ...]

    @classmethod
    def of(cls, response: ClientResponse) -> _Subscription:
        message = response.message
        if message.client_instance_id in (None, _NO_ID):
            raise UnexpectedResponseError("GetTelemetrySubscriptions: no client instance id")
        interval_ms = message.push_interval_ms
        prefixes = message.requested_metrics or ()
        if len(prefixes) > MOST_PREFIXES:
            log.warning(
                "%s requests metrics with %d prefixes; only the first %d are used",
                response.node,
                len(prefixes),
                MOST_PREFIXES,
            )
        return cls(
            node=response.node,
            client_instance_id=message.client_instance_id,
            number=message.subscription_id,
            interval_ms=max(interval_ms, SHORTEST_INTERVAL_MS)
            if interval_ms > 0
            else DEFAULT_INTERVAL_MS,
            accepted=tuple(message.accepted_compression_types or ()),
            delta=bool(message.delta_temporality),
            prefixes=tuple(prefixes[:MOST_PREFIXES]),
        )


class TelemetryRequestManager(RequestManager):
    """Pushes metrics while a broker subscribes to them.

    Without a broker that offers GetTelemetrySubscriptions, no request is sent. Kafka offers it only
    if a metrics reporter of the broker receives the metrics of clients.
    """

    def __init__(self, context: ManagerContext, offers: Offers) -> None:
        config = context.config
        self._context = context
        self._offers = offers
        self._enabled = config.enable_metrics_push and config.metrics_enabled
        self._states = StateMachine(State.SUBSCRIPTION_NEEDED, TRANSITIONS)
        self._measurements = Measurements(
            context.metrics, config.metric_group_prefix, context.clock
        )
        self._subscription: _Subscription | None = None
        self._waiting: list[Completion[UUID]] = []
        self._member_id = ""
        self._due_ms = 0

    def poll(self, now_ms: int) -> PollResult:
        """Request the subscription or push the metrics, if that is due."""
        state = self._states.state
        if not self._enabled or state not in (State.SUBSCRIPTION_NEEDED, State.PUSH_NEEDED):
            return IDLE
        self._member_id = self._context.group.metadata.member_id or self._member_id
        if now_ms < self._due_ms:
            return PollResult((), self._due_ms - now_ms)
        if state is State.PUSH_NEEDED and self._subscription is not None:
            self._states.move(State.PUSH_IN_PROGRESS)
            return PollResult((self._push(self._subscription, terminating=False),), FOREVER_MS)
        # A connection that says otherwise leads to a response, after which managers are polled.
        if not self._context.metadata.snapshot.nodes or not self._offered():
            return IDLE
        self._states.move(State.SUBSCRIPTION_IN_PROGRESS)
        return PollResult((self._request_subscription(),), FOREVER_MS)

    def close(self, now_ms: int) -> PollResult:
        """Push the metrics a last time, if a broker subscribes to them."""
        del now_ms
        state, subscription = self._states.state, self._subscription
        self._states.move(State.TERMINATED)
        subscribed = state in (State.PUSH_NEEDED, State.PUSH_IN_PROGRESS)
        if subscription is None or not subscribed:
            return IDLE
        return PollResult((self._push(subscription, terminating=True),))

    def await_client_instance_id(self, future: Completion[UUID]) -> None:
        """Complete the future as soon as a broker has given this client an id."""
        if self._subscription is not None:
            future.complete(self._subscription.client_instance_id)
            return
        self._waiting = [each for each in self._waiting if not each.done]
        self._waiting.append(future)

    def _offered(self) -> bool:
        return self._offers(_GET_SUBSCRIPTIONS)

    # --- the subscription ----------------------------------------------------------------------

    def _request_subscription(self) -> UnsentRequest:
        known = self._subscription
        message = messages.GetTelemetrySubscriptionsRequest(
            client_instance_id=known.client_instance_id if known is not None else _NO_ID
        )
        return self._context.request(
            message,
            ANY_NODE,
            on_response=self._subscribed,
            on_error=self._lost,
            decode=_decode,
        )

    def _subscribed(self, response: ClientResponse) -> None:
        if response.message is None:
            raise UnexpectedResponseError(
                f"GetTelemetrySubscriptions: more than {MOST_BYTES} bytes from {response.node}"
            )
        if self._states.state is State.TERMINATED or self._rejected(response):
            return
        before, now = self._subscription, _Subscription.of(response)
        if before is not None and before.delta != now.delta:
            self._measurements.forget()
        self._subscription = now
        if before is None:
            log.info("metrics can be pushed; client instance id: %s", now.client_instance_id)
            for future in self._waiting:
                future.complete(now.client_instance_id)
            self._waiting.clear()
        if now.prefixes:
            share = self._context.random.uniform(*_FIRST_PUSH)
            self._wait(State.PUSH_NEEDED, round(share * now.interval_ms))
        else:
            self._wait(State.SUBSCRIPTION_NEEDED, now.interval_ms)

    # --- pushes --------------------------------------------------------------------------------

    def _push(self, to: _Subscription, *, terminating: bool) -> UnsentRequest:
        # Few clusters subscribe to metrics.
        from tandem_kafka.request_managers.telemetry.compression import compress  # noqa: PLC0415
        from tandem_kafka.request_managers.telemetry.otlp import metrics_data  # noqa: PLC0415

        points = self._measurements.points(to.prefixes, delta=to.delta)
        compression, data = compress(metrics_data(self._resource(), points), to.accepted)
        message = messages.PushTelemetryRequest(
            client_instance_id=to.client_instance_id,
            subscription_id=to.number,
            terminating=terminating,
            compression_type=compression,
            metrics=data,
        )
        return self._context.request(
            message, ToNode(to.node), on_response=self._pushed, on_error=self._lost
        )

    def _resource(self) -> dict[str, str]:
        config = self._context.config
        labels = {
            "group_id": config.group_id,
            "group_instance_id": config.group_instance_id,
            "client_rack": config.client_rack,
            "group_member_id": self._member_id,
        }
        return {name: value for name, value in labels.items() if value}

    def _pushed(self, response: ClientResponse) -> None:
        if self._states.state is not State.TERMINATED and not self._rejected(response):
            self._wait(State.PUSH_NEEDED, self._interval_ms())

    # --- outcomes ------------------------------------------------------------------------------

    def _rejected(self, response: ClientResponse) -> bool:
        """React to the error of a response; return False if there is none."""
        code: int = response.message.error_code
        if code == 0:
            return False
        error: Any = for_code(code)
        if code in _OUTDATED:
            self._wait(State.SUBSCRIPTION_NEEDED, self._context.retry_pause_ms)
        elif code in _TEMPORARY:
            self._wait(State.SUBSCRIPTION_NEEDED, self._interval_ms())
        else:
            self._states.move(State.TERMINATED)
            log.warning(
                "%s rejects metrics, which are not pushed any more: %s", response.node, error
            )
        return True

    def _lost(self, error: Exception) -> None:
        """Request the subscription again later, possibly from another broker."""
        if self._states.state is State.TERMINATED:
            return
        log.debug("metrics could not be pushed; next attempt in 5 minutes: %s", error)
        self._wait(State.SUBSCRIPTION_NEEDED, DEFAULT_INTERVAL_MS)

    def _interval_ms(self) -> int:
        known = self._subscription
        return DEFAULT_INTERVAL_MS if known is None else known.interval_ms

    def _wait(self, state: State, duration_ms: int) -> None:
        self._states.move(state)
        self._due_ms = self._context.clock.now_ms() + duration_ms


def _decode(body: memoryview, version: int) -> Any:
    """Return the subscription of a response, None if it is too large."""
    if len(body) > MOST_BYTES:
        return None
    message = decode_message(messages.GetTelemetrySubscriptionsResponse, version, body)
    reject_nulls(message, version)
    return message
