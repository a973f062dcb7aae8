"""One connection of the pool: the protocol on it and its life in time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tandem_kafka.events.completable import NO_DEADLINE_MS
from tandem_kafka.metrics import Traffic
from tandem_kafka.network.connection import BrokerConnection, ConnectionState
from tandem_kafka.network.request import KeepAlive, Purpose
from tandem_kafka.types import Node

__all__ = ["ArmedKeepAlive", "ConnectionKey", "Link", "LinkLoss"]

#: Connections are told apart by broker and purpose.
ConnectionKey = tuple[int, Purpose]

_NOT_YET: Final = NO_DEADLINE_MS


@dataclass(frozen=True, slots=True)
class ArmedKeepAlive:
    """A heartbeat as it was handed to the transport."""

    keep_alive: KeepAlive
    version: int


@dataclass(slots=True, eq=False)
class Link:
    """A connection, from the look-up of its name to its end.

    Attributes:
        connection: What is said on it.
        meter: Measures what goes over it.
        setup_deadline_ms: When it must be ready.
        setup_timeout_ms: How long that was.
        used_ms: When something was last sent or received.
        for_any: True when a request for any node waits for it.
        number: The transport's number; None while the name is looked up.
        host: Name by which authentication knows the broker.
        reauthenticate_at_ms: When it must not be used any more (KIP-368).
        set_up: True once it has been seen to be ready.
        responded: True once a request has been answered on it.
        closed: True once it is out of the pool.
        armed: What the transport may send on it by itself.
        opened: True once the transport has opened it.
        watched: True while an answer is late and what comes in is watched.
        received_bytes: How much had come when it was last looked at.
        received_ms: When some of a late answer was last seen to come in.
        suspected: True while a new connection finds out whether the broker still answers.
    """

    key: ConnectionKey
    node: Node
    connection: BrokerConnection
    meter: Traffic
    setup_deadline_ms: int
    setup_timeout_ms: int
    used_ms: int
    for_any: bool = False
    number: int | None = None
    host: str = ""
    reauthenticate_at_ms: int = _NOT_YET
    set_up: bool = False
    responded: bool = False
    closed: bool = False
    armed: ArmedKeepAlive | None = None
    opened: bool = False
    watched: bool = False
    received_bytes: int = 0
    received_ms: int = 0
    suspected: bool = False

    @property
    def ready(self) -> bool:
        """True when it carries requests."""
        return self.connection.state is ConnectionState.READY

    @property
    def phase(self) -> str:
        """What the set-up is doing, for a message."""
        if self.number is None:
            return f"looking up {self.node.host}"
        return self.connection.state.value

    def can_send(self, now_ms: int, limit: int) -> bool:
        """True when a request may go out now."""
        connection = self.connection
        return (
            connection.state is ConnectionState.READY
            and connection.in_flight < limit
            and now_ms >= connection.throttled_until_ms
            and now_ms < self.reauthenticate_at_ms
        )

    def silent_ms(self, silence_limit_ms: int) -> int:
        """Return when to begin to watch it, or when its silence becomes suspicious."""
        if self.suspected:
            return NO_DEADLINE_MS
        since_ms = max(self.connection.due_ms, self.received_ms)
        return since_ms + (silence_limit_ms if self.watched else silence_limit_ms // 2)

    def next_action_ms(self, now_ms: int, max_idle_ms: int, silence_limit_ms: int) -> int:
        """Return when this connection next needs to be looked at, if nothing arrives."""
        connection = self.connection
        if connection.state is not ConnectionState.READY:
            return self.setup_deadline_ms
        if connection.in_flight:
            # Once its session is over it only waits for these answers.
            deadline_ms = connection.next_deadline_ms(NO_DEADLINE_MS)
            return min(deadline_ms, self.silent_ms(silence_limit_ms))
        idle_ms = self.used_ms + max_idle_ms if max_idle_ms >= 0 else NO_DEADLINE_MS
        return max(now_ms, min(idle_ms, self.reauthenticate_at_ms))


@dataclass(frozen=True, slots=True)
class LinkLoss:
    """A connection that ended otherwise than by plan.

    Attributes:
        error: What the requests that wait for it are told.
        final: True when trying again will not help by itself: credentials, certificates,
            something that is not a Kafka broker.
        for_any: True when requests for any node waited for it.
    """

    key: ConnectionKey
    error: Exception
    final: bool
    for_any: bool
