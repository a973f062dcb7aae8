"""Every refused login, with each transport: its own error, and no storm of retries."""

from __future__ import annotations

import re
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest
import trustme

from tandem_kafka import KafkaConsumer
from tandem_kafka.errors import (
    KafkaError,
    SaslAuthenticationFailedError,
    TlsAuthenticationError,
    UnsupportedSaslMechanismError,
)
from tandem_kafka_testing.kafka import RealKafka
from tests.integration.logins import (
    Options,
    Provider,
    failed_connections,
    sasl,
    tls,
    with_token,
)
from tests.integration.polling import Clock, Consume
from tests.kafka.tokens import TokenIssuer

pytestmark = [
    pytest.mark.full("starts a secured cluster"),
    pytest.mark.usefixtures("implementation"),
]

#: How long a consumer polls although it is refused.
POLLING_MS: Final = 400
#: How long a call takes that is retried: long enough for one refusal on a busy machine.
RETRYING_MS: Final = 1_000


class World:
    """The cluster, and servers that are not Kafka brokers."""

    def __init__(self, kafka: RealKafka, issuer: TokenIssuer, folder: Path) -> None:
        self.kafka = kafka
        self.issuer = issuer
        self.folder = folder
        self._servers: list[socket.socket] = []

    def server(self, response: bytes) -> str:
        """Start a server that responds to the first bytes; with no response, it resets."""
        server = socket.create_server(("127.0.0.1", 0))
        self._servers.append(server)
        threading.Thread(target=_serve, args=(server, response), daemon=True).start()
        return f"127.0.0.1:{server.getsockname()[1]}"

    def another_authority(self) -> str:
        path = self.folder / "another.pem"
        trustme.CA().cert_pem.write_to_path(str(path))
        return str(path)

    def close(self) -> None:
        for server in self._servers:
            with suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)
            server.close()


def _serve(server: socket.socket, response: bytes) -> None:
    with suppress(OSError):
        while True:
            sock, _ = server.accept()
            with sock, suppress(OSError):
                sock.recv(1 << 16)
                sock.sendall(response)
                if not response:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@pytest.fixture
def world(guarded: RealKafka, issuer: TokenIssuer, tmp_path: Path) -> Iterator[World]:
    world = World(guarded, issuer, tmp_path)
    yield world
    world.close()


class Down:
    """A provider whose token endpoint cannot be reached."""

    def token(self) -> str:
        raise ConnectionRefusedError("the token endpoint refuses connections")


Make = Callable[[World], Options]


def _sasl(*arguments: str, **more: Any) -> Make:
    return lambda world: sasl(world.kafka, *arguments, **more)


def _tls(listener: str) -> Make:
    return lambda world: tls(world.kafka, listener)


def _token(**claims: Any) -> Make:
    return lambda world: with_token(world.kafka, "SASL_SSL", Provider(world.issuer, **claims))


def _other_server(response: bytes, **options: Any) -> Make:
    return lambda world: {"bootstrap_servers": world.server(response), **options}


_PASSWORD = {"sasl_plain_password": "not-the-password"}
_HTTP = b"HTTP/1.1 400 Bad Request\r\n\r\n"
Login = tuple[Make, type[KafkaError], str]

#: Refusals that a retry cannot change: the next call raises them at once.
FINAL: dict[str, Login] = {
    "wrong password (PLAIN)": (
        _sasl("SASL_SSL", "PLAIN", **_PASSWORD),
        SaslAuthenticationFailedError,
        "SASL PLAIN: Authentication failed: Invalid username or password",
    ),
    "wrong password (SCRAM)": (
        _sasl("SASL_SSL", "SCRAM-SHA-512", **_PASSWORD),
        SaslAuthenticationFailedError,
        "SASL SCRAM-SHA-512: .*invalid credentials",
    ),
    "unknown user (PLAIN)": (
        _sasl("SASL_PLAINTEXT", "PLAIN", "nobody"),
        SaslAuthenticationFailedError,
        "SASL PLAIN: Authentication failed: Invalid username or password",
    ),
    "unknown user (SCRAM)": (
        _sasl("SASL_PLAINTEXT", "SCRAM-SHA-256", "nobody"),
        SaslAuthenticationFailedError,
        "SASL SCRAM-SHA-256: .*invalid credentials",
    ),
    "disabled mechanism": (
        _sasl("SASL_SSL", "GSSAPI"),
        UnsupportedSaslMechanismError,
        "has not enabled sasl_mechanism 'GSSAPI'; set one that is enabled: OAUTHBEARER, PLAIN",
    ),
    "SASL to a listener without": (
        lambda world: sasl(
            world.kafka, "SASL_PLAINTEXT", "PLAIN", bootstrap_servers=world.kafka.bootstrap()
        ),
        SaslAuthenticationFailedError,
        "this port does not use SASL, .*; set security_protocol='PLAINTEXT'",
    ),
    "SASL_SSL to a listener without": (
        lambda world: sasl(
            world.kafka, "SASL_SSL", "PLAIN", bootstrap_servers=world.kafka.bootstrap("SSL")
        ),
        SaslAuthenticationFailedError,
        "this port does not use SASL, .*; set security_protocol='SSL'",
    ),
    "expired token": (
        _token(lifetime_s=-120),
        SaslAuthenticationFailedError,
        "SASL OAUTHBEARER: the broker rejected the token .*check that it has not expired",
    ),
    "token for another audience": (
        _token(aud="another"),
        SaslAuthenticationFailedError,
        "the broker rejected the token .*issuer, audience and signature",
    ),
    "no token": (
        lambda world: with_token(world.kafka, "SASL_SSL", Down()),
        SaslAuthenticationFailedError,
        "SASL OAUTHBEARER: ConnectionRefusedError: the token endpoint refuses connections",
    ),
    "expired certificate": (_tls("EXPIRED"), TlsAuthenticationError, "certificate has expired"),
    "wrong host name": (
        _tls("ELSEWHERE"),
        TlsAuthenticationError,
        "certificate is not valid for '127.0.0.1'",
    ),
    "unknown authority": (
        lambda world: tls(world.kafka, ssl_cafile=world.another_authority()),
        TlsAuthenticationError,
        "unable to get local issuer certificate",
    ),
    "missing client certificate": (
        _tls("MUTUAL"),
        TlsAuthenticationError,
        "requires a client certificate, set ssl_certfile and ssl_keyfile",
    ),
    "TLS to an HTTP server": (
        _other_server(_HTTP, security_protocol="SSL"),
        TlsAuthenticationError,
        "wrong version number.*; if this port has no TLS",
    ),
}

