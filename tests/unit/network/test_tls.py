from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from tandem_kafka.config.tls import build_context
from tandem_kafka.errors import (
    KafkaConfigurationError,
    KafkaConnectionError,
    TlsAuthenticationError,
)
from tandem_kafka.network.client import NetworkClient
from tandem_kafka.network.native_transport import NativeTransport
from tandem_kafka.network.request import ToNode, UnsentRequest
from tandem_kafka.network.transport import ConnectionClosed, ConnectionOpened, FrameReceived
from tandem_kafka.runtime import Runtime
from tandem_kafka.types import Node
from tandem_kafka.wire.messages import MetadataRequest
from tests.unit.network.peers import (
    AnyTransport,
    NewTransport,
    Peer,
    closed,
    events_of,
    frame,
    spins,
)
from tests.unit.network.scripted import KnownNodes, Settings
from tests.unit.network.tls_server import Server, settings

pytestmark = pytest.mark.real_time


@pytest.fixture(scope="module")
def ca() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def ca_file(ca: trustme.CA, tmp_path: Path) -> str:
    path = tmp_path / "ca.pem"
    ca.cert_pem.write_to_path(path)
    return str(path)


@pytest.fixture
def transport(new_transport: NewTransport, ca_file: str) -> Iterator[AnyTransport]:
    transport = new_transport(settings(ssl_cafile=ca_file))
    yield transport
    transport.close()


