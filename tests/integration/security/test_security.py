"""Encrypted and authenticated connections, and the errors when they fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trustme
from confluent_kafka.admin import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka.errors import (
    KafkaConfigurationError,
    KafkaError,
    KafkaTimeoutError,
    SaslAuthenticationFailedError,
    TlsAuthenticationError,
    UnsupportedSaslMechanismError,
)
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.security import PASSWORD
from tests.integration.polling import Consume, partitions_of, read_all
from tests.waiting import wait_until

Options = dict[str, Any]


def sasl(kafka: RealKafka, listener: str, mechanism: str, password: str = PASSWORD) -> Options:
    options = {
        "bootstrap_servers": kafka.bootstrap(listener),
        "security_protocol": listener,
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "alice",
        "sasl_plain_password": password,
    }
    if listener == "SASL_SSL":
        options["ssl_cafile"] = str(kafka.certificates.authority)
    return options


def tls(kafka: RealKafka) -> Options:
    return {
        "bootstrap_servers": kafka.bootstrap("SSL"),
        "security_protocol": "SSL",
        "ssl_cafile": str(kafka.certificates.authority),
    }


def reads_and_commits(kafka: RealKafka, topic: str, consume: Consume, options: Options) -> None:
    kafka.admin.produce(topic, [b"%d" % number for number in range(100)])
    with consume(topic, group_id=f"group-of-{topic}", **options) as consumer:
        assert len(read_all(consumer, 100)) == 100
        consumer.commit()
        assert consumer.committed(TopicPartition(topic, 0)) == 100


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_sasl(
    kafka: RealKafka, topic: str, consume: Consume, listener: str, mechanism: str
) -> None:
    reads_and_commits(kafka, topic, consume, sasl(kafka, listener, mechanism))


@pytest.mark.parametrize("certificate", [False, True])
def test_tls(kafka: RealKafka, topic: str, consume: Consume, certificate: bool) -> None:
    options = tls(kafka)
    if certificate:
        options["ssl_certfile"] = str(kafka.certificates.client_certificate)
        options["ssl_keyfile"] = str(kafka.certificates.client_key)
    reads_and_commits(kafka, topic, consume, options)


# Failures: (options, error, part of its message).
Wrong = Callable[[RealKafka, str], Options]


def _wrong_password(listener: str, mechanism: str) -> Wrong:
    return lambda kafka, _: sasl(kafka, listener, mechanism, "not-the-password")


def _unknown_authority(kafka: RealKafka, folder: str) -> Options:
    authority = f"{folder}/another.pem"
    trustme.CA().cert_pem.write_to_path(authority)
    return tls(kafka) | {"ssl_cafile": authority}


def _no_authority(kafka: RealKafka, _: str) -> Options:
    return tls(kafka) | {"ssl_cafile": None}


def _tls_to_plain(kafka: RealKafka, _: str) -> Options:
    return tls(kafka) | {"bootstrap_servers": kafka.bootstrap()}


REFUSED: dict[str, tuple[Wrong, type[KafkaError], str]] = {
    "plain": (
        _wrong_password("SASL_PLAINTEXT", "PLAIN"),
        SaslAuthenticationFailedError,
        "Invalid username or password",
    ),
    "scram": (
        _wrong_password("SASL_PLAINTEXT", "SCRAM-SHA-256"),
        SaslAuthenticationFailedError,
        "invalid credentials",
    ),
    "scram over tls": (
        _wrong_password("SASL_SSL", "SCRAM-SHA-512"),
        SaslAuthenticationFailedError,
        "invalid credentials",
    ),
    "unknown authority": (_unknown_authority, TlsAuthenticationError, "set ssl_cafile"),
    "no authority": (_no_authority, TlsAuthenticationError, "set ssl_cafile"),
}


@pytest.fixture(params=REFUSED)
def rejected(
    request: pytest.FixtureRequest, kafka: RealKafka, tmp_path: Any
) -> tuple[Options, type[KafkaError], str]:
    make, error, words = REFUSED[request.param]
    return make(kafka, str(tmp_path)), error, words


@pytest.mark.behaviour(7)
def test_the_constructor_raises_a_rejected_login(
    rejected: tuple[Options, type[KafkaError], str], network_threads: Callable[[], list[str]]
) -> None:
    options, error, words = rejected
    with pytest.raises(error, match=words):
        KafkaConsumer(**options)
    assert network_threads() == []


@pytest.mark.behaviour(175)
def test_poll_raises_a_rejected_login(
    rejected: tuple[Options, type[KafkaError], str], topic: str, consume: Consume
) -> None:
    options, error, words = rejected
    consumer = consume(topic, group_id=f"group-of-{topic}", bootstrap_timeout_ms=0, **options)
    with pytest.raises(error, match=words):
        consumer.poll(30_000)


CALLS: dict[str, Callable[[KafkaConsumer, TopicPartition], object]] = {
    "poll": lambda c, _: c.poll(20_000),
    "commit": lambda c, _: c.commit(),
    "committed": lambda c, tp: c.committed(tp),
    "position": lambda c, tp: (c.seek_to_beginning(), c.position(tp)),
    "end_offsets": lambda c, tp: c.end_offsets([tp]),
    "offsets_for_times": lambda c, tp: c.offsets_for_times({tp: 1}),
    "topics": lambda c, _: c.topics(),
    "partitions_for_topic": lambda c, tp: c.partitions_for_topic(tp.topic),
    "bootstrap": lambda c, _: c.bootstrap(20_000),
}


@pytest.mark.behaviour(175)
@pytest.mark.parametrize("name", CALLS)
def test_every_call_that_needs_a_login_raises_its_rejection(
    kafka: RealKafka, topic: str, consume: Consume, name: str
) -> None:
    options = sasl(kafka, "SASL_PLAINTEXT", "SCRAM-SHA-512", "not-the-password")
    consumer = consume(group_id=f"group-of-{topic}", bootstrap_timeout_ms=0, **options)
    tp = TopicPartition(topic, 0)
    consumer.assign([tp])
    consumer.seek(tp, 0)
    for _ in range(2):  # the error is permanent
        with pytest.raises(SaslAuthenticationFailedError, match="credentials"):
            CALLS[name](consumer, tp)


def test_a_mechanism_that_the_broker_does_not_support(
    kafka: RealKafka, network_threads: Callable[[], list[str]]
) -> None:
    class Provider:
        def token(self) -> str:
            return "a-token"

    options = {
        "bootstrap_servers": kafka.bootstrap("SASL_PLAINTEXT"),
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": Provider(),
    }
    with pytest.raises(
        UnsupportedSaslMechanismError, match="'OAUTHBEARER'; set one that is enabled: PLAIN"
    ):
        KafkaConsumer(**options)
    assert network_threads() == []


def test_plain_text_to_a_port_that_speaks_tls(
    kafka: RealKafka,
    topic: str,
    consume: Consume,
    caplog: pytest.LogCaptureFixture,
    network_threads: Callable[[], list[str]],
) -> None:
    servers = kafka.bootstrap("SSL")
    with pytest.raises(KafkaTimeoutError, match=servers):
        KafkaConsumer(bootstrap_servers=servers, bootstrap_timeout_ms=3_000)
    assert "this port requires TLS" in caplog.text
    assert network_threads() == []
    consumer = consume(bootstrap_servers=servers, bootstrap_timeout_ms=0)
    consumer.assign(partitions_of(topic, 1))
    assert consumer.position(TopicPartition(topic, 0), timeout_ms=500) is None


def test_tls_to_a_port_that_speaks_plain_text(
    kafka: RealKafka, network_threads: Callable[[], list[str]]
) -> None:
    options = _tls_to_plain(kafka, "")
    with pytest.raises(KafkaError, match=options["bootstrap_servers"]):
        KafkaConsumer(bootstrap_timeout_ms=1_000, **options)
    assert network_threads() == []


def test_files_without_certificates_are_rejected(
    kafka: RealKafka, tmp_path: Any, network_threads: Callable[[], list[str]]
) -> None:
    wrong = tmp_path / "wrong.pem"
    wrong.write_text("this is no certificate")
    with pytest.raises(KafkaConfigurationError, match=r"wrong\.pem"):
        KafkaConsumer(**(tls(kafka) | {"ssl_cafile": str(wrong)}))
    assert network_threads() == []


def test_a_corrected_password_is_accepted(kafka: RealKafka, topic: str, consume: Consume) -> None:
    """A login is tried again by each poll(): the broker may learn of a user later."""
    options = sasl(kafka, "SASL_PLAINTEXT", "SCRAM-SHA-256") | {"sasl_plain_username": topic}
    consumer = consume(topic, group_id=f"group-of-{topic}", bootstrap_timeout_ms=0, **options)
    with pytest.raises(SaslAuthenticationFailedError):
        consumer.poll(30_000)
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4_096)
    user = UserScramCredentialUpsertion(topic, info, PASSWORD.encode())
    for future in kafka.admin.client.alter_user_scram_credentials([user]).values():
        future.result(20)
    kafka.admin.produce(topic, [b"let in"])
    values: list[bytes] = []

    def read() -> bool:
        try:
            records = consumer.poll(200).values()
        except SaslAuthenticationFailedError:
            return False
        values.extend(record.value for some in records for record in some)
        return values == [b"let in"]

    wait_until(read)
