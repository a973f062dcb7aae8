from __future__ import annotations

import logging
from typing import Any

import pytest
from kafka.errors import RequestTimedOutError

from tandem_kafka.errors import (
    InvalidReceiveError,
    KafkaConnectionError,
    KafkaProtocolError,
    TlsAuthenticationError,
)
from tandem_kafka.network.request import KeepAlive, Purpose
from tandem_kafka.network.transport import (
    ConnectionClosed,
    FrameReceived,
    KeepAliveResponse,
    ServerAddress,
)
from tandem_kafka.types import Node
from tandem_kafka.wire.messages import HeartbeatRequest
from tests.unit.network.scripted import (
    BOOTSTRAP,
    NODE_1,
    NODE_2,
    VERSIONS,
    Network,
    ScriptedTransport,
    api_versions,
    error_of,
    frame_of,
    metadata_response,
)

NAMED = Node(1, "kafka.example", 9092)


def cut_all(network: Network, iterations: int) -> None:
    for _ in range(iterations):
        wait_ms = network.iterate()
        for number in list(network.transport.open):
            network.cut(number)
            wait_ms = 0
        network.now_ms += wait_ms


def test_a_refused_connection_fails_its_queued_requests() -> None:
    network = Network()
    main, group = network.request(), network.request(purpose=Purpose.GROUP)
    network.iterate()
    network.cut(1)
    assert isinstance(error_of(main), KafkaConnectionError)
    assert not group.future.done


def test_losing_a_connection_fails_sent_and_queued_requests() -> None:
    network = Network(max_in_flight_requests_per_connection=1)
    sent, queued = network.request(), network.request()
    network.iterate()
    network.make_ready(1)
    network.cut(1)
    assert isinstance(error_of(sent), KafkaConnectionError)
    assert isinstance(error_of(queued), KafkaConnectionError)


@pytest.mark.parametrize("idle", [False, True])
def test_the_end_of_a_connection_is_told_behind_its_last_response(*, idle: bool) -> None:
    """Who heard of it before the response, or never of an idle one, took it for open."""
    network, told = Network(connections_max_idle_ms=1000), list[object]()
    network.client.lost = lambda key: told.append((key, request.future.done))
    request, sent = network.send()
    last = FrameReceived(1, frame_of(sent, metadata_response()))
    network.deliver(last, *[] if idle else [ConnectionClosed(1, KafkaConnectionError("cut"))])
    network.iterate()
    network.iterate(after_ms=1000)
    assert told == [((1, Purpose.MAIN), True)]


def test_silence_closes_the_connection() -> None:
    network = Network()
    slow, patient = network.request(timeout_ms=1000), network.request(timeout_ms=9000)
    network.iterate()
    network.make_ready(1)
    assert network.iterate() == 1000
    network.iterate(after_ms=999)
    assert not slow.future.done
    network.iterate(after_ms=1)
    assert isinstance(error_of(slow), RequestTimedOutError)
    assert isinstance(error_of(patient), KafkaConnectionError)
    assert network.transport.open == set()


def test_backoff_grows_and_starts_over_after_success() -> None:
    network = Network(reconnect_backoff_ms=100, reconnect_backoff_max_ms=1000)
    pauses = []
    for number in range(1, 8):
        network.request()
        network.iterate()
        assert number in network.transport.addresses
        network.cut(number)
        network.request()
        pauses.append(network.iterate() or network.iterate())
        network.iterate(after_ms=pauses[-1] - 1)
        assert number + 1 not in network.transport.addresses
        network.iterate(after_ms=1)
    assert 80 <= pauses[0] <= 120
    assert 160 <= pauses[1] <= 240
    assert all(800 <= pause <= 1000 for pause in pauses[4:])
    (sent,) = network.make_ready(8)
    network.respond(sent, metadata_response())
    network.cut(8)
    network.request()
    assert 80 <= (network.iterate() or network.iterate()) <= 120


def test_several_connections_lost_together_are_one_failure() -> None:
    network = Network(reconnect_backoff_ms=100)
    for purpose in Purpose:
        network.request(purpose=purpose)
    network.iterate()
    for number in (1, 2, 3, 4):
        network.cut(number)
    assert network.client.backoff_until_ms(NODE_1) - network.now_ms <= 120


def test_a_failed_node_backs_off_and_keeps_its_error() -> None:
    network = Network(reconnect_backoff_ms=100)
    assert network.client.backoff_until_ms(NODE_1) <= network.now_ms
    network.request()
    network.iterate()
    network.cut(1, KafkaConnectionError("refused"))
    assert 0 < network.client.backoff_until_ms(NODE_1) - network.now_ms <= 120
    assert "refused" in str(network.client.connection_error(NODE_1))


