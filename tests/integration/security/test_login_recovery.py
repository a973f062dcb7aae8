"""Logins that fail and succeed later, without a restart; tokens from a token endpoint."""

from __future__ import annotations

import logging
import shutil
import traceback
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
from joserfc.jwk import RSAKey

from tandem_kafka import KafkaConsumer
from tandem_kafka.confluent import Consumer
from tandem_kafka.errors import (
    KafkaError,
    SaslAuthenticationFailedError,
    TlsAuthenticationError,
)
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.security import write_certificate
from tests.integration.logins import Options, allow_all, sasl, tls
from tests.integration.polling import Consume, poll_until
from tests.kafka.token_server import CLIENT, SECRET, TokenServer
from tests.kafka.tokens import TokenIssuer
from tests.waiting import wait_until

JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"

pytestmark = [
    pytest.mark.full("starts a secured cluster"),
    pytest.mark.usefixtures("implementation"),
]


@pytest.fixture
def name(guarded: RealKafka) -> str:
    """A topic with one record and a group, which every user may use."""
    name = f"recovery-{uuid.uuid4().hex[:8]}"
    guarded.admin.create_topic(name)
    allow_all(guarded, name)
    guarded.admin.produce(name, [b"1"])
    return name


@pytest.fixture
def server(guarded: RealKafka, issuer: TokenIssuer) -> Iterator[TokenServer]:
    server = TokenServer(issuer, guarded.certificates.issuer)
    yield server
    server.stop()


def from_endpoint(kafka: RealKafka, server: TokenServer, listener: str = "SASL_SSL") -> Options:
    return sasl(
        kafka,
        listener,
        "OAUTHBEARER",
        bootstrap_timeout_ms=0,
        reconnect_backoff_max_ms=100,
        sasl_oauthbearer_token_endpoint_url=server.url,
        sasl_oauthbearer_client_id=CLIENT,
        sasl_oauthbearer_client_secret=SECRET,
        sasl_oauthbearer_cafile=str(kafka.certificates.authority),
    )


def reads_again(consumer: KafkaConsumer, error: type[KafkaError]) -> None:
    """Poll until the record arrives; only `error` may be raised until then."""

    def read() -> bool:
        try:
            return bool(consumer.poll(200))
        except error:
            return False

    wait_until(read)


def test_a_token_endpoint_that_comes_back(
    guarded: RealKafka, name: str, consume: Consume, server: TokenServer
) -> None:
    server.stop()
    consumer = consume(name, group_id=name, **from_endpoint(guarded, server))
    for _ in range(2):
        with pytest.raises(SaslAuthenticationFailedError, match="no response from the token endpo"):
            consumer.poll(10_000)
    server.start()
    reads_again(consumer, SaslAuthenticationFailedError)
    consumer.commit()
    assert len(server.requests) == 1, "all connections share a token"


