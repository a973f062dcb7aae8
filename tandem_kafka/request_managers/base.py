"""What a request manager is: asked in turn what it wants to send, it never touches a socket.

A manager keeps the state of one subject (coordinator, commits, fetches, ...). Every turn of the
network loop calls `poll(now_ms)`, which returns requests to send and how long the thread may
sleep as far as this manager is concerned. A wait of 0 is only right when something can be sent
at once: the wake-up for anything else comes with a response or an application event.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol

from tandem_kafka.events.completable import Completion
from tandem_kafka.runtime import Random
from tandem_kafka.types import Node

__all__ = [
    "ANY_NODE",
    "FOREVER_MS",
    "IDLE",
    "AnyNode",
    "Backoff",
    "ClientResponse",
    "Destination",
    "KeepAlive",
    "PollResult",
    "Purpose",
    "RequestManager",
    "RequestState",
    "ToNode",
    "UnsentRequest",
]

#: A back-off grows at least this far, whatever the options say.
SMALLEST_MAX_MS: Final = 20

#: "Nothing to wait for here": the loop sleeps at most its own maximum.
FOREVER_MS: Final = 2**31 - 1


class Purpose(enum.Enum):
    """Which connection of a broker carries a request.

    A broker answers one request of a connection after the other, so a fetch that it parks for
    `fetch_max_wait_ms` would hold back everything behind it: each slot of fetching and the group
    get connections of their own.
    """

    # A key of dictionaries that are looked into at every turn; an enumeration hashes its name.
    __hash__ = object.__hash__

    MAIN = "main"
    GROUP = "group"
    FETCH_0 = "fetch-0"
    FETCH_1 = "fetch-1"
    FETCH_QUIET = "fetch-quiet"


@dataclass(frozen=True, slots=True)
class ToNode:
    """Send to this broker."""

    node: Node
    purpose: Purpose = Purpose.MAIN


@dataclass(frozen=True, slots=True)
class AnyNode:
    """Send to the broker that is least busy, or to a bootstrap server."""


Destination = ToNode | AnyNode
ANY_NODE: Final = AnyNode()


@dataclass(frozen=True, slots=True)
class ClientResponse:
    """A decoded answer.

    Attributes:
        message: What the request's `decode` made, else kafka-python's response object.
        version: Protocol version of request and response.
        node: The broker that answered.
        latency_ms: Between sending and receiving.
    """

    message: Any
    version: int
    node: Node
    latency_ms: int


@dataclass(frozen=True, slots=True)
class KeepAlive:
    """What may be sent in a member's place while the GIL keeps this thread from running.

    Attributes:
        message: A heartbeat that says nothing new.
        period_ms: How often; 0 where the coordinator has yet to say so.
        until_ms: Not after that: the application must have polled by then (clock time).
        answered: Told what an answer says that is new, once this thread runs again.
    """

    message: Any
    period_ms: int
    until_ms: int
    answered: Callable[[Any], None]


@dataclass(slots=True)
class UnsentRequest:
    """A request on its way to the network.

    Attributes:
        message: kafka-python's request object; its `min_version`/`max_version` bound the
            version that is negotiated with the broker.
        destination: Where to.
        deadline_ms: When it fails if it could not be sent by then (clock time).
        timeout_ms: How long the answer may take once sent; then the connection is closed.
        future: Ends with a `ClientResponse` or a `KafkaError`.
        decode: Takes the body of the response frame (behind its header) and the version;
            None for kafka-python's decoder.
        keep_alive: What may follow it, where the transport can do that.
    """

    message: Any
    destination: Destination
    deadline_ms: int
    timeout_ms: int
    future: Completion[ClientResponse] = field(default_factory=Completion)
    decode: Callable[[memoryview, int], Any] | None = None
    keep_alive: KeepAlive | None = None


class PollResult(NamedTuple):
    """What a manager wants: requests to send, and to be asked again within `wait_ms`."""

    unsent: tuple[UnsentRequest, ...] = ()
    wait_ms: int = FOREVER_MS


IDLE: Final = PollResult()


class RequestManager(Protocol):
    """The state of one subject, on the network thread."""

    def poll(self, now_ms: int) -> PollResult:
        """Return what to send now; no input or output happens here."""
        ...

    def close(self, now_ms: int) -> PollResult:
        """The consumer is closing: return the last requests, if there are any."""
        ...


class Backoff:
    """Exponential back-off with jitter, from `initial_ms` doubling up to `max_ms` (KIP-580)."""

    __slots__ = ("_attempts", "_initial_ms", "_jitter", "_max_ms", "_random")

    def __init__(self, initial_ms: int, max_ms: int, random: Random, jitter: float = 0.2) -> None:
        # A back-off of 0, or one that never grows, would let a failing request spin.
        self._initial_ms = max(1, initial_ms)
        self._max_ms = max(self._initial_ms, max_ms, SMALLEST_MAX_MS)
        self._random = random
        self._jitter = jitter
        self._attempts = 0

    @property
    def attempts(self) -> int:
        """Failures in a row."""
        return self._attempts

    def reset(self) -> None:
        """Start over: it worked."""
        self._attempts = 0

    def next_ms(self) -> int:
        """How long to wait after one more failure."""
        exponent = min(self._attempts, 30)
        self._attempts += 1
        plain = min(self._initial_ms * 2**exponent, self._max_ms)
        spread = self._random.uniform(1 - self._jitter, 1 + self._jitter)
        return max(1, min(int(plain * spread), self._max_ms))


class RequestState:
    """One kind of request: at most one in flight, and a pause after each failure."""

    __slots__ = ("_backoff", "_next_send_ms", "in_flight")

    def __init__(self, backoff: Backoff) -> None:
        self._backoff = backoff
        self._next_send_ms = 0
        self.in_flight = False

    def can_send(self, now_ms: int) -> bool:
        """True when no request is in flight and the pause is over."""
        return not self.in_flight and now_ms >= self._next_send_ms

    def wait_ms(self, now_ms: int) -> int:
        """Until `can_send`; `FOREVER_MS` while in flight (the answer wakes the loop)."""
        if self.in_flight:
            return FOREVER_MS
        return max(0, self._next_send_ms - now_ms)

    def sent(self) -> None:
        """A request has left."""
        self.in_flight = True

    def succeeded(self) -> None:
        """It worked: the next may go at once."""
        self.in_flight = False
        self._next_send_ms = 0
        self._backoff.reset()

    def failed(self, now_ms: int) -> None:
        """It failed: pause."""
        self.in_flight = False
        self._next_send_ms = now_ms + self._backoff.next_ms()

    def reset(self) -> None:
        """Forget failures: send at once."""
        self.in_flight = False
        self._next_send_ms = 0
        self._backoff.reset()
