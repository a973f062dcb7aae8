"""Logins with SASL, by each client library, on the simulated and on a real cluster."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import aiokafka
import confluent_kafka
import pytest
from kafka import KafkaAdminClient
from kafka.errors import KafkaError

from tandem_kafka import KafkaConsumer
from tandem_kafka.errors import SaslAuthenticationFailedError
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.security import PASSWORD, USERS
from tandem_kafka_testing.served import ServedKafka

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
TIMEOUT_S = 20
USER = USERS[0]


@pytest.fixture(scope="module")
def with_logins() -> Iterator[str]:
    with ServedKafka(users={USER: PASSWORD}) as kafka:
        yield kafka.bootstrap


@pytest.fixture(
    params=[
        "simulated",
        pytest.param(
            "real", marks=[pytest.mark.broker, pytest.mark.full("takes long on a real broker")]
        ),
    ]
)
def bootstrap(request: pytest.FixtureRequest) -> str:
    if request.param == "simulated":
        return str(request.getfixturevalue("with_logins"))
    kafka: RealKafka = request.getfixturevalue("kafka")
    return kafka.bootstrap("SASL_PLAINTEXT")


def kafka_python(bootstrap: str, mechanism: str, password: str) -> None:
    KafkaAdminClient(
        bootstrap_servers=bootstrap,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism=mechanism,
        sasl_plain_username=USER,
        sasl_plain_password=password,
        # A wrong password is only reported after it.
        bootstrap_timeout_ms=1_000 * (TIMEOUT_S if password == PASSWORD else 1),
    ).close()


def confluent(bootstrap: str, mechanism: str, password: str) -> None:
    failures: list[confluent_kafka.KafkaError] = []
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": USER,
            "sasl.password": password,
            "error_cb": failures.append,
            "log_level": 0,
        }
    )
    until_s = time.monotonic() + TIMEOUT_S
    while time.monotonic() < until_s:
        producer.poll(0)
        if any(each.code() == confluent_kafka.KafkaError._AUTHENTICATION for each in failures):
            raise SaslAuthenticationFailedError(str(failures[0]))
        try:
            assert producer.list_topics(timeout=0.5).brokers
        except confluent_kafka.KafkaException:
            continue
        return
    raise TimeoutError


def aiokafka_(bootstrap: str, mechanism: str, password: str) -> None:
    async def log_in() -> None:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism=mechanism,
            sasl_plain_username=USER,
            sasl_plain_password=password,
        )
        try:
            await producer.start()
        finally:
            await producer.stop()

    asyncio.run(log_in())


def tandem(bootstrap: str, mechanism: str, password: str) -> None:
    with KafkaConsumer(
        bootstrap_servers=bootstrap,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism=mechanism,
        sasl_plain_username=USER,
        sasl_plain_password=password,
    ) as consumer:
        consumer.topics()


LOGINS = {
    "kafka-python": kafka_python,
    "confluent-kafka": confluent,
    "aiokafka": aiokafka_,
    "tandem-kafka": tandem,
}


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("library", LOGINS)
def test_each_library_logs_in(bootstrap: str, library: str, mechanism: str) -> None:
    LOGINS[library](bootstrap, mechanism, PASSWORD)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("library", LOGINS)
@pytest.mark.usefixtures("kafka_python_ends")
def test_a_wrong_password_is_rejected(bootstrap: str, library: str, mechanism: str) -> None:
    with pytest.raises((KafkaError, aiokafka.errors.KafkaError)):
        LOGINS[library](bootstrap, mechanism, f"{PASSWORD}?")


def test_nothing_is_served_without_a_login(with_logins: str) -> None:
    with pytest.raises(KafkaError, match="if it requires SASL"):
        KafkaConsumer(bootstrap_servers=with_logins, bootstrap_timeout_ms=3_000)
