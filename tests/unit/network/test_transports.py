"""Tests of every transport over sockets; those of Python only are in their own file."""

from __future__ import annotations

import gc
import os
import re
import socket
import struct
import threading
import time
from collections.abc import Iterator

import pytest

from tandem_kafka.errors import (
    InvalidReceiveError,
    KafkaConnectionError,
    KafkaProtocolError,
)
from tandem_kafka.network.native_transport import NativeTransport
from tandem_kafka.network.transport import (
    ConnectionClosed,
    FrameReceived,
    ServerAddress,
)
from tandem_kafka.records import decode_fetch_response
from tests.open_files import OPEN_FILES, open_files
from tests.unit.network.peers import (
    ENDLESS_MS,
    AnyTransport,
    NewTransport,
    Peer,
    closed,
    connected,
    events_of,
    frame,
    received,
    socket_to,
    spins,
)
from tests.unit.network.scripted import Settings
from tests.unit.records.making import Rec, batch, uvarint

pytestmark = pytest.mark.real_time


@pytest.fixture
def transport(new_transport: NewTransport) -> Iterator[AnyTransport]:
    transport = new_transport(Settings())
    yield transport
    transport.close()


def test_frames_are_sent_and_received(transport: AnyTransport, peer: Peer) -> None:
    number, broker = connected(transport, peer)
    transport.send(number, frame(b"hello"))
    transport.poll(0)
    assert broker.recv(100) == frame(b"hello")
    transport.send(number, bytearray(frame(b"mutable")))  # the type that kafka-python returns
    transport.poll(0)
    assert broker.recv(100) == frame(b"mutable")
    broker.sendall(frame(b"one") + frame(b"") + frame(b"three"))
    events = events_of(transport, 3)
    assert all(isinstance(event, FrameReceived) for event in events)
    assert [bytes(event.frame) for event in events if isinstance(event, FrameReceived)] == [
        b"one",
        b"",
        b"three",
    ]


def test_a_frame_sent_before_the_connection_is_open(transport: AnyTransport, peer: Peer) -> None:
    number = transport.connect(peer.address)
    transport.send(number, frame(b"early"))
    events_of(transport)
    assert peer.accept().recv(100) == frame(b"early")


def test_ipv6(transport: AnyTransport) -> None:
    try:
        peer = Peer(socket.AF_INET6)
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")
    connected(transport, peer)
    peer.close()


def test_a_large_frame_is_one_event_with_its_own_buffer(
    transport: AnyTransport, peer: Peer
) -> None:
    number, broker = connected(transport, peer)
    payload = bytes(range(256)) * 3000
    sender = threading.Thread(target=broker.sendall, args=(frame(payload),))
    sender.start()
    (event,) = events_of(transport)
    sender.join()
    assert isinstance(event, FrameReceived)
    assert event.connection == number
    assert event.frame == payload
    assert len(event.frame.obj) == len(payload)  # type: ignore[arg-type]


def test_a_frame_larger_than_the_socket_buffer_is_sent_in_parts(
    transport: AnyTransport, peer: Peer
) -> None:
    number, broker = connected(transport, peer)
    data = frame(b"x" * 20_000_000)
    transport.send(number, data)
    assert received(transport, broker, len(data)) == data
    assert spins(transport) <= 2  # it no longer waits for writing


def test_an_idle_poll_waits_for_its_whole_timeout(transport: AnyTransport, peer: Peer) -> None:
    connected(transport, peer)
    started = time.monotonic()
    assert spins(transport) <= 2
    assert time.monotonic() - started >= 0.19


def test_a_part_of_a_frame_is_no_event(transport: AnyTransport, peer: Peer) -> None:
    _, broker = connected(transport, peer)
    broker.sendall(frame(b"abcdef")[:7])
    assert spins(transport) <= 4
    broker.sendall(b"def")
    (event,) = events_of(transport)
    assert isinstance(event, FrameReceived)
    assert bytes(event.frame) == b"abcdef"


