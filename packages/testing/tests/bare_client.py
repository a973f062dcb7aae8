"""A client without a consumer, for single requests to a simulated broker."""

from __future__ import annotations

import struct
from typing import Any

from tandem_kafka.network.transport import ConnectionClosed, FrameReceived, ServerAddress
from tandem_kafka.wire.messages import FetchRequest, FetchResponse
from tandem_kafka_testing import Simulation
from tandem_kafka_testing.network import SimTransport

__all__ = ["Client", "fetch", "fetched", "framed"]


class Client:
    """Sends frames to one broker and returns the responses."""

    def __init__(self, simulation: Simulation) -> None:
        self._transport = SimTransport(simulation.network)
        broker = simulation.cluster.brokers[1]
        self._number = self._transport.connect(ServerAddress(broker.host, broker.host, broker.port))
        self._transport.poll(1_000)

    def say(self, message: Any, version: int) -> bytes | None:
        """Return the frame of the response, None if the broker cuts the connection."""
        return self.send(framed(message, version))

    def send(self, frame: bytes) -> bytes | None:
        """Send a frame; returns that of the response, None if the broker cuts the connection."""
        self.post(frame)
        return self.receive()

    def post(self, frame: bytes) -> None:
        """Send a frame without waiting."""
        self._transport.send(self._number, struct.pack(">i", len(frame)) + frame)

    def receive(self) -> bytes | None:
        """Return the next frame, None if the broker cuts the connection."""
        (event,) = self._transport.poll(60_000)
        if isinstance(event, ConnectionClosed):
            return None
        assert isinstance(event, FrameReceived)
        return bytes(event.frame)


def framed(message: Any, version: int) -> bytes:
    """Return a request with its header."""
    message.with_header(correlation_id=7, client_id="c")
    encoded = message.encode(version=min(version, message.max_version), header=True)
    return bytes(encoded[:2] + struct.pack(">h", version) + encoded[4:])


def fetch(simulation: Simulation, session_id: int = 0, epoch: int = 0) -> Any:
    """Return a fetch of partition 0 of `orders` from its beginning."""
    topic = FetchRequest.FetchTopic
    wanted = topic.FetchPartition(
        partition=0,
        current_leader_epoch=-1,
        fetch_offset=0,
        last_fetched_epoch=-1,
        log_start_offset=-1,
        partition_max_bytes=1_000_000,
    )
    topic_id = simulation.cluster.topics["orders"].topic_id
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=1_000_000,
        isolation_level=0,
        session_id=session_id,
        session_epoch=epoch,
        topics=[topic(topic="orders", topic_id=topic_id, partitions=[wanted])],
        forgotten_topics_data=[],
        rack_id="",
    )


def fetched(frame: bytes | None, version: int = 12) -> Any:
    """Decode its response."""
    assert frame is not None
    return FetchResponse.decode(frame[4 + (version >= 12) :], version=version)
