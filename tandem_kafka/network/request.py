"""A request on its way to a broker, and the response that comes back."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from tandem_kafka.events.completable import Completion
from tandem_kafka.types import Node

__all__ = [
    "ANY_NODE",
    "AnyNode",
    "ClientResponse",
    "Destination",
    "KeepAlive",
    "Purpose",
    "ToNode",
    "UnsentRequest",
]


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
    FETCH_BYPASS = "fetch-bypass"
    #: Finds out whether a broker that is silent on another connection answers on a new one.
    PROBE = "probe"


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
        on_response: Told what an answer says that is new, once this thread runs again.
    """

    message: Any
    period_ms: int
    until_ms: int
    on_response: Callable[[Any], None]


@dataclass(slots=True)
class UnsentRequest:
    """A request on its way to the network.

    Attributes:
        message: kafka-python's request object; its `min_version`/`max_version` bound the
            version that is negotiated with the broker.
        destination: Where to.
        deadline_ms: When it fails if it could not be sent by then (clock time).
        timeout_ms: How long the answer may take once sent; then the connection is closed.
        held_ms: How long the broker may hold the answer back on purpose, as with a fetch that finds
            nothing; None for as long as it likes.
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
    held_ms: int | None = 0
