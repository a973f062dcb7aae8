from __future__ import annotations

import struct
from typing import Any

import pytest
from kafka.errors import CorrelationIdError, RequestTimedOutError

from tandem_kafka.errors import (
    KafkaConnectionError,
    KafkaProtocolError,
    UnsupportedVersionError,
)
from tandem_kafka.network.connection import TRANSITIONS, BrokerConnection, ConnectionState
from tandem_kafka.network.request import ANY_NODE, ClientResponse, UnsentRequest
from tandem_kafka.network.response import parse_header, throttle_ms
from tandem_kafka.wire.messages import (
    ApiVersionsRequest,
    FetchRequest,
    JoinGroupRequest,
    MetadataRequest,
)
from tandem_kafka.wire.versions import (
    BrokerVersionData,
    agreed_versions,
    choose_version,
    versions_of_release,
)
from tests.unit.network.scripted import (
    NODE_1,
    VERSIONS,
    RecordedConnection,
    ScriptedTransport,
    Sent,
    api_versions,
    frame_of,
    metadata_response,
)


def take_sent(connection: RecordedConnection) -> list[Sent]:
    transport = ScriptedTransport()
    for frame in connection.frames:
        transport.send(0, frame)
    connection.frames.clear()
    return transport.take_sent()


def ready(**arguments: Any) -> RecordedConnection:
    connection = RecordedConnection(**arguments)
    connection.opened(0)
    (asked,) = take_sent(connection)
    assert connection.receive(frame_of(asked, api_versions()), 0) is None
    assert connection.state is ConnectionState.READY
    return connection


def unsent(message: Any = None, timeout_ms: int = 1000, **more: Any) -> UnsentRequest:
    return UnsentRequest(message or MetadataRequest(), ANY_NODE, 10_000, timeout_ms, **more)


def test_versions_are_requested_first_with_the_client_name() -> None:
    connection = RecordedConnection()
    connection.opened(0)
    (asked,) = take_sent(connection)
    assert (asked.api_key, asked.version) == (18, ApiVersionsRequest.max_version)
    assert b"tandem-kafka" in asked.frame
    assert connection.state is ConnectionState.NEGOTIATING


def test_an_undecodable_rejection_falls_back_to_version_0() -> None:
    """librdkafka's mock broker writes a plain array in place of a compact one."""
    connection = RecordedConnection()
    connection.opened(0)
    (asked,) = take_sent(connection)
    frame = struct.pack(">ih", asked.correlation_id, 35) + bytes.fromhex("01001200000002 00000000")
    connection.receive(memoryview(frame), 0)
    assert [sent.version for sent in take_sent(connection)] == [0]
    assert connection.state is ConnectionState.NEGOTIATING


@pytest.mark.parametrize(
    ("rejection", "next_version"), [({18: (0, 3)}, 3), ({18: (0, 2)}, 2), ({}, 0)]
)
def test_a_rejected_version_falls_back_to_that_of_the_broker(
    rejection: dict[int, tuple[int, int]], next_version: int
) -> None:
    connection = RecordedConnection()
    connection.opened(0)
    (asked,) = take_sent(connection)
    # A broker responds in version 0 if it does not know the requested version.
    refused = Sent(0, 18, 0, asked.correlation_id, b"")
    connection.receive(frame_of(refused, api_versions(rejection, error_code=35)), 0)
    (again,) = take_sent(connection)
    assert again.version == next_version
    connection.receive(frame_of(again, api_versions()), 0)
    assert connection.state is ConnectionState.READY


def test_no_known_version_of_api_versions_is_an_error() -> None:
    connection = RecordedConnection()
    connection.opened(0)
    for _ in range(2):
        (asked,) = take_sent(connection)
        frame = frame_of(Sent(0, 18, 0, asked.correlation_id, b""), api_versions({}, 35))
        if asked.version:
            connection.receive(frame, 0)
    rejection = r"rejected ApiVersions \(UnsupportedVersionError\)"
    with pytest.raises(KafkaConnectionError, match=rejection):
        connection.receive(frame, 0)


