from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tandem_kafka.errors import InvalidReceiveError, KafkaConnectionError
from tandem_kafka.network.selector import SelectorTransport
from tandem_kafka.network.transport import (
    ConnectionClosed,
    ConnectionOpened,
    FrameReceived,
    ServerAddress,
    TransportEvent,
)
from tests.unit.network.scripted import Settings


class Peer:
    """The broker's end: a listener and blocking sockets with a bound on every wait."""

    def __init__(self, family: socket.AddressFamily = socket.AF_INET) -> None:
        self.listener = socket.socket(family)
        self.listener.bind(("::1" if family == socket.AF_INET6 else "127.0.0.1", 0))
        self.listener.listen()
        self.listener.settimeout(5)
        self.sockets: list[socket.socket] = []

    @property
    def address(self) -> ServerAddress:
        ip, port = self.listener.getsockname()[:2]
        return ServerAddress("localhost", ip, port)

    def accept(self) -> socket.socket:
        sock, _ = self.listener.accept()
        sock.settimeout(5)
        self.sockets.append(sock)
        return sock

    def close(self) -> None:
        for sock in (self.listener, *self.sockets):
            sock.close()


@pytest.fixture
def peer() -> Iterator[Peer]:
    peer = Peer()
    yield peer
    peer.close()


@pytest.fixture
def transport() -> Iterator[SelectorTransport]:
    transport = SelectorTransport(Settings())
    yield transport
    transport.close()


def frame(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def events_of(transport: SelectorTransport, count: int = 1) -> list[TransportEvent]:
    """Poll until there are that many events, five seconds at most."""
    deadline = time.monotonic() + 5
    events: list[TransportEvent] = []
    while len(events) < count:
        assert time.monotonic() < deadline, f"only {events}"
        events += transport.poll(100)
    return events


def connected(transport: SelectorTransport, peer: Peer) -> tuple[int, socket.socket]:
    number = transport.connect(peer.address)
    assert events_of(transport) == [ConnectionOpened(number)]
    return number, peer.accept()


def closed(transport: SelectorTransport) -> Exception:
    (event,) = events_of(transport)
    assert isinstance(event, ConnectionClosed)
    return event.error


def test_frames_go_out_and_come_in(transport: SelectorTransport, peer: Peer) -> None:
    number, broker = connected(transport, peer)
    transport.send(number, frame(b"hello"))
    assert broker.recv(100) == frame(b"hello")
    broker.sendall(frame(b"one") + frame(b"") + frame(b"three"))
    events = events_of(transport, 3)
    assert all(isinstance(event, FrameReceived) for event in events)
    assert [bytes(event.frame) for event in events if isinstance(event, FrameReceived)] == [
        b"one",
        b"",
        b"three",
    ]


def test_sent_before_it_is_open(transport: SelectorTransport, peer: Peer) -> None:
    number = transport.connect(peer.address)
    transport.send(number, frame(b"early"))
    events_of(transport)
    assert peer.accept().recv(100) == frame(b"early")


def test_ipv6(transport: SelectorTransport) -> None:
    try:
        peer = Peer(socket.AF_INET6)
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")
    connected(transport, peer)
    peer.close()


def test_a_large_frame_comes_as_one_event_in_a_buffer_of_its_own(
    transport: SelectorTransport, peer: Peer
) -> None:
    number, broker = connected(transport, peer)
    payload = bytes(range(256)) * 3000
    sender = threading.Thread(target=broker.sendall, args=(frame(payload),))
    sender.start()
    (event,) = events_of(transport)
    sender.join(5)
    assert isinstance(event, FrameReceived)
    assert event.connection == number
    assert event.frame == payload
    assert isinstance(event.frame.obj, bytearray)
    assert len(event.frame.obj) == len(payload)


def test_a_frame_larger_than_the_sockets_buffer_is_sent_in_turns(
    transport: SelectorTransport, peer: Peer
) -> None:
    number, broker = connected(transport, peer)
    data = frame(b"x" * 20_000_000)
    transport.send(number, data)
    received = bytearray()

    def receive() -> None:
        while len(received) < len(data):
            received.extend(broker.recv(1 << 20))

    reader = threading.Thread(target=receive)
    reader.start()
    deadline = time.monotonic() + 10
    while reader.is_alive():
        assert time.monotonic() < deadline
        transport.poll(20)
    assert received == data
    assert spins(transport) <= 2  # the interest in writing is gone


def spins(transport: SelectorTransport, seconds: float = 0.2) -> int:
    """How often an idle poll goes round, counted at the selector."""
    count = 0
    select = transport._selector.select

    def counting(timeout: float | None = None) -> Any:
        nonlocal count
        count += 1
        return select(timeout)

    transport._selector.select = counting  # type: ignore[method-assign]
    try:
        assert transport.poll(int(seconds * 1000)) == []
    finally:
        transport._selector.select = select  # type: ignore[method-assign]
    return count


def test_an_idle_poll_waits_for_its_whole_time(transport: SelectorTransport, peer: Peer) -> None:
    connected(transport, peer)
    started = time.monotonic()
    assert spins(transport) <= 2
    assert time.monotonic() - started >= 0.19


def test_a_piece_of_a_frame_is_no_event(transport: SelectorTransport, peer: Peer) -> None:
    _, broker = connected(transport, peer)
    broker.sendall(frame(b"abcdef")[:7])
    assert spins(transport) <= 4
    broker.sendall(b"def")
    (event,) = events_of(transport)
    assert isinstance(event, FrameReceived)
    assert bytes(event.frame) == b"abcdef"


def test_refused(transport: SelectorTransport, peer: Peer) -> None:
    address = peer.address
    peer.close()
    transport.connect(address)
    error = closed(transport)
    assert isinstance(error, KafkaConnectionError)
    assert f"localhost:{address.port} (127.0.0.1): Connection refused" in str(error)


def test_an_address_that_cannot_be_used(transport: SelectorTransport) -> None:
    number = transport.connect(ServerAddress("nowhere", "127.0.0.1", 70_000))
    transport.send(number, frame(b"x"))
    assert isinstance(closed(transport), KafkaConnectionError)


def test_the_brokers_end(transport: SelectorTransport, peer: Peer) -> None:
    number, broker = connected(transport, peer)
    broker.sendall(frame(b"last words"))
    broker.close()
    events = events_of(transport, 2)
    assert isinstance(events[0], FrameReceived)
    assert isinstance(events[1], ConnectionClosed)
    assert "closed the connection" in str(events[1].error)
    transport.send(number, frame(b"into the void"))
    assert transport.poll(0) == []


def test_a_reset(transport: SelectorTransport, peer: Peer) -> None:
    _, broker = connected(transport, peer)
    broker.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    broker.close()
    error = closed(transport)
    assert isinstance(error, KafkaConnectionError)
    assert "Connection reset" in str(error)


def test_an_oversize_frame_ends_the_connection_behind_the_good_ones(
    transport: SelectorTransport, peer: Peer
) -> None:
    _, broker = connected(transport, peer)
    broker.sendall(frame(b"good") + b"HTTP/1.1 400 Bad Request")
    events = events_of(transport, 2)
    assert isinstance(events[0], FrameReceived)
    assert isinstance(events[1], ConnectionClosed)
    assert isinstance(events[1].error, InvalidReceiveError)
    assert "receive_message_max_bytes" in str(events[1].error)


def test_disconnect_is_silent(transport: SelectorTransport, peer: Peer) -> None:
    number, broker = connected(transport, peer)
    broker.sendall(frame(b"unread"))
    transport.disconnect(number)
    transport.disconnect(number)
    assert transport.poll(50) == []
    with pytest.raises(ConnectionResetError):
        broker.recv(10)


def test_a_busy_connection_does_not_starve_the_others(
    transport: SelectorTransport, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tandem_kafka.network.channel.RECEIVE_BUDGET", 1000)
    _, busy = connected(transport, peer)
    quiet_number, quiet = connected(transport, peer)
    busy.sendall(frame(b"x" * 400_000)[:300_000])
    quiet.sendall(frame(b"me too"))
    (event,) = events_of(transport)
    assert isinstance(event, FrameReceived)
    assert event.connection == quiet_number


def test_socket_options_are_set(peer: Peer) -> None:
    settings = Settings(
        send_buffer_bytes=50_000,
        receive_buffer_bytes=60_000,
        socket_options=[(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 33)],
    )
    transport = SelectorTransport(settings)
    number, _ = connected(transport, peer)
    sock = transport._channels[number].sock
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) >= 50_000
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) >= 60_000
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 33
    assert not sock.getblocking()
    transport.close()


