"""A simulated network: connections that carry bytes in simulated time, with faults from a seed."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from tandem_kafka.errors import KafkaConnectionError
from tandem_kafka.network.transport import (
    ConnectionClosed,
    ConnectionOpened,
    FrameReceived,
    ServerAddress,
    TransportEvent,
)
from tandem_kafka.runtime import Random
from tandem_kafka_testing.clock import NEVER_MS, SimClock
from tandem_kafka_testing.trace import Trace

Address = tuple[str, int]


@dataclass(slots=True)
class Conditions:
    """The faults of the network; they may be changed at any time.

    Attributes:
        latency_ms: Shortest and longest latency of a frame.
        loss: Share of frames that are lost, together with their connection.
        clog: Share of frames that are delayed by `clog_ms`, with all frames behind them.
        clog_ms: Shortest and longest such delay. The default exceeds the request timeout.
        refuse: Share of connections that are refused.
        swallow: Share of responses that are lost while their connection stays open.
        double: Share of responses that arrive twice.
    """

    latency_ms: tuple[int, int] = (1, 5)
    loss: float = 0.0
    clog: float = 0.0
    clog_ms: tuple[int, int] = (35_000, 90_000)
    refuse: float = 0.0
    swallow: float = 0.0
    double: float = 0.0

    def calm(self) -> None:
        """End all of these faults."""
        self.loss = self.clog = self.refuse = self.swallow = self.double = 0.0


class Server(Protocol):
    """A server that listens at an address."""

    def receive(self, connection: SimConnection, frame: bytes) -> None:
        """Handle a frame, given without its length; `connection.reply` sends the response."""
        ...

    def closed(self, connection: SimConnection) -> None:
        """Note that the client has closed the connection."""
        ...


class Client(Protocol):
    """The client's end of connections."""

    def arrived(self, event: TransportEvent) -> None:
        """Receive an event of a connection."""
        ...


class SimConnection:
    """A connection with both ends."""

    def __init__(
        self, network: SimNetwork, number: int, transport: Client, address: Address
    ) -> None:
        self.number = number
        self.transport = transport
        self.address = address
        self.server: Server | None = None
        self.open = True
        #: One end is gone without notice to the other: frames are lost.
        self.half_open = False
        self.received_bytes = 0
        self._network = network
        #: Arrival of the last frame in each direction: bytes do not overtake each other.
        self._busy_ms = {"to server": 0, "to client": 0}

    def send(self, frame: bytes) -> None:
        """Client: send a frame (without its length)."""
        self._carry("to server", self.handle, frame)

    def reply(self, frame: bytes, delay_ms: int = 0) -> None:
        """Server: send a frame (without its length)."""
        event = FrameReceived(self.number, memoryview(self._network.altered(frame)))
        for _ in range(self._network.copies()):
            self._carry("to client", self.transport.arrived, event, delay_ms)

    def cut(self, reason: str) -> None:
        """Cut the connection; both ends notice at once."""
        if not self.open:
            return
        self.open = False
        if self.server is not None:
            self.server.closed(self)
        host, port = self.address
        error = KafkaConnectionError(f"lost {host}:{port}: {reason}")
        self.transport.arrived(ConnectionClosed(self.number, error))

    def drop(self) -> None:
        """Client: close the connection; the client gets no event."""
        if self.open:
            self.open = False
            if self.server is not None:
                self.server.closed(self)

    def handle(self, frame: bytes) -> None:
        """Server: handle a frame that has arrived; an invalid one concerns its client only."""
        if self.server is None:
            return
        try:
            self.server.receive(self, frame)
        except Exception as error:
            if self._network.on_invalid_request is None:
                raise
            self._network.on_invalid_request(self, error)

    def _carry(
        self, direction: str, deliver: Callable[[Any], None], what: Any, delay_ms: int = 0
    ) -> None:
        network = self._network
        arrival_ms = network.arrival_ms(self.address) + delay_ms
        when_ms = max(arrival_ms, self._busy_ms[direction])
        self._busy_ms[direction] = when_ms
        if network.loses():
            deliver, what = self.cut, "the connection was reset"
        network.at(when_ms, partial(self._arrive, deliver, what))

    def _arrive(self, deliver: Callable[[Any], None], what: Any) -> None:
        network = self._network
        if network.is_partitioned(self.transport, self.address):
            self.half_open = True  # nothing repairs a gap in a stream of bytes
        if self.open and not self.half_open and self.address not in network.silent:
            deliver(what)