def test_a_release_limits_what_the_broker_offers() -> None:
    connection = ready(limits=versions_of_release((2, 8)))
    assert connection.versions is not None
    assert connection.versions.api_versions[1] == (4, 12)  # Fetch: 16 with the broker, 12 in 2.8
    assert 36 in connection.versions.api_versions


@pytest.mark.parametrize("release", [None, (0, 8, 2), (0, 9), (0, 10, 2)])
def test_an_unsupported_release_limits_nothing(release: Any) -> None:
    connection = ready(limits=versions_of_release(release))
    assert connection.versions is not None
    assert connection.versions.api_versions == VERSIONS


def test_a_limit_below_the_brokers_versions_is_ignored() -> None:
    limits = BrokerVersionData((0, 11), {1: (0, 5), 3: (0, 4)})
    agreed = agreed_versions({1: (6, 16), 3: (0, 12), 18: (0, 4)}, limits)
    assert agreed.api_versions == {1: (6, 16), 3: (0, 4)}


def test_responses_arrive_in_order_with_version_and_latency() -> None:
    connection = ready()
    first, second = unsent(), unsent()
    connection.send(first, 100)
    connection.send(second, 110)
    one, two = take_sent(connection)
    assert one.version == 12
    delivery = connection.receive(frame_of(one, metadata_response()), 150)
    assert delivery is not None
    delivery.deliver()
    response = first.future.result()
    assert isinstance(response, ClientResponse)
    assert (response.version, response.node, response.latency_ms) == (12, NODE_1, 50)
    assert response.message.controller_id == 1
    assert not second.future.done
    assert connection.in_flight == 1
    assert connection.next_deadline_ms(0) == 1110
    assert connection.due_ms == 150, "the broker has just responded to the request before it"
    delivery = connection.receive(frame_of(two, metadata_response()), 150)
    assert delivery is not None
    assert delivery.request is second


def test_a_decoder_gets_the_body_without_its_header() -> None:
    connection = ready()
    got: list[tuple[memoryview, int]] = []

    def decode(body: memoryview, version: int) -> str:
        got.append((body, version))
        return "decoded"

    connection.send(unsent(decode=decode), 0)
    (sent,) = take_sent(connection)
    frame = memoryview(struct.pack(">i", sent.correlation_id) + b"\x01\x05\x02xy" + b"body")
    delivery = connection.receive(frame, 0)
    assert delivery is not None
    assert isinstance(delivery.outcome, ClientResponse)
    assert delivery.outcome.message == "decoded"
    body, version = got[0]
    assert (bytes(body), version) == (b"body", 12)
    assert body.obj is frame.obj  # no copy


def test_a_wrong_correlation_id_is_detected() -> None:
    connection = ready()
    connection.send(unsent(), 0)
    (sent,) = take_sent(connection)
    wrong = Sent(0, sent.api_key, sent.version, sent.correlation_id + 7, b"")
    with pytest.raises(CorrelationIdError, match="MetadataRequest"):
        connection.receive(frame_of(wrong, metadata_response()), 0)


def test_a_response_without_a_request_is_detected() -> None:
    with pytest.raises(CorrelationIdError):
        ready().receive(memoryview(b"\0\0\0\1"), 0)


@pytest.mark.parametrize("body", [b"", b"\0", b"\0\0\0", b"\0\0\0\2\0\xff\xff", b"\0\0\0\2"])
def test_an_invalid_frame_fails_only_its_request(body: bytes) -> None:
    connection = ready()
    guilty, innocent = unsent(), unsent()
    connection.send(guilty, 0)
    connection.send(innocent, 0)
    with pytest.raises(KafkaProtocolError, match=r"MetadataRequest v12") as caught:
        connection.receive(memoryview(body), 0)
    for delivery in connection.close(caught.value, 0):
        delivery.deliver()
    assert guilty.future.error is caught.value
    assert isinstance(innocent.future.error, KafkaConnectionError)
    assert connection.state is ConnectionState.CLOSED


