"""Every way to log in, with each transport: a member of a group reads and commits."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from confluent_kafka.admin import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from kafka.net.sasl.oauth import AbstractTokenProvider

from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.security import PASSWORD
from tests.integration.logins import (
    Options,
    Provider,
    allow_all,
    failed_connections,
    sasl,
    tls,
    with_token,
)
from tests.integration.polling import Consume, poll_until, read_all
from tests.kafka.listeners import SESSION_MS
from tests.kafka.tokens import TokenIssuer
from tests.machine import slowness

pytestmark = [
    pytest.mark.full("starts a secured cluster"),
    pytest.mark.usefixtures("implementation"),
]

#: RFC 5802 escapes both characters, and only them.
AWKWARD_USER = "cn=reader,ou=2C,=3D"


class OfKafkaPython(AbstractTokenProvider):  # type: ignore[misc]
    """A provider with the base class of kafka-python, and with SASL extensions."""

    def __init__(self, issuer: TokenIssuer) -> None:
        super().__init__()
        self._issuer = issuer

    def token(self) -> str:
        return self._issuer.issue()

    def extensions(self) -> Mapping[str, str]:
        return {"logicalCluster": "one", "traceId": "7"}


@pytest.fixture
def name(guarded: RealKafka) -> str:
    """A topic and a group that every user may use."""
    name = f"login-{uuid.uuid4().hex[:8]}"
    guarded.admin.create_topic(name)
    allow_all(guarded, name)
    return name


def _mutual(kafka: RealKafka, _: TokenIssuer) -> Options:
    certificates = kafka.certificates
    return tls(
        kafka,
        "MUTUAL",
        ssl_certfile=str(certificates.client_certificate),
        ssl_keyfile=str(certificates.client_key),
    )


def _with(listener: str, mechanism: str) -> Callable[[RealKafka, TokenIssuer], Options]:
    return lambda kafka, _: sasl(kafka, listener, mechanism)


def _token(listener: str, make: Callable[[TokenIssuer], Any]) -> Any:
    return lambda kafka, issuer: with_token(kafka, listener, make(issuer))


LOGINS: dict[str, Callable[[RealKafka, TokenIssuer], Options]] = {
    "SSL": lambda kafka, _: tls(kafka),
    "mutual TLS": _mutual,
    **{
        f"{mechanism} {listener}": _with(listener, mechanism)
        for listener in ("SASL_PLAINTEXT", "SASL_SSL")
        for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
    },
    "OAUTHBEARER SASL_PLAINTEXT": _token("SASL_PLAINTEXT", Provider),
    "OAUTHBEARER SASL_SSL": _token("SASL_SSL", Provider),
    "OAUTHBEARER with extensions": _token("SASL_SSL", OfKafkaPython),
}


def reads_and_commits(
    kafka: RealKafka, name: str, consume: Consume, options: Options, count: int = 10
) -> None:
    kafka.admin.produce(name, [b"%d" % number for number in range(count)])
    consumer = consume(name, group_id=name, **options)
    assert len(read_all(consumer, count)) == count
    consumer.commit()
    assert consumer.committed(TopicPartition(name, 0)) == count


@pytest.mark.every_version
@pytest.mark.parametrize("login", LOGINS)
def test_a_member_logs_in(
    guarded: RealKafka, issuer: TokenIssuer, name: str, consume: Consume, login: str
) -> None:
    reads_and_commits(guarded, name, consume, LOGINS[login](guarded, issuer))


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_user_names_with_commas_and_equals_signs(
    guarded: RealKafka, name: str, consume: Consume, mechanism: str
) -> None:
    info = ScramCredentialInfo(ScramMechanism[mechanism.replace("-", "_")], 4_096)
    user = UserScramCredentialUpsertion(AWKWARD_USER, info, PASSWORD.encode())
    for future in guarded.admin.client.alter_user_scram_credentials([user]).values():
        future.result(20)
    options = sasl(guarded, "SASL_PLAINTEXT", mechanism, AWKWARD_USER)
    reads_and_commits(guarded, name, consume, options)


class Reading:
    """A member that reads what is written for it, one record after the other."""

    def __init__(self, kafka: RealKafka, consumer: KafkaConsumer, topic: str) -> None:
        self.consumer = consumer
        self.offsets: list[int] = []
        self.longest_ms = 0
        self._kafka = kafka
        self._topic = topic
        self._clock = consumer._core.clock
        self._written = 0
        self._written_ms = 0

    def step(self) -> None:
        if self._written == len(self.offsets):
            self._kafka.admin.produce(self._topic, [b"%d" % self._written])
            self._written += 1
            self._written_ms = self._clock.now_ms()
        for records in self.consumer.poll(50).values():
            self.offsets += [record.offset for record in records]
        self.longest_ms = max(self.longest_ms, self._clock.now_ms() - self._written_ms)


def test_logins_are_renewed_while_records_flow(
    guarded: RealKafka, issuer: TokenIssuer, name: str, consume: Consume
) -> None:
    """KIP-368: a login is valid for `SESSION_MS`. No record is lost, and none is late."""
    provider = Provider(issuer)
    reading: list[Reading] = []
    for options in (
        sasl(guarded, "RENEWING", "SCRAM-SHA-512"),
        with_token(guarded, "RENEWING", provider),
    ):
        topic = guarded.admin.create_topic(f"{name}-{len(reading)}")
        allow_all(guarded, topic)
        consumer = consume(topic, group_id=topic, **options)
        poll_until(consumer, consumer.assignment)
        reading.append(Reading(guarded, consumer, topic))
    clock = reading[0].consumer._core.clock
    end_ms = clock.now_ms() + int(2.2 * SESSION_MS)
    while clock.now_ms() < end_ms:
        for each in reading:
            each.step()
    for each in reading:
        assert len(each.offsets) > 20
        assert each.offsets == list(range(len(each.offsets)))
        assert each.longest_ms < 10_000 * slowness()
        assert failed_connections(each.consumer) == 0, "the broker has ended no connection"
        each.consumer.commit()
    assert provider.calls >= 3, "at least two renewals"