def test_wakeup_ends_a_running_poll(transport: SelectorTransport) -> None:
    waker = threading.Timer(0.05, transport.wakeup)
    started = time.monotonic()
    waker.start()
    assert transport.poll(5000) == []
    assert time.monotonic() - started < 2
    waker.join()
    assert spins(transport, 0.1) <= 2


def test_wakeup_before_poll_is_not_lost_and_is_used_up(transport: SelectorTransport) -> None:
    transport.wakeup()
    started = time.monotonic()
    transport.poll(5000)
    assert time.monotonic() - started < 1
    assert spins(transport, 0.1) <= 2


def test_wakeups_coalesce(transport: SelectorTransport, monkeypatch: pytest.MonkeyPatch) -> None:
    class Counting:
        calls = 0

        def send(self, data: bytes) -> int:
            Counting.calls += 1
            return len(data)

    real = transport._wakeup_writer
    monkeypatch.setattr(transport, "_wakeup_writer", Counting())
    for _ in range(1000):
        transport.wakeup()
    assert Counting.calls == 0  # the thread does not sleep: it will look by itself
    transport.poll(0)
    transport._polling = True
    for _ in range(1000):
        transport.wakeup()
    assert Counting.calls == 1
    monkeypatch.setattr(transport, "_wakeup_writer", real)


def test_no_wakeup_is_lost_between_threads(transport: SelectorTransport) -> None:
    """Each side hands the other a turn: a lost wake-up would cost the poll's whole time."""
    done: list[int] = []
    wanted: list[int] = []

    def ask() -> None:
        for number in range(2000):
            wanted.append(number)
            transport.wakeup()
            while len(done) <= number:
                time.sleep(0)

    asker = threading.Thread(target=ask)
    asker.start()
    started = time.monotonic()
    while len(done) < 2000:
        transport.poll(3000)
        done.extend(wanted[len(done) :])
    asker.join(5)
    assert time.monotonic() - started < 20


def test_closing_twice_and_waking_after_it(peer: Peer) -> None:
    transport = SelectorTransport(Settings())
    connected(transport, peer)
    transport.close()
    transport.close()
    transport._polling = True
    transport.wakeup()
