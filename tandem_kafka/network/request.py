"""Requests and responses, as managers and client exchange them."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tandem_kafka.dataclass import dataclass, field
from tandem_kafka.events.completable import Completion
from tandem_kafka.metrics import Traffic
from tandem_kafka.types import Node

if TYPE_CHECKING:
    from tandem_kafka._native import StandingFetch


class Purpose(enum.Enum):
    """The purpose of a connection to a broker.

    A broker processes the requests of a connection one after the other. A fetch that it parks for
    `fetch_max_wait_ms` would delay all later requests. Each fetch slot and the group therefore
    have their own connections.
    """

    # Faster than the hash of an enumeration, which hashes the name: it is a key in hot dicts.
    __hash__ = object.__hash__

    MAIN = "main"
    GROUP = "group"
    FETCH_0 = "fetch-0"
    FETCH_1 = "fetch-1"
    FETCH_QUIET = "fetch-quiet"
    FETCH_BYPASS = "fetch-bypass"
    #: Checks whether a broker responds on a new connection if another one is silent.
    PROBE = "probe"


@dataclass(frozen=True)
class ToNode:
    """The destination is this broker."""

    node: Node
    purpose: Purpose = Purpose.MAIN


@dataclass(frozen=True)
class AnyNode:
    """The destination is the least busy broker, or a bootstrap server."""


Destination = ToNode | AnyNode
ANY_NODE: Final = AnyNode()


@dataclass(frozen=True)
class ClientResponse:
    """A decoded response.

    Attributes:
        message: The result of the request's `decode`, else kafka-python's response object.
        version: Protocol version of request and response.
        node: The broker that responded.
        latency_ms: The time between sending and receiving.
    """

    message: Any
    version: int
    node: Node
    latency_ms: int


@dataclass(frozen=True)
class KeepAlive:
    """A heartbeat that the transport sends while the GIL blocks the network thread.

    Attributes:
        message: A heartbeat without new data.
        period_ms: The interval; 0 until the coordinator has set it.
        until_ms: When to stop: the application must have polled by then (clock time).
        on_response: Called with each response that has new data, once this thread runs again.
    """

    message: Any
    period_ms: int
    until_ms: int
    on_response: Callable[[Any], None]


class SentRequest(NamedTuple):
    """How a request was sent.

    Attributes:
        version: Its protocol version.
        correlation_id: Its number on the connection.
        usable_ms: How long the connection may still be used.
        traffic: The meter of the connection.
    """

    version: int
    correlation_id: int
    usable_ms: int
    traffic: Traffic


@dataclass()
class UnsentRequest:
    """A request for the network client.

    Attributes:
        message: kafka-python's request object; its `min_version` and `max_version` limit the
            version that is negotiated with the broker.
        destination: The broker, or any broker.
        deadline_ms: When the request fails if it has not been sent (clock time).
        timeout_ms: How long the response may take; then the connection is closed.
        held_ms: How long the broker may park the request, as it does with a fetch without data;
            None for unlimited.
        future: Completed with a `ClientResponse` or a `KafkaError`.
        decode: Decodes the body of the response (without its header) of a version; None for the
            decoder of kafka-python.
        keep_alive: A heartbeat for the transport to send later, if it supports that.
        make_standing_fetch: Makes the order to repeat this fetch once it is sent, if the transport
            supports that; returns None if the fetch must not be repeated.
    """

    message: Any
    destination: Destination
    deadline_ms: int
    timeout_ms: int
    future: Completion[ClientResponse] = field(default_factory=Completion)
    decode: Callable[[memoryview, int], Any] | None = None
    keep_alive: KeepAlive | None = None
    held_ms: int | None = 0
    make_standing_fetch: Callable[[SentRequest], StandingFetch | None] | None = None
