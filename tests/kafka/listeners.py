"""A cluster with a listener for each way to log in, and for each way to fail at it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Final

from tandem_kafka_testing.kafka.broker import QUICK_START, RealKafka
from tandem_kafka_testing.kafka.security import Certificates, write_certificate
from tests.kafka.tokens import AUDIENCE, ISSUER, TokenIssuer

__all__ = ["SESSION_MS", "secured_cluster"]

#: How long a login on the listener RENEWING is valid.
SESSION_MS: Final = 3_000

_LISTENERS: Final = {
    "MUTUAL": "SSL",  # requires a client certificate
    "EXPIRED": "SSL",  # its own certificate is expired
    "ELSEWHERE": "SSL",  # its own certificate names another host
    "RENEWING": "SASL_PLAINTEXT",  # limits the lifetime of a login
}
_OF_TOKENS: Final = "org.apache.kafka.common.security.oauthbearer"


def secured_cluster(issuer: TokenIssuer) -> RealKafka:
    """Return a cluster with an authorizer, in which metadata requests can create topics."""
    url = issuer.keys.as_uri()
    allowed = "-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=" + url
    return RealKafka(
        authorizer=True,
        properties=lambda certificates: _settings(certificates, url),
        listeners=_LISTENERS,
        jvm_options=(*QUICK_START, allowed),
    )


def _settings(certificates: Certificates, keys: str) -> Mapping[str, str]:
    expired = certificates.folder / "expired.pem"
    elsewhere = certificates.folder / "elsewhere.pem"
    yesterday = dt.datetime.now(dt.UTC) - dt.timedelta(days=1)
    issue = certificates.issuer.issue_cert
    write_certificate(expired, issue("127.0.0.1", not_after=yesterday))
    write_certificate(elsewhere, issue("elsewhere.invalid"))
    return {
        "auto.create.topics.enable": "true",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.expired.ssl.keystore.location": str(expired),
        "listener.name.elsewhere.ssl.keystore.location": str(elsewhere),
        "listener.name.renewing.connections.max.reauth.ms": str(SESSION_MS),
        "sasl.oauthbearer.jwks.endpoint.url": keys,
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        **_tokens("sasl_plaintext"),
        **_tokens("sasl_ssl"),
        **_tokens("renewing"),
    }


def _tokens(listener: str) -> dict[str, str]:
    prefix = f"listener.name.{listener}.oauthbearer"
    return {
        f"{prefix}.sasl.jaas.config": f"{_OF_TOKENS}.OAuthBearerLoginModule required;",
        f"{prefix}.sasl.server.callback.handler.class": (
            f"{_OF_TOKENS}.OAuthBearerValidatorCallbackHandler"
        ),
    }
