"""Heartbeats that the native transport sends while the network thread is blocked."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tandem_kafka.network.native_transport import NativeTransport
from tandem_kafka.network.transport import FrameReceived, KeepAliveResponse
from tandem_kafka.wire.messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    HeartbeatRequest,
    HeartbeatResponse,
)
from tests.unit.network.peers import PATIENCE_S, Peer, connected, events_of, needs_extension
from tests.unit.network.scripted import Settings

pytestmark = [pytest.mark.real_time, needs_extension]

PERIOD_MS = 100
LONG_MS = 60_000
FENCED_MEMBER_EPOCH = 110
REBALANCE_IN_PROGRESS = 27


@pytest.fixture
def transport() -> Iterator[NativeTransport]:
    transport = NativeTransport(Settings())
    yield transport
    transport.close()


def encoded(message: Any, correlation_id: int = 0) -> bytes:
    message.with_header(correlation_id=correlation_id, client_id="me")
    return bytes(message.encode(version=type(message).max_version, header=True, framed=True))


def classic(correlation_id: int = 0) -> bytes:
    message = HeartbeatRequest(group_id="g", generation_id=3, member_id="m", group_instance_id=None)
    return encoded(message, correlation_id)


def consumer(epoch: int, correlation_id: int = 0) -> bytes:
    message = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=epoch)
    return encoded(message, correlation_id)


def read_exactly(broker: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = broker.recv(count - len(data))
        assert piece, "closed"
        data += piece
    return data


def request(broker: socket.socket) -> tuple[int, bytes]:
    """The next request: its correlation id, and its frame with 0 in place of the id."""
    length = read_exactly(broker, 4)
    frame = read_exactly(broker, struct.unpack(">i", length)[0])
    (correlation_id,) = struct.unpack_from(">i", frame, 4)
    return correlation_id, length + frame[:4] + b"\0\0\0\0" + frame[8:]


def respond(broker: socket.socket, correlation_id: int, response: Any, request_type: Any) -> None:
    body = bytes(response.encode(version=request_type.max_version))
    payload = struct.pack(">i", correlation_id) + b"\0" + body
    broker.sendall(struct.pack(">i", len(payload)) + payload)


def classic_response(broker: socket.socket, correlation_id: int, code: int = 0) -> None:
    response = HeartbeatResponse(throttle_time_ms=0, error_code=code)
    respond(broker, correlation_id, response, HeartbeatRequest)


def consumer_response(
    broker: socket.socket, correlation_id: int, epoch: int, code: int = 0, target: Any = None
) -> None:
    response = ConsumerGroupHeartbeatResponse(
        throttle_time_ms=0,
        error_code=code,
        error_message=None,
        member_id="m",
        member_epoch=epoch,
        heartbeat_interval_ms=PERIOD_MS,
        assignment=target,
    )
    respond(broker, correlation_id, response, ConsumerGroupHeartbeatRequest)


def silent(broker: socket.socket, seconds: float) -> bool:
    """True if nothing is received in this time."""
    broker.settimeout(seconds)
    try:
        return not broker.recv(1)
    except TimeoutError:
        return True
    finally:
        broker.settimeout(PATIENCE_S)


def test_a_heartbeat_is_sent_in_each_period_while_the_thread_is_blocked(
    transport: NativeTransport, peer: Peer
) -> None:
    number, broker = connected(transport, peer)
    transport.keep_alive(number, classic(), PERIOD_MS, LONG_MS)
    started = time.monotonic()
    numbers = []
    for _ in range(5):
        correlation_id, frame = request(broker)
        assert frame == classic()
        numbers.append(correlation_id)
        classic_response(broker, correlation_id)
    assert time.monotonic() - started >= 4 * PERIOD_MS / 1000
    assert max(numbers) < 0
    assert len(set(numbers)) == 5
    assert transport._selector.beats >= 5


def test_nothing_is_sent_while_the_thread_polls(peer: Peer) -> None:
    """If the machine stops this thread between two polls, that is one more attempt."""

    def beats() -> int:
        transport = NativeTransport(Settings())
        number, _ = connected(transport, peer)
        transport.keep_alive(number, classic(), PERIOD_MS, LONG_MS)
        end = time.monotonic() + 1.0
        while time.monotonic() < end:
            assert transport.poll(20) == []
        assert transport.poll(500) == []
        sent = transport._selector.beats
        transport.close()
        return sent

    while beats():
        pass


def test_responses_without_new_data_are_not_reported(
    transport: NativeTransport, peer: Peer
) -> None:
    number, broker = connected(transport, peer)
    transport.keep_alive(number, consumer(7), PERIOD_MS, LONG_MS)
    for _ in range(3):
        consumer_response(broker, request(broker)[0], 7)
    broker.sendall(struct.pack(">i", 4) + struct.pack(">i", 99))
    (event,) = events_of(transport)
    assert isinstance(event, FrameReceived)
    assert transport.poll(10) == []


def test_a_new_epoch_is_reported_and_used(transport: NativeTransport, peer: Peer) -> None:
    number, broker = connected(transport, peer)
    transport.keep_alive(number, consumer(7), PERIOD_MS, LONG_MS)
    correlation_id, frame = request(broker)
    assert frame == consumer(7)
    consumer_response(broker, correlation_id, 8)
    correlation_id, frame = request(broker)
    assert frame == consumer(8)
    consumer_response(broker, correlation_id, 8)
    (event,) = events_of(transport)
    assert isinstance(event, KeepAliveResponse)
    body = ConsumerGroupHeartbeatResponse.decode(event.frame[5:], version=1)
    assert body.member_epoch == 8


def test_a_target_is_reported(transport: NativeTransport, peer: Peer) -> None:
    number, broker = connected(transport, peer)
    transport.keep_alive(number, consumer(7), PERIOD_MS, LONG_MS)
    target = ConsumerGroupHeartbeatResponse.Assignment(topic_partitions=[])
    consumer_response(broker, request(broker)[0], 7, target=target)
    assert request(broker)[1] == consumer(7)
    (event,) = events_of(transport)
    assert isinstance(event, KeepAliveResponse)


def test_an_error_ends_heartbeats_and_is_reported(transport: NativeTransport, peer: Peer) -> None:
    number, broker = connected(transport, peer)
    transport.keep_alive(number, consumer(7), PERIOD_MS, LONG_MS)
    consumer_response(broker, request(broker)[0], 0, FENCED_MEMBER_EPOCH)
    assert silent(broker, 0.5)
    (event,) = events_of(transport)
    assert isinstance(event, KeepAliveResponse)


def test_a_classic_rebalance_is_reported_and_heartbeats_continue(
    transport: NativeTransport, peer: Peer
) -> None:
    number, broker = connected(transport, peer)
    transport.keep_alive(number, classic(), PERIOD_MS, LONG_MS)
    classic_response(broker, request(broker)[0], REBALANCE_IN_PROGRESS)
    classic_response(broker, request(broker)[0], 0)
    (event,) = events_of(transport)
    assert isinstance(event, KeepAliveResponse)


def test_heartbeats_end_with_their_time(transport: NativeTransport, peer: Peer) -> None:
    number, broker = connected(transport, peer)
    transport.keep_alive(number, classic(), PERIOD_MS, 10 * PERIOD_MS)
    count = 0
    while not is_silent(broker, 1.0 if count else PATIENCE_S):
        count += 1
        assert count <= 10
    assert count


def is_silent(broker: socket.socket, seconds: float) -> bool:
    broker.settimeout(seconds)
    try:
        correlation_id, _ = request(broker)
    except TimeoutError:
        return True
    classic_response(broker, correlation_id)
    return False


def test_nothing_is_sent_while_a_heartbeat_is_in_flight(
    transport: NativeTransport, peer: Peer
) -> None:
    """Its response may change the epoch; the old epoch would get the member fenced."""
    number, broker = connected(transport, peer)
    transport.send(number, consumer(7, correlation_id=5))
    transport.keep_alive(number, consumer(7), PERIOD_MS, LONG_MS)
    assert request(broker)[0] == 5
    assert silent(broker, 0.5)
    consumer_response(broker, 5, 9)
    correlation_id, frame = request(broker)
    assert correlation_id < 0
    assert frame == consumer(9)
    (event,) = events_of(transport)
    assert isinstance(event, FrameReceived)  # response to Python's request, read in the watchdog


def test_a_member_without_epoch_sends_nothing(transport: NativeTransport, peer: Peer) -> None:
    number, broker = connected(transport, peer)
    transport.keep_alive(number, consumer(0), PERIOD_MS, LONG_MS)
    assert silent(broker, 0.5)


@pytest.mark.parametrize("api_key", [11, 12, 13, 14, 68])
def test_the_next_request_of_the_membership_ends_heartbeats(
    transport: NativeTransport, peer: Peer, api_key: int
) -> None:
    number, broker = connected(transport, peer)
    transport.keep_alive(number, classic(), PERIOD_MS, LONG_MS)
    transport.send(number, struct.pack(">ihhi", 8, api_key, 0, 3))
    transport.poll(0)
    read_exactly(broker, 12)
    assert silent(broker, 0.5)


@pytest.mark.parametrize("end", ["disconnect", "close"])
def test_heartbeats_end_with_the_connection(
    transport: NativeTransport, peer: Peer, end: str
) -> None:
    number, broker = connected(transport, peer)
    transport.keep_alive(number, classic(), PERIOD_MS, LONG_MS)
    if end == "disconnect":
        transport.disconnect(number)
    else:
        transport.close()
    assert broker.recv(100) == b""


def test_a_connection_lost_meanwhile_is_reported(transport: NativeTransport, peer: Peer) -> None:
    number, broker = connected(transport, peer)
    transport.keep_alive(number, classic(), PERIOD_MS, LONG_MS)
    classic_response(broker, request(broker)[0])
    broker.close()
    events = events_of(transport)
    assert [event.connection for event in events] == [number]


def test_frames_other_than_heartbeats_are_not_repeated(
    transport: NativeTransport, peer: Peer
) -> None:
    number, broker = connected(transport, peer)
    for frame in (b"", b"\0" * 11, struct.pack(">ihhi", 8, 3, 0, 3), consumer(7)[:20]):
        transport.keep_alive(number, frame, PERIOD_MS, LONG_MS)
    assert silent(broker, 0.4)