def test_a_refused_connection(transport: AnyTransport, peer: Peer) -> None:
    address = peer.address
    peer.close()
    transport.connect(address)
    error = closed(transport)
    assert isinstance(error, KafkaConnectionError)
    assert f"localhost:{address.port} (127.0.0.1): Connection refused" in str(error)


def test_an_unusable_address(transport: AnyTransport) -> None:
    number = transport.connect(ServerAddress("nowhere", "127.0.0.1", 70_000))
    transport.send(number, frame(b"x"))
    assert isinstance(closed(transport), KafkaConnectionError)


def test_the_brokers_end(transport: AnyTransport, peer: Peer) -> None:
    number, broker = connected(transport, peer)
    broker.sendall(frame(b"last words"))
    broker.close()
    events = events_of(transport, 2)
    assert isinstance(events[0], FrameReceived)
    assert isinstance(events[1], ConnectionClosed)
    assert "closed the connection" in str(events[1].error)
    transport.send(number, frame(b"into the void"))
    assert transport.poll(0) == []


def test_a_reset(transport: AnyTransport, peer: Peer) -> None:
    _, broker = connected(transport, peer)
    broker.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    broker.close()
    error = closed(transport)
    assert isinstance(error, KafkaConnectionError)
    assert "Connection reset" in str(error)


@pytest.mark.parametrize(
    ("sent", "text"),
    [
        (b"SSH-2.0-", "receive_message_max_bytes"),
        (b"HTTP/1.1 400 Bad Request", "responded with HTTP: it is not a Kafka broker"),
        (bytes([21, 3, 3, 0, 2, 2, 70]), "with a TLS alert: this port requires TLS; set security"),
        (bytes([21, 3, 1, 0, 2, 2, 40]), "set security_protocol to 'SSL' or 'SASL_SSL'"),
    ],
)
def test_an_oversize_frame_ends_the_connection_after_the_valid_ones(
    transport: AnyTransport, peer: Peer, sent: bytes, text: str
) -> None:
    _, broker = connected(transport, peer)
    broker.sendall(frame(b"good") + sent)
    events = events_of(transport, 2)
    assert isinstance(events[0], FrameReceived)
    assert isinstance(events[1], ConnectionClosed)
    assert isinstance(events[1].error, InvalidReceiveError)
    assert text in str(events[1].error)


def test_disconnect_is_silent(transport: AnyTransport, peer: Peer) -> None:
    number, broker = connected(transport, peer)
    broker.sendall(frame(b"unread"))
    transport.disconnect(number)
    transport.disconnect(number)
    assert transport.poll(50) == []
    with pytest.raises(ConnectionResetError):
        broker.recv(10)


def test_socket_options_are_set(new_transport: NewTransport, peer: Peer) -> None:
    settings = Settings(
        send_buffer_bytes=50_000,
        receive_buffer_bytes=60_000,
        socket_options=[(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 33)],
    )
    transport = new_transport(settings)
    _, broker = connected(transport, peer)
    sock = socket_to(broker)
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) >= 50_000
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) >= 60_000
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 33
    assert not os.get_blocking(sock.fileno())
    sock.close()
    transport.close()


def test_wakeup_ends_a_running_poll(transport: AnyTransport) -> None:
    waker = threading.Timer(0.05, transport.wakeup)
    waker.start()
    assert transport.poll(ENDLESS_MS) == []
    waker.join()
    assert spins(transport, 0.1) <= 2


def test_wakeup_before_poll_is_not_lost_and_counts_once(transport: AnyTransport) -> None:
    transport.wakeup()
    transport.poll(ENDLESS_MS)
    assert spins(transport, 0.1) <= 2


def test_no_wakeup_is_lost_between_threads(transport: AnyTransport) -> None:
    """Both sides alternate: after a lost wakeup, the poll would never end."""
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
    try:
        while len(done) < 2000:
            transport.poll(ENDLESS_MS)
            done.extend(wanted[len(done) :])
    finally:
        done.extend(range(2000))  # the asker waits for no more
        asker.join()
    assert wanted == list(range(2000))


