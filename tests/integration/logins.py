"""Options for each listener of the cluster `guarded`, and the rights that the tests need there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from tandem_kafka import KafkaConsumer
from tandem_kafka.testing.kafka import RealKafka
from tandem_kafka.testing.kafka.security import PASSWORD
from tests.kafka.tokens import TokenIssuer

__all__ = ["Options", "Provider", "allow_all", "failed_connections", "sasl", "tls", "with_token"]

Options = dict[str, Any]


class Provider:
    """A token provider without a base class."""

    def __init__(self, issuer: TokenIssuer, **claims: Any) -> None:
        self.issuer = issuer
        self.claims: Mapping[str, Any] = claims
        self.calls = 0

    def token(self) -> str:
        self.calls += 1
        return self.issuer.issue(**self.claims)


def tls(kafka: RealKafka, listener: str = "SSL", **more: Any) -> Options:
    return {
        "bootstrap_servers": kafka.bootstrap(listener),
        "security_protocol": "SSL",
        "ssl_cafile": str(kafka.certificates.authority),
        **more,
    }


def sasl(
    kafka: RealKafka, listener: str, mechanism: str, user: str = "alice", **more: Any
) -> Options:
    options = {
        "bootstrap_servers": kafka.bootstrap(listener),
        "security_protocol": "SASL_SSL" if listener == "SASL_SSL" else "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
    }
    if mechanism == "PLAIN" or mechanism.startswith("SCRAM"):
        options |= {"sasl_plain_username": user, "sasl_plain_password": PASSWORD}
    if listener == "SASL_SSL":
        options["ssl_cafile"] = str(kafka.certificates.authority)
    return options | more


def with_token(kafka: RealKafka, listener: str, provider: Any) -> Options:
    return sasl(kafka, listener, "OAUTHBEARER", sasl_oauth_token_provider=provider)


def allow_all(kafka: RealKafka, name: str) -> None:
    """Let every user read the topic and use the group of that name."""
    rights = [
        AclBinding(
            kind,
            name,
            ResourcePatternType.LITERAL,
            "User:*",
            "*",
            AclOperation.READ,
            AclPermissionType.ALLOW,
        )
        for kind in (ResourceType.TOPIC, ResourceType.GROUP)
    ]
    for future in kafka.admin.client.create_acls(rights).values():
        future.result(20)


def failed_connections(consumer: KafkaConsumer) -> int:
    """Return how many attempts to connect have failed."""
    return int(consumer.metrics()["consumer-metrics"]["failed-connection-total"])
