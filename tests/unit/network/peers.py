"""The broker's side of sockets, and the two transports that are tested against it."""

from __future__ import annotations

import os
import socket
import struct
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tandem_kafka.network.native_transport import NativeTransport
from tandem_kafka.network.selector import SelectorTransport
from tandem_kafka.network.transport import (
    ConnectionClosed,
    ConnectionOpened,
    ServerAddress,
    TransportEvent,
)
from tandem_kafka.runtime.native import native_available
from tests.waiting import until

AnyTransport = SelectorTransport | NativeTransport
NewTransport = Callable[[Any], AnyTransport]

_REQUIRED = (
    os.environ.get("TANDEM_KAFKA_NATIVE") == "require"
    and os.environ.get("TANDEM_KAFKA_IMPL") != "python"
)
needs_extension = pytest.mark.skipif(
    not native_available and not _REQUIRED, reason="the native extension is not available"
)
IMPLEMENTATIONS = [
    pytest.param(SelectorTransport, id="python"),
    pytest.param(NativeTransport, id="native", marks=needs_extension),
]


#: Longer than a test may take: what must end such a poll is no timeout.
ENDLESS_MS = 3_600_000
#: Long enough for a slow machine; a passing test never waits that long.
PATIENCE_S = 30.0


class Peer:
    """The broker's side: a listener and blocking sockets with timeouts."""

    def __init__(self, family: socket.AddressFamily = socket.AF_INET) -> None:
        self.listener = socket.socket(family)
        self.listener.bind(("::1" if family == socket.AF_INET6 else "127.0.0.1", 0))
        self.listener.listen()
        self.listener.settimeout(PATIENCE_S)
        self.host = "localhost"
        self.sockets: list[socket.socket] = []

    @property
    def address(self) -> ServerAddress:
        ip, port = self.listener.getsockname()[:2]
        return ServerAddress(self.host, ip, port)

    def accept(self) -> socket.socket:
        sock, _ = self.listener.accept()
        sock.settimeout(PATIENCE_S)
        self.sockets.append(sock)
        return sock

    def close(self) -> None:
        for sock in (self.listener, *self.sockets):
            sock.close()


def frame(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def events_of(transport: AnyTransport, count: int = 1) -> list[TransportEvent]:
    """Poll until there is the given number of events."""
    events: list[TransportEvent] = []
    for _ in until(lambda: len(events) >= count, lambda: f"only {events}"):
        events.extend(transport.poll(100))
    return events


def connected(transport: AnyTransport, peer: Peer) -> tuple[int, socket.socket]:
    number = transport.connect(peer.address)
    assert events_of(transport) == [ConnectionOpened(number)]
    return number, peer.accept()


def received(transport: AnyTransport, broker: socket.socket, size: int) -> bytes:
    """Poll until the broker has received a number of bytes that exceeds a socket buffer."""
    data = bytearray()

    def receive() -> None:
        while len(data) < size:
            data.extend(broker.recv(1 << 20))

    reader = threading.Thread(target=receive)
    reader.start()
    for _ in until(lambda: not reader.is_alive()):
        transport.poll(20)
    return bytes(data)


def closed(transport: AnyTransport) -> Exception:
    (event,) = events_of(transport)
    assert isinstance(event, ConnectionClosed)
    return event.error


def turns_counted(transport: AnyTransport, poll: Callable[[], Any]) -> int:
    """The number of system calls for events during a `poll`."""
    if isinstance(transport, NativeTransport):
        before = transport._selector.turns
        poll()
        return transport._selector.turns - before
    count = 0
    select = transport._selector.select

    def counting(timeout: float | None = None) -> Any:
        nonlocal count
        count += 1
        return select(timeout)

    transport._selector.select = counting  # type: ignore[method-assign]
    try:
        poll()
    finally:
        transport._selector.select = select  # type: ignore[method-assign]
    return count


def spins(transport: AnyTransport, seconds: float = 0.2) -> int:
    """The number of iterations of an idle poll."""

    def poll() -> None:
        assert transport.poll(int(seconds * 1000)) == []

    return turns_counted(transport, poll)


def socket_to(broker: socket.socket) -> socket.socket:
    """The client's end of the broker's socket, within this process."""
    wanted = (broker.getpeername(), broker.getsockname())
    for number in range(3, 1024):
        try:
            sock = socket.socket(fileno=os.dup(number))
        except OSError:
            continue
        try:
            if (sock.getsockname(), sock.getpeername()) == wanted:
                return sock
        except OSError:
            pass
        sock.close()
    raise AssertionError("there is no such socket")
