"""Slow, faulty and hostile peers, for every transport over sockets."""

from __future__ import annotations

import re
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tandem_kafka.errors import InvalidReceiveError, KafkaConnectionError
from tandem_kafka.network.native_transport import NativeTransport
from tandem_kafka.network.transport import ConnectionClosed, ConnectionOpened, FrameReceived
from tests.unit.network.peers import (
    AnyTransport,
    NewTransport,
    Peer,
    closed,
    connected,
    events_of,
    frame,
    received,
    spins,
    turns_counted,
)
from tests.unit.network.scripted import Settings
from tests.waiting import until

pytestmark = pytest.mark.real_time


@pytest.fixture
def transport(new_transport: NewTransport) -> Iterator[AnyTransport]:
    transport = new_transport(Settings(receive_message_max_bytes=100_000_000))
    yield transport
    transport.close()


def test_a_huge_frame_in_slow_parts_is_one_event(transport: AnyTransport, peer: Peer) -> None:
    _, broker = connected(transport, peer)
    data = frame(bytes(range(256)) * 100_000)
    pieces = [data[:2], data[2:4], data[4:5], data[5:70_000]]
    pieces += [data[start : start + 3_000_000] for start in range(70_000, len(data), 3_000_000)]

    def send() -> None:
        for piece in pieces:
            broker.sendall(piece)
            time.sleep(0)

    sender = threading.Thread(target=send)
    sender.start()
    (event,) = events_of(transport)
    sender.join()
    assert isinstance(event, FrameReceived)
    assert event.frame == data[4:]


def test_parts_of_a_frame_do_not_end_a_poll(transport: AnyTransport, peer: Peer) -> None:
    _, broker = connected(transport, peer)
    data = frame(b"z" * 2_000_000)
    broker.sendall(data[:1000])
    assert transport.poll(20) == []
    sender = threading.Thread(target=broker.sendall, args=(data[1000:],))
    sender.start()
    (event,) = transport.poll(5000)
    sender.join()
    assert isinstance(event, FrameReceived)
    assert event.frame == data[4:]


def test_many_frames_in_one_segment(transport: AnyTransport, peer: Peer) -> None:
    _, broker = connected(transport, peer)
    broker.sendall(b"".join(frame(b"%d" % number) for number in range(5000)))
    events = events_of(transport, 5000)
    frames = [bytes(event.frame) for event in events if isinstance(event, FrameReceived)]
    assert frames == [b"%d" % number for number in range(5000)]


def test_a_frame_and_the_start_of_the_next(transport: AnyTransport, peer: Peer) -> None:
    _, broker = connected(transport, peer)
    data = b"".join(frame(b"%d" % size * size) for size in (0, 1, 70_000, 2, 100_000))
    for start in range(0, len(data), 33_333):
        broker.sendall(data[start : start + 33_333])
    events = events_of(transport, 5)
    frames = [len(event.frame) for event in events if isinstance(event, FrameReceived)]
    assert frames == [0, 1, 350_000, 2, 600_000]


def test_a_disconnect_within_a_frame_does_not_affect_others(
    transport: AnyTransport, peer: Peer
) -> None:
    begun, first = connected(transport, peer)
    number, second = connected(transport, peer)
    first.sendall(frame(b"x" * 500_000)[:200_000])
    assert transport.poll(20) == []
    transport.disconnect(begun)
    second.sendall(frame(b"still here"))
    (event,) = events_of(transport)
    assert isinstance(event, FrameReceived)
    assert event.connection == number
    assert spins(transport) <= 2


def test_a_disconnect_while_connecting(transport: AnyTransport, peer: Peer) -> None:
    number = transport.connect(peer.address)
    transport.disconnect(number)
    assert transport.poll(50) == []


def test_a_full_socket_does_not_spin(transport: AnyTransport, peer: Peer) -> None:
    number, broker = connected(transport, peer)
    data = frame(b"x" * 30_000_000)
    transport.send(number, data)
    transport.send(number, frame(b"behind"))
    while transport.poll(20):  # fill the socket buffers
        pass
    assert spins(transport) <= 3
    assert received(transport, broker, len(data) + 10) == data + frame(b"behind")


@pytest.mark.parametrize("size", [-1, -(2**31), 1001, 2**31 - 1])
def test_hostile_lengths(new_transport: NewTransport, peer: Peer, size: int) -> None:
    transport = new_transport(Settings(receive_message_max_bytes=1000))
    _, broker = connected(transport, peer)
    broker.sendall(struct.pack(">i", size) + b"and something behind it")
    error = closed(transport)
    assert isinstance(error, InvalidReceiveError)
    expected = f"of negative size {size}" if size < 0 else f"of {size} bytes, more than the 1000"
    assert f"localhost:{peer.address.port} (127.0.0.1) sent a frame {expected}" in str(error)
    transport.close()


def test_a_length_without_data_costs_no_memory(new_transport: NewTransport, peer: Peer) -> None:
    if new_transport is not NativeTransport:
        pytest.skip("the Python transport allocates what the options allow")
    transport = new_transport(Settings(receive_message_max_bytes=2**31 - 1))
    before = resident_bytes()
    _, broker = connected(transport, peer)
    broker.sendall(struct.pack(">i", 2**31 - 1) + b"x" * 1000)
    assert transport.poll(50) == []
    assert resident_bytes() - before < 50_000_000
    transport.close()


def resident_bytes() -> int:
    status = Path("/proc/self/status")
    if not status.exists():
        pytest.skip("no /proc here")
    found = re.search(r"VmRSS:\s+(\d+) kB", status.read_text())
    assert found is not None
    return int(found[1]) * 1024


def test_a_connection_lost_within_a_frame(transport: AnyTransport, peer: Peer) -> None:
    _, broker = connected(transport, peer)
    broker.sendall(frame(b"whole") + frame(b"x" * 300_000)[:200_000])
    broker.close()
    events = events_of(transport, 2)
    assert isinstance(events[0], FrameReceived)
    assert isinstance(events[1], ConnectionClosed)
    assert isinstance(events[1].error, KafkaConnectionError)
    assert "closed the connection" in str(events[1].error)
    assert spins(transport) <= 2


def test_an_end_together_with_the_last_bytes(transport: AnyTransport, peer: Peer) -> None:
    """The end of the stream has no event of its own if it arrives before the data is read."""
    number = transport.connect(peer.address)
    broker = peer.accept()
    broker.sendall(frame(b"last"))
    broker.close()
    events = events_of(transport, 3)
    assert events[0] == ConnectionOpened(number)
    assert [type(event) for event in events[1:]] == [FrameReceived, ConnectionClosed]


def test_a_busy_connection_does_not_block_others(transport: AnyTransport, peer: Peer) -> None:
    _, busy = connected(transport, peer)
    quiet_number, quiet = connected(transport, peer)
    stop = threading.Event()

    def flood() -> None:
        data = frame(b"x" * 90_000_000)
        while not stop.is_set():
            try:
                busy.sendall(data)
            except OSError:
                return

    flooder = threading.Thread(target=flood)
    flooder.start()
    quiet.sendall(frame(b"me too"))
    seen: set[int] = set()
    for _ in until(lambda: quiet_number in seen):
        seen.update(event.connection for event in transport.poll(100))
    stop.set()
    transport.close()
    flooder.join()
    assert not flooder.is_alive()


def test_waiting_costs_one_system_call(transport: AnyTransport, peer: Peer) -> None:
    connected(transport, peer)
    transport.poll(10)
    waker = threading.Timer(0.1, transport.wakeup)
    waker.start()
    assert turns_counted(transport, lambda: transport.poll(5000)) <= 2
    waker.join()