@pytest.mark.parametrize("phase", ["connecting", "requesting API versions"])
def test_setup_has_a_deadline_that_grows(phase: str) -> None:
    network = Network(
        socket_connection_setup_timeout_ms=1000, socket_connection_setup_timeout_max_ms=3000
    )
    waits = []
    for number in (1, 2, 3, 4):
        unsent = network.request()
        network.iterate()
        if phase != "connecting":
            network.open(number)
        waits.append(network.iterate())
        network.iterate(after_ms=waits[-1])
        assert isinstance(error_of(unsent), KafkaConnectionError)
        assert phase in str(error_of(unsent))
        assert network.transport.open == set()
        network.now_ms += 2000
    assert 800 <= waits[0] <= 1200
    assert 1600 <= waits[1] <= 2400
    assert 2400 <= waits[3] <= 3600


def test_a_hanging_lookup_is_bounded_and_not_repeated() -> None:
    network = Network(NAMED, socket_connection_setup_timeout_ms=1000)
    unsent = network.request(NAMED)
    wait_ms = network.iterate()
    assert len(network.driver.tasks) == 1
    assert network.transport.addresses == {}
    network.iterate(after_ms=wait_ms)
    assert "looking up kafka.example" in str(error_of(unsent))
    second = network.request(NAMED)
    network.iterate(after_ms=200)
    assert len(network.driver.tasks) == 1  # the same lookup is still running
    network.driver.run([])
    network.iterate()
    assert "cannot resolve kafka.example" in str(error_of(second))


def test_every_address_is_tried_within_one_attempt() -> None:
    network = Network(NAMED)
    unsent = network.request(NAMED)
    network.iterate()
    ips = ("10.1.1.1", "10.1.1.2")
    network.driver.run([ServerAddress("kafka.example", ip, 9092) for ip in ips])
    assert network.transport.wakeups == 1
    network.iterate()
    network.cut(1)
    assert not unsent.future.done
    assert network.transport.addresses[2].ip == "10.1.1.2"
    network.cut(2)
    assert isinstance(error_of(unsent), KafkaConnectionError)
    network.request(NAMED)
    network.iterate(after_ms=200)
    assert len(network.driver.tasks) == 1  # all tried, so the name is looked up again


def test_a_name_without_address_fails_queued_requests() -> None:
    network = Network(NAMED)
    unsent = network.request(NAMED)
    network.iterate()
    network.driver.run(OSError("Name or service not known"))
    network.iterate()
    assert "cannot resolve kafka.example (port 9092): Name or service" in str(error_of(unsent))


@pytest.mark.parametrize(
    ("event", "error"),
    [
        (FrameReceived(1, memoryview(b"\0\0\0\2\0")), KafkaProtocolError),
        (
            ConnectionClosed(1, InvalidReceiveError("too large: receive_message_max_bytes")),
            InvalidReceiveError,
        ),
    ],
    ids=["invalid", "oversize"],
)
def test_an_unusable_response_fails_its_own_request(event: Any, error: type[Exception]) -> None:
    network = Network()
    guilty, innocent = network.request(), network.request()
    network.iterate()
    network.make_ready(1)
    network.deliver(event)
    assert isinstance(error_of(guilty), error)
    assert isinstance(error_of(innocent), KafkaConnectionError)


def test_a_failed_certificate_check_fails_queued_requests_and_can_be_retried() -> None:
    network = Network()
    main, group, anywhere = (
        network.request(),
        network.request(purpose=Purpose.GROUP),
        network.request(None),
    )
    network.iterate()
    network.cut(1, TlsAuthenticationError("certificate verify failed"))
    for unsent in (main, group, anywhere):
        assert isinstance(error_of(unsent), TlsAuthenticationError)
    again = network.request()
    network.iterate(after_ms=200)
    assert len(network.make_ready(max(network.transport.addresses))) == 1
    assert not again.future.done


@pytest.mark.parametrize(
    "reason",
    [
        "unable to get local issuer certificate",
        "self-signed certificate",
        "self-signed certificate in certificate chain",
        "unable to verify the first certificate",
    ],
)
def test_an_untrusted_authority_is_told_with_the_option(reason: str) -> None:
    network = Network()
    unsent = network.request()
    network.iterate()
    text = f"TLS with broker:9093: certificate verify failed: {reason}"
    network.cut(1, TlsAuthenticationError(text))
    assert text in str(error_of(unsent))
    assert "set ssl_cafile to a file with the CA of the broker's certificate" in str(
        error_of(unsent)
    )


def test_a_server_that_is_not_kafka_fails_the_requests() -> None:
    network = Network(BOOTSTRAP)
    unsent = network.request(None)
    network.iterate()
    network.open(1)
    network.cut(1, InvalidReceiveError("sent a frame of 1213486160 bytes"))
    assert isinstance(error_of(unsent), InvalidReceiveError)


def test_a_connection_closed_after_api_versions_proves_nothing_about_versions() -> None:
    """A proxy whose broker is down accepts each connection and closes it."""
    network = Network(metadata_recovery_strategy="none")
    anywhere = network.request(None, deadline_ms=100_000)
    for number in range(1, 30):
        unsent = network.request()
        network.iterate(after_ms=2000)
        network.open(number)
        network.cut(number)
        assert type(error_of(unsent)) is KafkaConnectionError
        assert "older than Kafka 0.11" in str(error_of(unsent))
    assert not anywhere.future.done
    network.transport.take_sent()
    unsent = network.request()
    network.iterate(after_ms=2000)
    for sent in network.make_ready(30):
        network.respond(sent, metadata_response())
    assert unsent.future.error is None
    assert anywhere.future.error is None