class SimNetwork:
    """All connections, and a heap of scheduled events.

    Attributes:
        silent: Addresses that receive and send nothing.
        slow: Additional latency to and from an address.
        partitions: Clients and addresses that cannot reach each other.
        proxied: Addresses of proxies. A proxy without a server behind it accepts each connection
            and closes it.
        alter_response: Called with the frame of each response, without its length. It returns the
            frame to send instead. With None, responses are sent as they are.
        on_invalid_request: Called with the connection and the error, if its server cannot handle a
            frame. With None, the error is raised, which ends the simulation.
        next_ms: Time of the next event.
    """

    def __init__(
        self, clock: SimClock, random: Random, trace: Trace, conditions: Conditions | None = None
    ) -> None:
        self.clock = clock
        self.trace = trace
        self.conditions = conditions if conditions is not None else Conditions()
        self.silent: set[Address] = set()
        self.slow: dict[Address, int] = {}
        self.partitions: set[tuple[Client, Address]] = set()
        self.proxied: set[Address] = set()
        self.alter_response: Callable[[bytes], bytes] | None = None
        self.on_invalid_request: Callable[[SimConnection, Exception], None] | None = None
        self._random = random
        self._servers: dict[Address, Server] = {}
        self._connections: dict[int, SimConnection] = {}
        self._heap: list[tuple[int, int, Callable[[], object]]] = []
        self.next_ms = NEVER_MS
        self._sequence = 0
        self._numbers = 0

    # --- time ----------------------------------------------------------------------------------

    def at(self, when_ms: int, action: Callable[[], object]) -> None:
        """Schedule an action."""
        self._sequence += 1
        heapq.heappush(self._heap, (when_ms, self._sequence, action))
        self.next_ms = self._heap[0][0]

    def deliver(self) -> None:
        """Run all actions that are due."""
        heap, now_ms = self._heap, self.clock.now_ms()
        while heap and heap[0][0] <= now_ms:
            action = heapq.heappop(heap)[2]
            self.next_ms = heap[0][0] if heap else NEVER_MS
            action()

    def arrival_ms(self, address: Address) -> int:
        """Draw the arrival time of a frame that is sent now."""
        conditions = self.conditions
        delay_ms = self._latency_ms(*conditions.latency_ms) + self.slow.get(address, 0)
        if conditions.clog and self._random.random() < conditions.clog:
            delay_ms += self._random.randint(*conditions.clog_ms)
            self.trace.note(f"clogged for {delay_ms} ms")
        return self.clock.now_ms() + delay_ms

    def _latency_ms(self, shortest_ms: int, longest_ms: int) -> int:
        """Return the same as `randint`, from the same bits, without its four calls."""
        width = longest_ms - shortest_ms + 1
        bits = width.bit_length()
        drawn = self._random.getrandbits(bits)
        while drawn >= width:
            drawn = self._random.getrandbits(bits)
        return shortest_ms + drawn

    def loses(self) -> bool:
        """Draw whether a frame is lost."""
        return bool(self.conditions.loss) and self._random.random() < self.conditions.loss

    def copies(self) -> int:
        """Draw how often a response arrives."""
        swallow, double = self.conditions.swallow, self.conditions.double
        if not swallow and not double:
            return 1
        drawn = self._random.random()
        if drawn < swallow:
            self.trace.note("a response is lost")
            return 0
        if drawn < swallow + double:
            self.trace.note("a response arrives twice")
            return 2
        return 1

    def altered(self, frame: bytes) -> bytes:
        """Return the bytes that a response arrives with."""
        return frame if self.alter_response is None else self.alter_response(frame)

    # --- links ---------------------------------------------------------------------------------

    def is_partitioned(self, transport: Client, address: Address) -> bool:
        """Return whether a client and an address cannot reach each other."""
        return bool(self.partitions) and (transport, address) in self.partitions

    def freeze(self, transport: SimTransport) -> None:
        """Make the connections of a client half-open: frames on them are lost."""
        for connection in self._connections.values():
            if connection.transport is transport:
                connection.half_open = True

    def heal(self) -> None:
        """End all faults; half-open connections stay half-open."""
        self.conditions.calm()
        self.alter_response = None
        self.silent.clear()
        self.slow.clear()
        self.partitions.clear()

    # --- servers -------------------------------------------------------------------------------

    def listen(self, address: Address, server: Server) -> None:
        """Make a server reachable."""
        self._servers[address] = server

    def stop(self, address: Address) -> None:
        """Stop a server: its connections are cut, new ones are refused."""
        self._servers.pop(address, None)
        self.cut(address, "the broker went down")

    def cut(self, address: Address, reason: str = "cut") -> None:
        """Cut every connection to an address."""
        for connection in list(self._connections.values()):
            if connection.address == address:
                self._connections.pop(connection.number)
                connection.cut(reason)

    # --- clients -------------------------------------------------------------------------------

    def connect(self, transport: Client, address: ServerAddress) -> SimConnection:
        """Begin to connect."""
        self._numbers += 1
        connection = SimConnection(self, self._numbers, transport, (address.ip, address.port))
        self._connections[connection.number] = connection
        self.at(self.arrival_ms(connection.address), lambda: self._arrive(connection))
        return connection

    def _arrive(self, connection: SimConnection) -> None:
        if not connection.open or connection.address in self.silent:
            return
        if self.is_partitioned(connection.transport, connection.address):
            return
        server = self._servers.get(connection.address)
        refused = self.conditions.refuse and self._random.random() < self.conditions.refuse
        if server is None and connection.address in self.proxied:
            connection.transport.arrived(ConnectionOpened(connection.number))
            close = partial(connection.cut, "the proxy hung up")
            self.at(self.arrival_ms(connection.address), close)
            return
        if server is None or refused:
            self.trace.note(f"#{connection.number} refused")
            connection.cut("connection refused")
            return
        connection.server = server
        connection.transport.arrived(ConnectionOpened(connection.number))

    def forget(self, connection: SimConnection) -> None:
        """Forget a connection that its client has closed."""
        self._connections.pop(connection.number, None)
        connection.drop()


