"""Certificates of all kinds, good and bad, for every transport over sockets."""

from __future__ import annotations

import datetime as dt
import ipaddress
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from tandem_kafka.errors import TlsAuthenticationError
from tandem_kafka.network.transport import ConnectionOpened, FrameReceived
from tests.unit.network.certificates import DAY, LOCALHOST, NOW, Issued, issue
from tests.unit.network.peers import PATIENCE_S, NewTransport, Peer, closed, events_of, frame
from tests.unit.network.tls_server import Server, settings

pytestmark = pytest.mark.real_time


@pytest.fixture(scope="module")
def authority() -> Issued:
    return issue("an authority", authority=True)


Write = Callable[[str, bytes], str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(name: str, content: bytes) -> str:
        path = tmp_path / name
        path.write_bytes(content)
        return str(path)

    return write


def serve(peer: Peer, issued: Issued, write: Write, **options: Any) -> None:
    chain, key = write("server.pem", issued.pem), write("server.key", issued.key_pem())
    Server(peer, chain=(chain, key), **options)


def accepted(new_transport: NewTransport, peer: Peer, **options: Any) -> None:
    transport = new_transport(settings(**options))
    number = transport.connect(peer.address)
    transport.send(number, frame(b"hello"))
    events = events_of(transport, 2)
    assert events[0] == ConnectionOpened(number)
    assert isinstance(events[1], FrameReceived)
    transport.close()


def rejection(new_transport: NewTransport, peer: Peer, **options: Any) -> str:
    transport = new_transport(settings(**options))
    transport.connect(peer.address)
    error = closed(transport)
    transport.close()
    assert isinstance(error, TlsAuthenticationError)
    assert "certificate verify failed" in str(error)
    return str(error)


def test_changed_files_are_used_by_new_connections(
    new_transport: NewTransport,
    peer: Peer,
    write: Write,
    authority: Issued,
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = issue("broker", authority, names=LOCALHOST)
    other = issue("another authority", authority=True)
    path = write("ca.pem", other.pem)
    serve(peer, server, write, connections=4)
    transport = new_transport(settings(ssl_cafile=path))
    transport.connect(peer.address)
    assert isinstance(closed(transport), TlsAuthenticationError)
    write("ca.pem", b"half of a certificate")
    transport.connect(peer.address)
    assert isinstance(closed(transport), TlsAuthenticationError)
    assert caplog.text.count("ssl_cafile changed, but cannot be used; keeping the old") == 1
    write("ca.pem", authority.pem)
    for _ in range(2):
        number = transport.connect(peer.address)
        assert events_of(transport) == [ConnectionOpened(number)]
        transport.disconnect(number)
    transport.close()


#: Who has issued the broker's certificate, until when it lasts, and the error.
REJECTED = [
    (None, DAY, "self-signed certificate"),
    ("trusted", -DAY, "certificate has expired"),
    ("unknown", DAY, "unable to get local issuer certificate"),
]


@pytest.mark.parametrize("check_hostname", [True, False])
@pytest.mark.parametrize("rejected", REJECTED)
def test_why_a_chain_is_rejected(
    new_transport: NewTransport,
    peer: Peer,
    write: Write,
    authority: Issued,
    rejected: tuple[str | None, dt.timedelta, str],
    *,
    check_hostname: bool,
) -> None:
    """Which ones are rejected is in `test_tls_matrix.py`."""
    issuer, until, text = rejected
    issuers = {None: None, "trusted": authority, "unknown": issue("unknown", authority=True)}
    serve(peer, issue("broker", issuers[issuer], names=LOCALHOST, until=until), write)
    options = {"ssl_cafile": write("ca.pem", authority.pem), "ssl_check_hostname": check_hostname}
    assert text in rejection(new_transport, peer, **options)


@pytest.mark.parametrize("name", ["broker", "localhost"])
def test_why_a_host_is_rejected(
    new_transport: NewTransport, peer: Peer, write: Write, authority: Issued, name: str
) -> None:
    """The common name does not count beside other names."""
    elsewhere = [x509.DNSName("elsewhere.example")]
    ca = write("ca.pem", authority.pem)
    serve(peer, issue(name, authority, names=elsewhere), write)
    text = rejection(new_transport, peer, ssl_cafile=ca)
    assert "Hostname mismatch, certificate is not valid for 'localhost'" in text
    serve(peer, issue(name, authority, names=elsewhere), write)
    accepted(new_transport, peer, ssl_cafile=ca, ssl_check_hostname=False)


def test_a_broker_known_by_its_address(
    new_transport: NewTransport, peer: Peer, write: Write, authority: Issued
) -> None:
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    serve(peer, issue("broker", authority, names=[address]), write)
    peer.host = "127.0.0.1"
    accepted(new_transport, peer, ssl_cafile=write("ca.pem", authority.pem))


def revocations(authority: Issued, *revoked: Issued, until: dt.timedelta = DAY) -> bytes:
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(authority.certificate.subject)
        .last_update(NOW - 10 * DAY)
        .next_update(NOW + until)
        .add_extension(x509.CRLNumber(1), critical=False)  # rustls requires it, as RFC 5280 does
    )
    for issued in revoked:
        entry = x509.RevokedCertificateBuilder()
        entry = entry.serial_number(issued.certificate.serial_number).revocation_date(NOW - DAY)
        builder = builder.add_revoked_certificate(entry.build())
    signed = builder.sign(authority.key, hashes.SHA256())
    return signed.public_bytes(serialization.Encoding.PEM)


@pytest.mark.parametrize("check_hostname", [True, False])
def test_revoked(
    new_transport: NewTransport, peer: Peer, write: Write, authority: Issued, check_hostname: bool
) -> None:
    good, bad = (issue("broker", authority, names=LOCALHOST) for _ in range(2))
    options = {
        "ssl_cafile": write("ca.pem", authority.pem),
        "ssl_crlfile": write("crl.pem", revocations(authority, bad)),
        "ssl_check_hostname": check_hostname,
    }
    serve(peer, good, write)
    accepted(new_transport, peer, **options)
    serve(peer, bad, write)
    assert "certificate revoked" in rejection(new_transport, peer, **options)


@pytest.mark.parametrize(
    "rejected",
    [("trusted", -DAY, "CRL has expired"), ("other", DAY, "unable to get certificate CRL")],
)
def test_why_a_revocation_list_is_rejected(
    new_transport: NewTransport, peer: Peer, write: Write, authority: Issued, rejected: Any
) -> None:
    by, until, text = rejected
    issuer = authority if by == "trusted" else issue("another authority", authority=True)
    serve(peer, issue("broker", authority, names=LOCALHOST), write)
    options = {
        "ssl_cafile": write("ca.pem", authority.pem),
        "ssl_crlfile": write("crl.pem", revocations(issuer, until=until)),
    }
    assert text in rejection(new_transport, peer, **options)


@pytest.mark.parametrize("encrypted", [False, True])
@pytest.mark.parametrize("together", [False, True])
def test_the_clients_key(
    new_transport: NewTransport, peer: Peer, write: Write, encrypted: bool, together: bool
) -> None:
    ca = trustme.CA()
    authority = issue("for clients", authority=True)
    client = issue("client", authority)
    how = serialization.BestAvailableEncryption(b"secret") if encrypted else None
    key = client.key_pem(how)
    options: dict[str, Any] = {"ssl_certfile": write("client.pem", client.pem)}
    if together:
        options["ssl_certfile"] = write("client.pem", client.pem + key)
    else:
        options["ssl_keyfile"] = write("client.key", key)
    if encrypted:
        options["ssl_password"] = "secret"
    ca_file = write("ca.pem", ca.cert_pem.bytes())
    Server(peer, ca, client_authority=write("clients.pem", authority.pem))
    accepted(new_transport, peer, ssl_cafile=ca_file, **options)


def test_named_ciphers(new_transport: NewTransport, peer: Peer, write: Write) -> None:
    ca = trustme.CA()
    ca_file = write("ca.pem", ca.cert_pem.bytes())
    names = "ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-AES256-GCM-SHA384"
    server = Server(peer, ca, maximum=ssl.TLSVersion.TLSv1_2)
    accepted(new_transport, peer, ssl_cafile=ca_file, ssl_ciphers=names)
    server.thread.join(PATIENCE_S)
    assert server.cipher is not None
    assert "AES256-GCM-SHA384" in server.cipher