def test_rebootstrap_once_when_every_broker_is_gone(caplog: pytest.LogCaptureFixture) -> None:
    network = Network(NODE_1, NODE_2)
    unsent = network.request(None)
    with caplog.at_level(logging.INFO):
        cut_all(network, iterations=50)
    assert network.nodes.rebootstraps == 1
    assert len([record for record in caplog.records if "bootstrap_servers" in record.message]) == 1
    assert not unsent.future.done
    network.now_ms += 1000
    network.iterate()
    (number,) = network.transport.open
    assert network.transport.addresses[number].ip == BOOTSTRAP.host
    (sent,) = network.make_ready(number)
    network.respond(sent, metadata_response())
    assert unsent.future.error is None


def test_a_stubborn_node_list_is_not_rebootstrapped_in_a_loop() -> None:
    network = Network(NODE_1)
    network.nodes.bootstrap = [NODE_1]
    network.request(None)
    cut_all(network, iterations=50)
    assert network.nodes.rebootstraps == 1


def test_no_rebootstrap_when_disabled() -> None:
    network = Network(NODE_1, metadata_recovery_strategy="none")
    network.request(None)
    cut_all(network, iterations=50)
    assert network.nodes.rebootstraps == 0


def test_one_working_broker_prevents_a_rebootstrap() -> None:
    network = Network(NODE_1, NODE_2)
    network.request(NODE_1)
    network.iterate()
    network.cut(1)
    network.request(None)
    network.iterate()
    assert network.transport.addresses[2].ip == "10.0.0.2"
    assert network.nodes.rebootstraps == 0


def test_the_first_failure_is_a_warning_and_recovery_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    network = Network()
    with caplog.at_level(logging.INFO):
        for number in (1, 2, 3):
            network.request()
            network.iterate(after_ms=2000)
            network.cut(number)
        network.request()
        network.iterate(after_ms=2000)
        (sent,) = network.make_ready(4)
        network.respond(sent, metadata_response())
        network.cut(4)
    levels = [(record.levelname, record.message) for record in caplog.records]
    assert levels == [
        ("WARNING", "cannot use broker 1 (10.0.0.1:9092), retrying: refused"),
        ("WARNING", "broker 1 (10.0.0.1:9092) is back after 6 s; failed attempts: 3"),
    ]


def test_a_listener_that_requires_sasl_closes_at_the_first_request() -> None:
    network = Network(reconnect_backoff_ms=100, reconnect_backoff_max_ms=1000)
    pauses = []
    for number in (1, 2, 3, 4, 5):
        unsent = network.request()
        network.iterate()
        network.make_ready(number)
        network.cut(number)
        assert "set security_protocol" in str(error_of(unsent))
        network.request()
        pauses.append(network.iterate() or network.iterate())
        network.now_ms += pauses[-1]
    assert pauses[4] > 700  # a response to ApiVersions is no success


def test_a_timeout_names_the_last_failure() -> None:
    network = Network(metadata_recovery_strategy="none")
    unsent = network.request(None, deadline_ms=1000)
    cut_all(network, iterations=50)
    assert "any broker before its deadline (last failure: KafkaConnectionError: refused)" in str(
        error_of(unsent)
    )


class KeepAliveTransport(ScriptedTransport):
    def __init__(self) -> None:
        super().__init__()
        self.kept: list[int] = []

    def keep_alive(self, connection: int, frame: bytes, period_ms: int, left_ms: int) -> None:
        del frame, period_ms, left_ms
        self.kept.append(connection)


@pytest.mark.parametrize("frame", [b"", b"\0\0", b"\0\0\0\0", b"\0\0\0\0\0\0\0", b"\xff" * 9])
def test_a_malformed_response_to_a_transports_heartbeat_ends_only_its_connection(
    frame: bytes,
) -> None:
    network = Network(transport=KeepAliveTransport())
    reports: list[object] = []
    unsent = network.request(purpose=Purpose.GROUP)
    message = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    unsent.keep_alive = KeepAlive(message, 3_000, network.now_ms + 60_000, reports.append)
    network.iterate()
    network.open(1)
    (sent,) = network.transport.take_sent()
    network.respond(sent, api_versions({**VERSIONS, 12: (0, 4)}))
    network.iterate()
    network.deliver(KeepAliveResponse(1, memoryview(frame)))
    assert not reports
    assert network.transport.open == set()
    assert isinstance(error_of(unsent), KafkaConnectionError)
    again = network.request(purpose=Purpose.GROUP)
    network.transport.take_sent()
    network.iterate(after_ms=1_000)
    (sent,) = network.make_ready(2)[-1:]
    network.respond(sent, metadata_response())
    assert again.future.error is None
