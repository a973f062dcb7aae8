"""The APIs that simulated brokers of Kafka 4.3 support and reject, compared with a real one."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

import pytest

from tandem_kafka.network.connection import BrokerConnection
from tandem_kafka.types import Node
from tandem_kafka_testing.cluster.releases import RELEASES
from tandem_kafka_testing.kafka import RealKafka

FRAME = struct.Struct(">ihhih")
HEARTBEAT, API_VERSIONS, NO_CLIENT_ID = 12, 18, -1


@pytest.fixture
def wire(kafka: RealKafka) -> Iterator[socket.socket]:
    host, _, port = kafka.bootstrap().split(",")[0].rpartition(":")
    with socket.create_connection((host, int(port)), timeout=30.0) as connected:
        yield connected


def received(wire: socket.socket) -> bytes:
    """The next frame; nothing if the broker hangs up."""
    stream = wire.makefile("rb")
    length = stream.read(4)
    return stream.read(*struct.unpack(">i", length)) if length else b""


def test_the_table_matches_the_broker(wire: socket.socket) -> None:
    connection = BrokerConnection(Node(1, "localhost", 9092), "table", wire.sendall)
    connection.opened(0)
    connection.receive(memoryview(received(wire)), 0)
    assert connection.versions is not None
    offered = connection.versions.api_versions
    simulated = RELEASES["4.3"].versions
    assert {key: offered.get(key) for key in simulated} == dict(simulated)


def test_an_unknown_version_of_api_versions_is_rejected_by_both(wire: socket.socket) -> None:
    """Correlation id, error 35, one entry: ApiVersions from 0 to the highest."""
    wire.sendall(FRAME.pack(11, API_VERSIONS, 99, 7, NO_CLIENT_ID) + b"\0")  # no tags
    _, highest = RELEASES["4.3"].versions[API_VERSIONS]
    assert received(wire) == struct.pack(">ihihhh", 7, 35, 1, API_VERSIONS, 0, highest)


@pytest.mark.parametrize(("api_key", "version"), [(HEARTBEAT, 99), (999, 0)])
def test_an_unsupported_request_ends_the_connection_to_both(
    wire: socket.socket, api_key: int, version: int
) -> None:
    wire.sendall(FRAME.pack(10, api_key, version, 7, NO_CLIENT_ID))
    assert received(wire) == b""
