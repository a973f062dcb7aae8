"""Options for each listener of the cluster `guarded`, and the rights that the tests need there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from tandem_kafka import KafkaConsumer
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.security import PASSWORD
from tests.kafka.tokens import TokenIssuer
from tests.waiting import wait_until

__all__ = [
    "Options",
    "Provider",
    "allow",
    "allow_all",
    "failed_connections",
    "sasl",
    "tls",
    "with_token",
]

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


def allow(
    kafka: RealKafka, kind: ResourceType, name: str, *operations: AclOperation, user: str = "alice"
) -> None:
    """Give rights to a user; returns when the broker knows them, after the controller."""
    client = kafka.admin.client
    rights = [
        (
            kind,
            name,
            ResourcePatternType.LITERAL,
            f"User:{user}",
            "*",
            each,
            AclPermissionType.ALLOW,
        )
        for each in operations
    ]
    for future in client.create_acls([AclBinding(*right) for right in rights]).values():
        future.result(20)
    filters = [AclBindingFilter(*right) for right in rights]
    wait_until(lambda: all(client.describe_acls(each).result(20) for each in filters), "the rights")


def allow_all(kafka: RealKafka, name: str) -> None:
    """Let every user read the topic and use the group of that name."""
    for kind in (ResourceType.TOPIC, ResourceType.GROUP):
        allow(kafka, kind, name, AclOperation.READ, user="*")


def failed_connections(consumer: KafkaConsumer) -> int:
    """Return how many attempts to connect have failed."""
    return int(consumer.metrics()["consumer-metrics"]["failed-connection-total"])