def test_a_token_endpoint_that_is_not_ready_at_first(
    guarded: RealKafka,
    name: str,
    consume: Consume,
    server: TokenServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer = server.answer

    def at_last(*request: Any) -> tuple[int, bytes]:
        response = answer(*request)
        return response if len(server.requests) == 4 else (503, b"starting")

    monkeypatch.setattr(server, "answer", at_last)
    consumer = consume(name, group_id=name, **from_endpoint(guarded, server))
    wait_until(lambda: bool(consumer.poll(1_000)))  # no error is raised
    assert len(server.requests) == 4


def test_a_token_endpoint_that_hangs_is_named(
    guarded: RealKafka, name: str, consume: Consume, server: TokenServer
) -> None:
    server.released.clear()
    options = {"socket_connection_setup_timeout_ms": 2_000}
    consumer = consume(name, group_id=name, **from_endpoint(guarded, server), **options)
    url = server.url.partition("?")[0]
    with pytest.raises(SaslAuthenticationFailedError, match=f"{url}: timed out after 1400 ms"):
        consumer.poll(20_000)


def test_the_facade_of_confluent_kafka_asks_a_token_endpoint(
    guarded: RealKafka, name: str, server: TokenServer
) -> None:
    authority = str(guarded.certificates.authority)
    consumer = Consumer(
        {
            "bootstrap.servers": guarded.bootstrap("SASL_SSL"),
            "group.id": name,
            "auto.offset.reset": "earliest",
            "security.protocol": "sasl_ssl",
            "ssl.ca.location": authority,
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.token.endpoint.url": server.url,
            "sasl.oauthbearer.client.id": CLIENT,
            "sasl.oauthbearer.client.secret": SECRET,
            "https.ca.location": authority,
        }
    )
    consumer.subscribe([name])
    message = consumer.poll(30.0)
    consumer.close()
    assert message is not None
    assert message.value() == b"1"
    assert len(server.requests) == 1


def by_assertion(server: TokenServer, folder: Path) -> Options:
    """Return the options of a client with a key instead of a secret (JWT bearer, RFC 7523)."""
    server.client_key = key = RSAKey.generate_key(2048)
    file = folder / "client.key"
    file.write_bytes(key.as_pem(private=True))
    return {
        "sasl_oauthbearer_grant_type": JWT_BEARER,
        "sasl_oauthbearer_client_id": None,
        "sasl_oauthbearer_client_secret": None,
        "sasl_oauthbearer_assertion_private_key_file": str(file),
        "sasl_oauthbearer_assertion_claim_iss": "the client",
        "sasl_oauthbearer_assertion_claim_sub": "alice",
        "sasl_oauthbearer_assertion_claim_aud": server.url,
    }


@pytest.mark.parametrize("grant", ["client credentials", "JWT bearer"])
def test_tokens_are_renewed_before_they_expire(
    guarded: RealKafka,
    name: str,
    consume: Consume,
    server: TokenServer,
    tmp_path: Path,
    grant: str,
) -> None:
    """The broker ends the session with the token; each new login has a new token."""
    server.lifetime_s = 2
    options = from_endpoint(guarded, server, "RENEWING")
    if grant == "JWT bearer":
        options |= by_assertion(server, tmp_path)
    consumer = consume(name, group_id=name, **options)
    poll_until(consumer, consumer.assignment)
    poll_until(consumer, lambda: len(server.requests) >= 3)
    guarded.admin.produce(name, [b"2"])
    read = [1]
    poll_until(consumer, lambda: read.append(1) or len(read) > 3)
    assert consumer.metrics()["consumer-metrics"]["failed-connection-total"] == 0
    assert {form["grant_type"] for form in server.requests} == {
        JWT_BEARER if grant == "JWT bearer" else "client_credentials"
    }


def test_a_replaced_client_certificate_is_used_without_a_restart(
    guarded: RealKafka, name: str, consume: Consume, tmp_path: Path
) -> None:
    client = tmp_path / "client.pem"
    write_certificate(client, trustme.CA().issue_cert("stranger@test.invalid"))
    options = tls(guarded, "MUTUAL", ssl_certfile=str(client), bootstrap_timeout_ms=0)
    consumer = consume(name, group_id=name, reconnect_backoff_max_ms=100, **options)
    with pytest.raises(TlsAuthenticationError, match=r"(?i)alert"):
        consumer.poll(10_000)
    new = tmp_path / "new.pem"
    write_certificate(new, guarded.certificates.issuer.issue_cert("client@test.invalid"))
    shutil.move(new, client)
    reads_again(consumer, TlsAuthenticationError)


#: A part of each secret.
MARKER = "s3cret"


def _locals_of(error: BaseException) -> Iterator[str]:
    for each in (error, error.__cause__, error.__context__):
        if each is None:
            continue
        trace = traceback.TracebackException.from_exception(each, capture_locals=True)
        for frame in trace.stack:
            if "/tandem_kafka/" in frame.filename:
                yield from (frame.locals or {}).values()
        yield from trace.format_exception_only()


WITH_SECRETS: dict[str, Callable[[RealKafka, TokenServer], Options]] = {
    "PLAIN": lambda kafka, _: sasl(kafka, "SASL_SSL", "PLAIN", sasl_plain_password=MARKER),
    "SCRAM": lambda kafka, _: sasl(kafka, "SASL_SSL", "SCRAM-SHA-256", sasl_plain_password=MARKER),
    "token": lambda kafka, server: (
        from_endpoint(kafka, server) | {"sasl_oauthbearer_client_secret": f"{MARKER}-wrong"}
    ),
    "proxy": lambda kafka, _: {
        "bootstrap_servers": kafka.bootstrap(),
        "proxy_url": f"socks5://alice:{MARKER}@{kafka.bootstrap()}",
    },
}


@pytest.mark.parametrize("kind", WITH_SECRETS)
def test_a_secret_appears_nowhere(
    guarded: RealKafka,
    server: TokenServer,
    consume: Consume,
    caplog: pytest.LogCaptureFixture,
    kind: str,
) -> None:
    caplog.set_level(logging.DEBUG)
    options: dict[str, Any] = WITH_SECRETS[kind](guarded, server) | {"bootstrap_timeout_ms": 0}
    consumer = consume("any", group_id="any", default_api_timeout_ms=500, **options)
    with pytest.raises(KafkaError) as caught:
        consumer.topics()
    shown = [
        caplog.text,
        repr(caught.value),
        *_locals_of(caught.value),
        repr(consumer),
        repr(consumer.config),
        repr(consumer.metrics()),
        repr(consumer.health()),
        consumer.diagnose(),
    ]
    assert all(shown)
    assert MARKER not in "\n".join(shown)


@pytest.mark.parametrize("kind", WITH_SECRETS)
def test_a_secret_is_in_no_frame_of_a_constructor(
    guarded: RealKafka, server: TokenServer, consume: Consume, kind: str
) -> None:
    options: dict[str, Any] = WITH_SECRETS[kind](guarded, server)
    with pytest.raises(KafkaError) as caught:
        consume("any", bootstrap_timeout_ms=500, **options)
    shown = list(_locals_of(caught.value))
    assert shown
    assert MARKER not in "\n".join(shown)