@pytest.mark.parametrize("maximum", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_frames_of_every_size(
    transport: AnyTransport, peer: Peer, ca: trustme.CA, maximum: ssl.TLSVersion
) -> None:
    Server(peer, ca, maximum=maximum)
    number = transport.connect(peer.address)
    transport.send(number, frame(b"early"))
    events = events_of(transport, 2)
    assert events[0] == ConnectionOpened(number)
    for payload in (b"", b"x", b"y" * 16_384, b"z" * 3_000_000):
        transport.send(number, frame(payload))
        (event,) = events_of(transport)
        assert isinstance(event, FrameReceived)
        assert event.frame == payload
    assert spins(transport) <= 2


def test_many_frames_in_one_tls_record_are_all_returned(
    transport: AnyTransport, peer: Peer, ca: trustme.CA
) -> None:
    Server(peer, ca)
    number = transport.connect(peer.address)
    transport.send(number, b"".join(frame(b"%d" % n) for n in range(500)))
    events = events_of(transport, 501)
    assert len(events) == 501


def test_a_small_budget_loses_nothing(
    new_transport: NewTransport,
    ca_file: str,
    peer: Peer,
    ca: trustme.CA,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tandem_kafka.network.channel.RECEIVE_BUDGET", 10)
    monkeypatch.setattr("tandem_kafka.network.native_transport.RECEIVE_BUDGET", 10)
    transport = new_transport(settings(ssl_cafile=ca_file))
    if not isinstance(transport, NativeTransport):
        transport._scratch = memoryview(bytearray(16))
    Server(peer, ca)
    number = transport.connect(peer.address)
    transport.send(number, b"".join(frame(b"%05d" % n) for n in range(200)))
    assert len(events_of(transport, 201)) == 201
    assert spins(transport) <= 2
    transport.close()


@pytest.mark.parametrize("maximum", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_missing_client_certificate(
    transport: AnyTransport, peer: Peer, ca: trustme.CA, maximum: ssl.TLSVersion
) -> None:
    Server(peer, ca, client_certificates=True, maximum=maximum)
    transport.connect(peer.address)
    events = events_of(transport)
    while not isinstance(events[-1], ConnectionClosed):
        events += events_of(transport)
    error = events[-1].error
    assert isinstance(error, TlsAuthenticationError)
    assert "alert" in str(error).lower()


@pytest.mark.parametrize(
    ("act", "kind", "text"),
    [
        (
            lambda broker: broker.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
            TlsAuthenticationError,
            "if this port has no TLS",
        ),
        (socket.socket.close, KafkaConnectionError, "during the TLS handshake"),
    ],
    ids=["a port without TLS", "closed"],
)
def test_a_broker_that_does_not_answer_the_handshake(
    transport: AnyTransport, peer: Peer, act: Any, kind: type[Exception], text: str
) -> None:
    transport.connect(peer.address)
    broker = peer.accept()
    threading.Timer(0.05, act, [broker]).start()
    error = closed(transport)
    assert isinstance(error, kind)
    assert text in str(error)


def test_a_silent_broker_blocks_nothing(transport: AnyTransport, peer: Peer) -> None:
    number = transport.connect(peer.address)
    peer.accept()
    assert transport.poll(50) == []
    assert spins(transport) <= 2  # and a handshake that blocks would never end
    transport.disconnect(number)
    assert transport.poll(10) == []


def test_descriptors_reused_after_a_failed_handshake(
    transport: AnyTransport, peer: Peer, ca: trustme.CA
) -> None:
    for _ in range(3):
        transport.connect(peer.address)
        peer.accept().close()
        assert isinstance(closed(transport), KafkaConnectionError)
    Server(peer, ca)
    number = transport.connect(peer.address)
    assert events_of(transport) == [ConnectionOpened(number)]


def test_no_context_without_tls() -> None:
    assert build_context(Settings(security_protocol="SASL_PLAINTEXT")) is None


def test_a_users_context_is_used_unchanged() -> None:
    own = ssl.create_default_context()
    assert build_context(settings(ssl_context=own, ssl_cafile="/no/such/file")) is own


def test_the_context_is_strict() -> None:
    context = build_context(settings())
    assert context is not None
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert context.check_hostname
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2


@pytest.mark.parametrize("option", ["ssl_cafile", "ssl_certfile", "ssl_keyfile", "ssl_crlfile"])
def test_a_missing_file(option: str) -> None:
    with pytest.raises(KafkaConfigurationError, match=f"{option}: cannot read /no/such.pem"):
        build_context(settings(**{option: "/no/such.pem"}))


@pytest.mark.parametrize("option", ["ssl_cafile", "ssl_certfile", "ssl_crlfile"])
def test_a_file_of_the_wrong_kind(option: str, tmp_path: Path) -> None:
    path = tmp_path / "nonsense.pem"
    path.write_text("nonsense")
    with pytest.raises(KafkaConfigurationError, match=f"{option}: cannot use {path}"):
        build_context(settings(**{option: str(path)}))


def test_a_key_without_certificate(tmp_path: Path) -> None:
    path = tmp_path / "client.key"
    path.write_text("nonsense")
    with pytest.raises(KafkaConfigurationError, match="ssl_certfile"):
        build_context(settings(ssl_keyfile=str(path)))


def test_ciphers() -> None:
    context = build_context(settings(ssl_ciphers="ECDHE-RSA-AES256-GCM-SHA384"))
    assert context is not None
    names = [cipher["name"] for cipher in context.get_ciphers()]
    assert "ECDHE-RSA-AES128-GCM-SHA256" not in names
    with pytest.raises(KafkaConfigurationError, match="ssl_ciphers: 'NONE-SUCH'"):
        build_context(settings(ssl_ciphers="NONE-SUCH"))


def test_the_client_abandons_a_silent_broker(
    new_transport: NewTransport, ca_file: str, peer: Peer
) -> None:
    options = settings(
        ssl_cafile=ca_file,
        socket_connection_setup_timeout_ms=200,
        socket_connection_setup_timeout_max_ms=200,
    )
    runtime = Runtime.threaded()
    transport = new_transport(options)
    node = Node(1, "127.0.0.1", peer.address.port)
    client = NetworkClient(options, transport, runtime.driver, runtime.random, KnownNodes([node]))
    now_ms = started_ms = runtime.clock.now_ms()
    unsent = UnsentRequest(MetadataRequest(), ToNode(node), started_ms + 30_000, 30_000)
    client.add(unsent)
    turns = 0
    while not unsent.future.done:
        wait_ms = client.prepare(now_ms)
        events = transport.poll(min(wait_ms, 20))
        now_ms += wait_ms  # as if the whole time had passed
        client.complete(events, now_ms)
        turns += 1
        assert turns < 20
    assert isinstance(unsent.future.error, KafkaConnectionError)
    assert "was not ready within" in str(unsent.future.error)
    assert now_ms - started_ms < 2000
    client.close()
