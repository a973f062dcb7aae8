"""Serves the simulated cluster over TCP on this machine, in real time.

Each TCP connection continues as a connection of the simulated network, so the faults of that
network and of the cluster apply to any client.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from types import TracebackType
from typing import Final, Self, TypeVar

from tandem_kafka.logs import client_logger
from tandem_kafka.network.transport import (
    ConnectionClosed,
    ConnectionOpened,
    FrameReceived,
    ServerAddress,
    TransportEvent,
)
from tandem_kafka.runtime import MonotonicClock, Random
from tandem_kafka_testing.clock import NEVER_MS, SimClock
from tandem_kafka_testing.cluster import SimCluster
from tandem_kafka_testing.cluster.releases import release_named
from tandem_kafka_testing.fault_plan import FaultPlan, cause
from tandem_kafka_testing.faults import ClusterFaults
from tandem_kafka_testing.network import Address, Conditions, SimConnection, SimNetwork
from tandem_kafka_testing.trace import Trace

_HOST: Final = "127.0.0.1"
_LENGTH_BYTES: Final = 4
_LAST_PORT: Final = 65_535
#: The limit of real brokers for a request (`socket.request.max.bytes`).
_MAX_REQUEST_BYTES: Final = 100 * 1024 * 1024

#: More than a new connection needs to become a link and to be closed.
_TURNS: Final = 6

log = client_logger(__name__)

T = TypeVar("T")


class LoopbackCluster:
    """A simulated cluster with ports; as an async context manager, it serves them.

    Args:
        seed: Determines everything random in the cluster. Real clients add their own randomness.
        brokers: Number of brokers.
        kafka: The release that the brokers simulate: "0.11", "2.8", "3.9" or "4.3". With None they
            support everything that is simulated.
        port: The port of the first broker; the others have the ports behind it. 0 for free ports.
        faults: The faults of brokers and network. By default there are none, and no latency.
        on_fault: Called with the name and the arguments of each fault of the plan, on the thread of
            the event loop.

    Attributes:
        cluster: Brokers, topics, groups and scripted responses. Change it with `perform`.
        network: The simulated network behind the ports.

    Raises:
        OSError: A port is in use.
        ValueError: A number of brokers, a port or a release is not allowed.
    """

    def __init__(
        self,
        seed: object = 0,
        *,
        brokers: int = 1,
        kafka: str | None = None,
        port: int = 0,
        faults: FaultPlan | None = None,
        on_fault: Callable[[str], None] | None = None,
    ) -> None:
        _check(brokers, port, kafka)
        with ExitStack() as opened:
            self._sockets = [
                opened.enter_context(_listening(port + number if port else 0))
                for number in range(brokers)
            ]
            opened.pop_all()
        self._plan = faults if faults is not None else FaultPlan()
        self._on_fault = on_fault
        self._clock = SimClock()
        self.network = SimNetwork(
            self._clock,
            Random(f"{seed}/network"),
            Trace(self._clock),
            self._plan.conditions or Conditions(latency_ms=(0, 0)),
        )
        addresses = [(_HOST, each.getsockname()[1]) for each in self._sockets]
        self.cluster = SimCluster(
            self.network, Random(f"{seed}/cluster"), brokers, kafka, addresses=addresses
        )
        self.cluster.auto_create = True  # as Kafka by default
        self.network.on_invalid_request = self._reject
        self._random = Random(f"{seed}/faults")
        self._faults = ClusterFaults(self.cluster, self._random)
        self._servers: list[asyncio.Server] = []
        self._links: set[_Link] = set()
        self._began_ms = self._clock.now_ms()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def bootstrap(self) -> str:
        """The value for `bootstrap_servers`."""
        return self.cluster.bootstrap()

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._began_ms = self._clock.now_ms() - int(loop.time() * 1000)
        for each in self._sockets:
            link = partial(_Link, self, each.getsockname())
            self._servers.append(await loop.create_server(link, sock=each))
        self.perform(lambda: self._plan.begin(self.cluster, self._random, self._note))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # Accept nothing more: a server that is closed while it accepts a connection leaks it
        # (CPython 3.11).
        loop = asyncio.get_running_loop()
        with suppress(NotImplementedError):  # on Windows
            for each in self._sockets:
                loop.remove_reader(each)
        # What has just been accepted becomes a link a few turns of the event loop later, and
        # an aborted one closes its socket in the next turn.
        for _ in range(_TURNS):
            for link in tuple(self._links):
                link.abort()
            await asyncio.sleep(0)
        for server in self._servers:
            server.close()
        if self._timer is not None:
            self._timer.cancel()

    def perform(self, action: Callable[[], T]) -> T:
        """Call `action`, which may use and change the cluster and its network.

        Only for the thread of the event loop. The clients see the consequences at once.
        """
        self._catch_up()
        try:
            return action()
        finally:
            self._catch_up()

    def cause(self, kind: str, **arguments: object) -> None:
        """Cause a fault within an action of `perform`; see `ServedKafka.cause`."""
        cause(self._faults, kind, arguments)

    def _note(self, fault: str) -> None:
        self.network.trace.note(fault)
        if self._on_fault is not None:
            self._on_fault(fault)

    def _catch_up(self) -> None:
        """Let the simulated time reach the present, and plan when to do so again."""
        loop = asyncio.get_running_loop()
        now_ms = self._began_ms + int(loop.time() * 1000)
        self._clock.advance_to(max(now_ms, self._clock.now_ms()))
        # Invariant: a record is stamped no earlier than the client's clock when it was sent.
        self._clock.shift_wall(MonotonicClock().wall_ms() - self._clock.wall_ms())
        while self.network.next_ms <= self._clock.now_ms():
            try:
                self.network.deliver()
            except Exception:
                # Invariant: it belongs to no client and no caller, and what is behind it is due.
                log.exception("an action on the simulated cluster failed; the cluster continues")
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.network.next_ms < NEVER_MS:
            wait_ms = max(1, self.network.next_ms - now_ms)
            self._timer = loop.call_later(wait_ms / 1000, self._catch_up)

    def _reject(self, connection: SimConnection, error: Exception) -> None:
        """Close the connection of a client whose request is invalid or not simulated."""
        log.warning("a simulated broker closes a connection with an invalid request: %r", error)
        self.network.forget(connection)
        connection.open = True
        connection.cut("invalid request")

    def opened(self, link: _Link) -> None:
        """Note a connection, which is aborted at the end."""
        self._links.add(link)

    def closed(self, link: _Link) -> None:
        """Forget a connection."""
        self._links.discard(link)


class _Link(asyncio.Protocol):
    """The end of a TCP connection, which is also the client of a simulated one."""

    def __init__(self, owner: LoopbackCluster, address: Address) -> None:
        self._owner = owner
        self._address = address
        self._received = bytearray()
        self._frames: list[bytes] = []
        self._transport: asyncio.Transport | None = None
        self._connection: SimConnection | None = None
        self._opened = False

    # Calls of asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Continue on the simulated network."""
        if not isinstance(transport, asyncio.Transport):
            raise TypeError(f"no stream: {transport!r}")
        self._transport = transport
        self._owner.opened(self)
        server = ServerAddress(self._address[0], *self._address)
        network = self._owner.network

        def connect() -> None:
            self._connection = network.connect(self, server)

        self._owner.perform(connect)

    def data_received(self, data: bytes) -> None:
        """Pass complete frames on."""
        self._received += data
        while len(self._received) >= _LENGTH_BYTES:
            size = int.from_bytes(self._received[:_LENGTH_BYTES])
            if size > _MAX_REQUEST_BYTES:
                self.abort()
                return
            end = _LENGTH_BYTES + size
            if len(self._received) < end:
                break
            self._frames.append(bytes(self._received[_LENGTH_BYTES:end]))
            del self._received[:end]
        self._owner.perform(self._pass_on)

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 - asyncio's interface
        """Close the simulated connection."""
        self._owner.closed(self)
        connection = self._connection
        if connection is not None:
            self._owner.perform(lambda: self._owner.network.forget(connection))

    # Calls of the simulated network.

    def arrived(self, event: TransportEvent) -> None:
        """Pass an event of the simulated network on to the client."""
        if isinstance(event, ConnectionOpened):
            self._opened = True
            self._pass_on()
        elif isinstance(event, FrameReceived) and self._transport is not None:
            self._transport.write(len(event.frame).to_bytes(_LENGTH_BYTES) + event.frame)
        elif isinstance(event, ConnectionClosed) and self._transport is not None:
            self._transport.close()

    def _pass_on(self) -> None:
        if not self._opened or self._connection is None:
            return
        frames, self._frames = self._frames, []
        for frame in frames:
            self._connection.send(frame)

    def abort(self) -> None:
        """Close the TCP connection without sending the rest."""
        if self._transport is not None:
            self._transport.abort()


def _check(brokers: int, port: int, kafka: str | None) -> None:
    """Check what would fail behind the first open port."""
    if brokers < 1:
        raise ValueError(f"brokers={brokers}: must be at least 1")
    if not 0 <= port <= _LAST_PORT - (brokers - 1):
        raise ValueError(
            f"port={port}: with brokers={brokers}, must be 0 to {_LAST_PORT + 1 - brokers}"
        )
    if kafka is not None:
        release_named(kafka)


def _listening(port: int) -> socket.socket:
    return socket.create_server((_HOST, port))