class SimTransport:
    """The connections of one client; implements `network.transport.Transport`.

    Attributes:
        ready: True when `poll` would return at once.
    """

    def __init__(self, network: SimNetwork) -> None:
        self._network = network
        self._connections: dict[int, SimConnection] = {}
        self._events: list[TransportEvent] = []
        self._woken = False
        self.ready = False

    def connect(self, address: ServerAddress) -> int:
        """Begin to connect."""
        connection = self._network.connect(self, address)
        self._connections[connection.number] = connection
        return connection.number

    def send(self, connection: int, frame: bytes) -> None:
        """Send a frame; on a closed connection it is lost."""
        found = self._connections.get(connection)
        if found is not None and found.open:
            found.send(bytes(frame[4:]))

    def poll(self, timeout_ms: int) -> list[TransportEvent]:
        """Let time pass until the next event, a wakeup, or the timeout."""
        network = self._network
        now_ms = network.clock.now_ms()
        if network.next_ms <= now_ms:
            network.deliver()
        until_ms = now_ms + timeout_ms
        while not self.ready and network.clock.now_ms() < until_ms:
            network.clock.advance_to(min(until_ms, network.next_ms))
            network.deliver()
        self._woken = self.ready = False
        events, self._events = self._events, []
        return events

    def wakeup(self) -> None:
        """End the running or the next poll."""
        self._woken = self.ready = True

    def received_bytes(self, connection: int) -> int:
        """Return the number of received bytes; a frame arrives as a whole."""
        found = self._connections.get(connection)
        return found.received_bytes if found is not None else 0

    def disconnect(self, connection: int) -> None:
        """Close a connection and drop its pending events."""
        found = self._connections.pop(connection, None)
        if found is not None:
            self._network.forget(found)
            self._events = [e for e in self._events if e.connection != connection]
            self.ready = self._woken or bool(self._events)

    def close(self) -> None:
        """Close every connection."""
        for number in list(self._connections):
            self.disconnect(number)

    def arrived(self, event: TransportEvent) -> None:
        """Queue an event from the network."""
        if event.connection in self._connections:
            if isinstance(event, FrameReceived):
                self._connections[event.connection].received_bytes += len(event.frame)
            self._events.append(event)
            self.ready = True
