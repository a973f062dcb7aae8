"""TLS that only OpenSSL accepts: the Python transport connects instead."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from tandem_kafka.errors import KafkaConnectionError, TlsAuthenticationError
from tandem_kafka.network.implementation import open_transport
from tandem_kafka.network.native_transport import NativeTransport
from tandem_kafka.network.selector import SelectorTransport
from tandem_kafka.network.tls_fallback import TlsTransport
from tandem_kafka.network.transport import (
    ConnectionClosed,
    ConnectionOpened,
    FrameReceived,
    Transport,
)
from tandem_kafka.records import ReaderOptions
from tandem_kafka.runtime import MonotonicClock
from tests.unit.network import certificate_chains
from tests.unit.network.certificates import DAY, LOCALHOST, Issued, issue
from tests.unit.network.peers import Peer, closed, events_of, frame, needs_extension, spins
from tests.unit.network.tls_server import Server, settings

pytestmark = [pytest.mark.real_time, needs_extension]

Serve = Callable[..., Server]
Open = Callable[..., TlsTransport]

SWITCHED = "using the Python transport from now on, not the native one: "


@pytest.fixture(scope="module")
def authority() -> Issued:
    return issue("an authority", authority=True)


@pytest.fixture
def serve(peer: Peer, tmp_path: Any) -> Serve:
    def serve(issued: Issued, **options: Any) -> Server:
        chain, key = tmp_path / "server.pem", tmp_path / "server.key"
        chain.write_bytes(issued.pem)
        key.write_bytes(issued.key_pem())
        return Server(peer, chain=(str(chain), str(key)), **options)

    return serve


@pytest.fixture
def opened(authority: Issued, tmp_path: Any) -> Iterator[Open]:
    made: list[Transport] = []

    def opened(**options: Any) -> TlsTransport:
        ca = tmp_path / "ca.pem"
        ca.write_bytes(authority.pem)
        chosen = settings(ssl_cafile=str(ca), **options)
        transport = open_transport(chosen, MonotonicClock(), ReaderOptions())
        assert isinstance(transport, TlsTransport)
        made.append(transport)
        return transport

    yield opened
    for transport in made:
        transport.close()


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    caplog.set_level(logging.INFO)
    return lambda: [text for text in caplog.messages if text.startswith(SWITCHED)]


Logged = Callable[[], list[str]]


def of_version_1(authority: Issued) -> Issued:
    """X.509 version 1 has neither a version nor extensions."""
    return issue("localhost", authority, version_1=True)


def with_ca_true(authority: Issued) -> Issued:
    return issue("localhost", authority, authority=True, names=LOCALHOST)


def good(authority: Issued) -> Issued:
    return issue("localhost", authority, names=LOCALHOST)


CBC: dict[str, Any] = {
    "maximum": ssl.TLSVersion.TLSv1_2,
    "ciphers": "ECDHE-ECDSA-AES128-SHA256:ECDHE-ECDSA-AES256-SHA384",
}


@dataclass
class World:
    """The objects that every test uses."""

    serve: Serve
    opened: Open
    peer: Peer
    authority: Issued
    logged: Logged


@pytest.fixture
def world(serve: Serve, opened: Open, peer: Peer, authority: Issued, logged: Logged) -> World:
    return World(serve, opened, peer, authority, logged)


@pytest.mark.parametrize(
    ("make", "options", "reason"),
    [
        (of_version_1, {}, "UnsupportedCertVersion"),
        (with_ca_true, {}, "CaUsedAsEndEntity"),
        (good, CBC, "handshake failure"),
    ],
    ids=["version 1", "CA:TRUE", "CBC"],
)
def test_openssl_connects_where_rustls_does_not(
    world: World, make: Any, options: Any, reason: str
) -> None:
    serve, opened, peer, logged = world.serve, world.opened, world.peer, world.logged
    issued = make(world.authority)
    serve(issued, connections=2, **options)
    transport = opened()
    first = transport.connect(peer.address)
    transport.send(first, frame(b"before it was open"))
    events = events_of(transport, 2)
    assert events[0] == ConnectionOpened(first)
    assert isinstance(events[1], FrameReceived)
    assert events[1].connection == first
    assert bytes(events[1].frame) == b"before it was open"
    (line,) = logged()
    assert reason in line
    assert "localhost:" in line
    assert transport.received_bytes(first) > 0
    # Later connections use Python directly, without a handshake of rustls.
    serve(issued, **options)
    second = transport.connect(peer.address)
    assert second > first
    assert events_of(transport) == [ConnectionOpened(second)]
    transport.send(second, frame(b"more"))
    assert isinstance(events_of(transport)[0], FrameReceived)
    assert len(logged()) == 1
    assert transport._python is not None
    assert spins(transport._python) <= 2


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda _: issue("localhost", issue("other", authority=True), version_1=True), "issuer"),
        (lambda a: issue("elsewhere.example", a, version_1=True), "Hostname mismatch"),
        (lambda a: issue("localhost", a, version_1=True, until=-DAY), "has expired"),
        (lambda _: issue("localhost", issue("other", authority=True), names=LOCALHOST), "issuer"),
    ],
    ids=["untrusted", "another host", "expired", "untrusted v3"],
)
def test_a_rejection_by_openssl_too_is_its_error(world: World, make: Any, text: str) -> None:
    serve, peer, authority, logged = world.serve, world.peer, world.authority, world.logged
    serve(make(authority), connections=2)
    transport = world.opened()
    transport.connect(peer.address)
    error = closed(transport)  # type: ignore[arg-type]
    assert isinstance(error, TlsAuthenticationError)
    assert "certificate verify failed" in str(error)
    assert text in str(error)
    assert logged() == []
    # This does not switch the transport.
    serve(good(authority))
    number = transport.connect(peer.address)
    assert events_of(transport) == [ConnectionOpened(number)]
    assert transport._transport_of(number) is transport._native


def test_a_definite_error_is_not_retried(
    serve: Serve, opened: Open, peer: Peer, authority: Issued, monkeypatch: pytest.MonkeyPatch
) -> None:
    transport = opened()
    monkeypatch.setattr(transport, "_make_python", lambda: pytest.fail("OpenSSL was asked"))
    for issued in (
        issue("localhost", authority, names=LOCALHOST, until=-DAY),
        issue("localhost", authority, names=[x509.DNSName("elsewhere.example")]),
    ):
        serve(issued)
        transport.connect(peer.address)
        assert isinstance(closed(transport), TlsAuthenticationError)  # type: ignore[arg-type]


def test_a_new_list_that_only_openssl_can_use_replaces_the_old(
    serve: Serve, opened: Open, peer: Peer, tmp_path: Path
) -> None:
    root = certificate_chains.authority()
    ca, listed = tmp_path / "ca.pem", tmp_path / "crl.pem"
    first = certificate_chains.revocations(root)
    listed.write_bytes(first)
    transport = opened(ssl_crlfile=str(listed))
    ca.write_bytes(root.pem)
    broker = certificate_chains.broker(root)
    issued = Issued(broker.certificate, broker.key)
    serve(issued)
    number = transport.connect(peer.address)
    assert events_of(transport) == [ConnectionOpened(number)]
    newer = certificate_chains.revocations(root, broker, since=-DAY, number=2)
    listed.write_bytes(first + newer)
    serve(issued, connections=2)
    transport.connect(peer.address)
    assert "certificate revoked" in str(closed(transport))  # type: ignore[arg-type]


def test_earlier_connections_are_reopened(
    serve: Serve, opened: Open, peer: Peer, authority: Issued, logged: Logged
) -> None:
    """One of several brokers has a new certificate: native connections are closed."""
    serve(good(authority))
    transport = opened()
    first = transport.connect(peer.address)
    assert events_of(transport) == [ConnectionOpened(first)]
    serve(of_version_1(authority), connections=2)
    second = transport.connect(peer.address)
    opened_event, closed_event = events_of(transport, 2)
    assert opened_event == ConnectionOpened(second)
    assert isinstance(closed_event, ConnectionClosed)
    assert closed_event.connection == first
    assert isinstance(closed_event.error, KafkaConnectionError)
    assert "reconnecting to" in str(closed_event.error)
    assert len(logged()) == 1
    transport.send(first, frame(b"ignored"))
    transport.disconnect(first)
    transport.send(second, frame(b"read"))
    (received,) = events_of(transport)
    assert isinstance(received, FrameReceived)
    assert received.connection == second


def test_a_wakeup_ends_a_poll_before_and_after(
    serve: Serve, opened: Open, peer: Peer, authority: Issued
) -> None:
    transport = opened()
    transport.wakeup()
    assert transport.poll(5_000) == []
    serve(of_version_1(authority), connections=2)
    number = transport.connect(peer.address)
    assert events_of(transport) == [ConnectionOpened(number)]
    transport.wakeup()
    assert transport.poll(5_000) == []


def test_a_retried_connection_can_be_closed(
    serve: Serve, opened: Open, peer: Peer, authority: Issued
) -> None:
    transport = opened()
    serve(of_version_1(authority))  # accepts one connection only: the second handshake hangs
    number = transport.connect(peer.address)
    while transport._python is None:
        assert transport.poll(100) == []
    transport.disconnect(number)
    assert not transport._connections, "what is forgotten takes no turns and no memory"
    assert transport.poll(0) == []
    serve(good(authority), connections=2)
    number = transport.connect(peer.address)
    assert isinstance(transport._transport_of(number), NativeTransport)
    transport.close()
    transport.close()


def test_plaintext_needs_no_fallback() -> None:
    from tests.unit.network.scripted import Settings

    transport = open_transport(Settings(), MonotonicClock(), ReaderOptions())
    assert isinstance(transport, NativeTransport)
    transport.close()
    assert not isinstance(transport, SelectorTransport)


def test_version_1_certificates_have_version_1(authority: Issued) -> None:
    issued = of_version_1(authority)
    assert issued.certificate.version is x509.Version.v1
    public_key = authority.key.public_key()
    public_key.verify(
        issued.certificate.signature,
        issued.certificate.tbs_certificate_bytes,
        ec.ECDSA(hashes.SHA256()),
    )