#: What may also be a broker that starts or stops: retried until the timeout of the call.
RETRIED: dict[str, tuple[Make, str]] = {
    "TLS to a port without": (_tls("PLAINTEXT"), "if this port has no TLS"),
    "plain text to a port with TLS": (
        lambda world: {"bootstrap_servers": world.kafka.bootstrap("SSL")},
        "responded with a TLS alert: this port requires TLS; set security_protocol to 'SSL'",
    ),
    "no SASL to a listener with": (
        lambda world: {"bootstrap_servers": world.kafka.bootstrap("SASL_PLAINTEXT")},
        "if it requires SASL, set security_protocol",
    ),
    "HTTP server": (_other_server(_HTTP), "responded with HTTP: it is not a Kafka broker"),
    "reset": (_other_server(b""), "closed the connection after ApiVersions; .*Connection reset"),
    "reset in the TLS handshake": (
        _other_server(b"", security_protocol="SSL"),
        "closed the connection during the TLS handshake",
    ),
    "reset before the login": (
        _other_server(
            b"",
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="SCRAM-SHA-256",
            sasl_plain_username="alice",
            sasl_plain_password="any",
        ),
        "closed the connection after ApiVersions; .*Connection reset",
    ),
}


def polled(consumer: KafkaConsumer) -> list[Exception]:
    """Poll for a while, at least until a connection has failed; return the errors."""
    clock, errors = consumer._core.clock, []
    end_ms = clock.now_ms() + POLLING_MS
    while clock.now_ms() < end_ms or not failed_connections(consumer):
        try:
            consumer.poll(50)
        except KafkaError as error:
            errors.append(error)
    return errors


def most_attempts(elapsed_ms: float) -> int:
    """Return how many the backoff allows: with jitter, at least 40, 80 ... 800 ms lie between."""
    attempts, pause_ms = 1, 40
    while elapsed_ms >= pause_ms:
        attempts, elapsed_ms = attempts + 1, elapsed_ms - pause_ms
        pause_ms = min(2 * pause_ms, 800)
    return attempts


@pytest.mark.parametrize("login", FINAL)
def test_the_call_raises_a_final_refusal_at_once(
    world: World, consume: Consume, login: str
) -> None:
    make, kind, text = FINAL[login]
    clock = Clock()
    consumer = consume("any", group_id="any", bootstrap_timeout_ms=0, **make(world))
    with pytest.raises(kind, match=text):
        consumer.poll(60_000)
    assert clock.within(20)
    assert {type(error) for error in polled(consumer)} <= {kind}
    assert failed_connections(consumer) <= most_attempts(1_000 * clock.seconds)


@pytest.mark.parametrize("login", RETRIED)
def test_the_call_says_at_its_timeout_what_it_retried(
    world: World, consume: Consume, login: str
) -> None:
    make, text = RETRIED[login]
    options = make(world) | {"default_api_timeout_ms": 200}
    with pytest.raises(KafkaError, match=text):
        KafkaConsumer(bootstrap_timeout_ms=RETRYING_MS, **options)
    clock = Clock()
    consumer = consume("any", group_id="any", bootstrap_timeout_ms=0, **options)
    assert all(re.search(text, str(error)) for error in polled(consumer))
    assert failed_connections(consumer) <= most_attempts(1_000 * clock.seconds)
    assert text.split(";")[0] in consumer.diagnose()
    with pytest.raises(KafkaError, match=text):
        consumer.topics()