def test_closing_twice_and_waking_after_it(new_transport: NewTransport, peer: Peer) -> None:
    transport = new_transport(Settings())
    connected(transport, peer)
    transport.close()
    transport.close()
    if not isinstance(transport, NativeTransport):
        transport._polling = True
    transport.wakeup()


@pytest.mark.skipif(not OPEN_FILES.is_dir(), reason="needs a list of open files")
def test_a_closed_transport_keeps_no_file_open(new_transport: NewTransport, peer: Peer) -> None:
    gc.collect()  # of other tests
    gc.disable()
    try:
        before = open_files()
        transport = new_transport(Settings())
        _, broker = connected(transport, peer)
        broker.close()
        transport.wakeup()
        transport.close()
        assert open_files() == before
        transport.wakeup()
    finally:
        gc.enable()


def fetch_response(*partitions: bytes) -> bytes:
    """Return the response of version 12 to request 5, including its header."""
    out = struct.pack(">ibihi", 5, 0, 0, 0, 77) + b"\x02\x02t" + uvarint(len(partitions) + 1)
    for number, data in enumerate(partitions):
        out += struct.pack(">ihqqq", number, 0, 100, 100, 0) + b"\x01" + struct.pack(">i", -1)
        out += uvarint(len(data) + 1) + data + b"\x00"
    return out + b"\x00\x00"


@pytest.mark.parametrize("piece", [1_000_000, 3_001, 100])
def test_the_partitions_of_a_fetch_response_are_complete(
    transport: AnyTransport, peer: Peer, piece: int
) -> None:
    number, broker = connected(transport, peer)
    transport.send(number, frame(struct.pack(">hhih", 1, 12, 5, -1)))
    transport.poll(0)
    broker.recv(100)
    sent = [batch([Rec(bytes([n]) * size)]) for n, size in enumerate((50, 100_000, 9, 9_000))]
    response = fetch_response(*sent)
    data = frame(response) + frame(b"\0\0\0\x06next")

    def send() -> None:
        for at in range(0, len(data), piece):
            broker.sendall(data[at : at + piece])

    sender = threading.Thread(target=send)
    sender.start()
    first, second = events_of(transport, 2)
    sender.join()
    assert isinstance(first, FrameReceived)
    assert isinstance(second, FrameReceived)
    assert len(first.frame) + first.separate_bytes == len(response)
    assert (bytes(second.frame), second.separate_bytes) == (b"\0\0\0\x06next", 0)
    native = isinstance(transport, NativeTransport)
    assert first.separate_bytes == (len(sent[1]) + len(sent[3]) if native else 0)
    partitions = decode_fetch_response(first.frame[5:], 12).partitions
    assert [bytes(partition.records or b"") for partition in partitions] == sent


def test_a_fetch_response_with_extra_bytes_is_invalid(transport: AnyTransport, peer: Peer) -> None:
    number, broker = connected(transport, peer)
    transport.send(number, frame(struct.pack(">hhih", 1, 12, 5, -1)))
    transport.poll(0)
    response = fetch_response(batch([Rec(b"v" * 9_000)]))
    broker.sendall(frame(response + b"more"))
    (event,) = events_of(transport)
    assert isinstance(event, FrameReceived)
    with pytest.raises(KafkaProtocolError, match=r"response v12: 4 bytes too many"):
        decode_fetch_response(event.frame[5:], 12)


def test_an_error_after_large_records_names_its_position(
    transport: AnyTransport, peer: Peer
) -> None:
    number, broker = connected(transport, peer)
    transport.send(number, frame(struct.pack(">hhih", 1, 12, 5, -1)))
    transport.poll(0)
    response = fetch_response(batch([Rec(b"v" * 9_000)]))[:-2] + b"\x00\x01\x00\x7f"
    broker.sendall(frame(response))
    (event,) = events_of(transport)
    assert isinstance(event, FrameReceived)
    with pytest.raises(KafkaProtocolError) as caught:
        decode_fetch_response(event.frame[5:], 12)
    place = rf"at byte {len(response) - 5}: a field of 127 bytes does not fit"
    assert re.search(place, str(caught.value)), caught.value