def test_closing_distinguishes_overdue_requests_from_others() -> None:
    connection = ready()
    late, fine = unsent(timeout_ms=100), unsent(timeout_ms=500)
    connection.send(late, 0)
    connection.send(fine, 0)
    assert not connection.overdue(99)
    assert connection.overdue(100)
    for delivery in connection.close(KafkaConnectionError("silence"), 100):
        delivery.deliver()
    assert isinstance(late.future.error, RequestTimedOutError)
    assert "did not respond to MetadataRequest within 100 ms" in str(late.future.error)
    assert isinstance(fine.future.error, KafkaConnectionError)


def test_only_a_message_that_cannot_be_encoded_fails() -> None:
    connection = ready()
    with pytest.raises(KafkaProtocolError, match="cannot encode"):
        connection.send(unsent(MetadataRequest(topics=42)), 0)
    assert connection.in_flight == 0
    assert connection.frames == []


@pytest.mark.parametrize(("throttle_ms", "lasts_ms"), [(300, 300), (2**31 - 1, 30_000)])
def test_throttling_delays_a_connection_and_its_deadlines(throttle_ms: int, lasts_ms: int) -> None:
    """A corrupted throttle time must not silence a connection for weeks."""
    connection = ready()
    for _ in range(2):
        connection.send(unsent(timeout_ms=1_000), 0)
    first, _second = take_sent(connection)
    connection.receive(frame_of(first, metadata_response(throttle=throttle_ms)), 500)
    assert connection.throttled_until_ms == 500 + lasts_ms
    assert not connection.overdue(1_000 + lasts_ms - 1)
    assert connection.overdue(1_000 + lasts_ms)


def test_old_versions_need_no_wait() -> None:
    response = metadata_response(throttle=300)
    assert throttle_ms(response, 3, 5) == 0
    assert throttle_ms(response, 3, 6) == 300
    assert throttle_ms(object(), 3, 6) == 0
    assert throttle_ms(response, 68, 0) == 300


def test_headers_are_flexible_by_request_and_version() -> None:
    frame = memoryview(b"\0\0\0\x07\0rest")
    assert bytes(parse_header(frame, MetadataRequest(), 9)[1]) == b"rest"
    assert bytes(parse_header(frame, MetadataRequest(), 8)[1]) == b"\0rest"
    assert bytes(parse_header(frame, ApiVersionsRequest(), 4)[1]) == b"\0rest"
    assert parse_header(frame, MetadataRequest(), 8)[0] == 7


def test_every_state_is_in_the_table_and_ends_closed() -> None:
    assert set(TRANSITIONS) == set(ConnectionState)
    assert set().union(*TRANSITIONS.values()) == set(ConnectionState) - {ConnectionState.CONNECTING}
    assert all(ConnectionState.CLOSED in TRANSITIONS[state] | {state} for state in TRANSITIONS)


def test_versions_are_supported_by_both_sides() -> None:
    broker = agreed_versions(VERSIONS, None)
    assert choose_version(FetchRequest(), broker) == min(16, FetchRequest.max_version)
    assert choose_version(FetchRequest(max_version=7), broker) == 7
    assert choose_version(MetadataRequest(min_version=3), broker) == 12


@pytest.mark.parametrize(
    ("message", "client", "broker"),
    [
        (FetchRequest(max_version=3), "version 0 to 3", "4 to 16"),
        (FetchRequest(min_version=17), "version 17 to", "4 to 16"),
        (MetadataRequest(min_version=13, max_version=13), "version 13", "0 to 12"),
    ],
)
def test_no_common_version_is_explained(message: Any, client: str, broker: str) -> None:
    text = f"{message.name}: this client supports {client}.* the broker supports versions {broker}"
    with pytest.raises(UnsupportedVersionError, match=text):
        choose_version(message, agreed_versions(VERSIONS, None))


def test_an_unknown_request_is_explained() -> None:
    with pytest.raises(UnsupportedVersionError, match="the broker supports no version of it"):
        choose_version(JoinGroupRequest(), BrokerVersionData((4, 0), {1: (0, 1)}))


def test_the_repr_of_a_connection() -> None:
    assert repr(BrokerConnection(NODE_1, "client", lambda _: None)) == (
        f"<BrokerConnection to {NODE_1}, connecting, 0 in flight>"
    )
