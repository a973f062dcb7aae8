"""One connection of the pool, with its protocol state and its times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tandem_kafka.dataclass import dataclass
from tandem_kafka.events.completable import NO_DEADLINE_MS
from tandem_kafka.metrics import Traffic
from tandem_kafka.network.connection import BrokerConnection, ConnectionState
from tandem_kafka.network.request import KeepAlive, Purpose
from tandem_kafka.types import Node

if TYPE_CHECKING:
    from tandem_kafka._native import StandingFetch


#: A connection is identified by broker and purpose.
ConnectionKey = tuple[int, Purpose]

_NOT_YET: Final = NO_DEADLINE_MS


@dataclass(frozen=True)
class ArmedKeepAlive:
    """A heartbeat that was passed to the transport."""

    keep_alive: KeepAlive
    version: int


@dataclass(eq=False)
class Link:
    """A connection, from the lookup of its host name to its end.

    Attributes:
        key: Broker id and purpose.
        node: The broker.
        connection: The protocol on this connection.
        meter: Measures the traffic.
        setup_deadline_ms: When the connection must be ready.
        setup_timeout_ms: The timeout from which the deadline was computed.
        used_ms: When data was last sent or received.
        for_any: Whether a request for any node waits for this connection.
        number: The transport's number; None during the lookup of the host name.
        host: The broker's host name for authentication.
        reauthenticate_at_ms: When the connection must no longer be used (KIP-368).
        set_up: Whether it has become ready.
        responded: Whether the broker has responded to a request on it.
        closed: Whether it has been removed from the pool.
        armed: The heartbeat that the transport may send by itself.
        opened: Whether the transport has opened it.
        watched: Whether a response is late, so that received bytes are watched.
        received_bytes: The number of received bytes at the last check.
        received_ms: When a check last found that a part of a late response had been received.
        suspected: Whether a probe is checking if the broker still responds.
        standing_fetch: The order by which the transport repeats the fetch in flight.
        repeats: The number of its repetitions that are known here.
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
    standing_fetch: StandingFetch | None = None
    repeats: int = 0

    @property
    def ready(self) -> bool:
        """True if requests can be sent."""
        return self.connection.state is ConnectionState.READY

    @property
    def begun_ms(self) -> int:
        """When the attempt to connect began."""
        return self.setup_deadline_ms - self.setup_timeout_ms

    @property
    def phase(self) -> str:
        """The current step of the setup, for a message."""
        if self.number is None:
            return f"looking up {self.node.host}"
        return self.connection.state.value

    def can_send(self, now_ms: int, limit: int) -> bool:
        """Tell whether a request may be sent now."""
        connection = self.connection
        return (
            connection.state is ConnectionState.READY
            and connection.in_flight < limit
            and now_ms >= connection.throttled_until_ms
            and now_ms < self.reauthenticate_at_ms
        )

    def silent_ms(self, silence_limit_ms: int) -> int:
        """Return when to start watching the connection, or when to suspect it."""
        if self.suspected:
            return NO_DEADLINE_MS
        since_ms = max(self.connection.due_ms, self.received_ms)
        return since_ms + (silence_limit_ms if self.watched else silence_limit_ms // 2)

    def next_action_ms(self, now_ms: int, max_idle_ms: int, silence_limit_ms: int) -> int:
        """Return when this connection must be checked next, if nothing is received."""
        connection = self.connection
        if connection.state is not ConnectionState.READY:
            return self.setup_deadline_ms
        if connection.in_flight:
            # After the end of its session, it only waits for these responses.
            deadline_ms = connection.next_deadline_ms(NO_DEADLINE_MS)
            return min(deadline_ms, self.silent_ms(silence_limit_ms))
        idle_ms = self.used_ms + max_idle_ms if max_idle_ms >= 0 else NO_DEADLINE_MS
        return max(now_ms, min(idle_ms, self.reauthenticate_at_ms))


@dataclass(frozen=True)
class LinkLoss:
    """The unplanned end of a connection.

    Attributes:
        key: Broker id and purpose.
        error: The error for the requests that wait for it.
        final: Whether a retry cannot help: wrong credentials or certificates, or not a Kafka
            broker.
        for_any: Whether requests for any node waited for it.
    """

    key: ConnectionKey
    error: Exception
    final: bool
    for_any: bool
