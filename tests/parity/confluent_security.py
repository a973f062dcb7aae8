"""Programs for `confluent_kafka`'s consumer and ours: logins, lost brokers."""

from __future__ import annotations

from typing import Any

from tandem_kafka_testing.kafka.security import PASSWORD
from tests.parity.confluent_world import World, comparable

__all__ = ["PROGRAMS"]


def _login(world: World, listener: str, password: str) -> dict[str, Any]:
    return {
        "bootstrap_servers": world.kafka.bootstrap(listener),
        "security_protocol": listener.lower(),
        "sasl_mechanisms": "SCRAM-SHA-256",
        "sasl_username": "alice",
        "sasl_password": password,
        "ssl_ca_location": str(world.kafka.certificates.authority),
    }


def a_login_over_tls(world: World) -> Any:
    """security.protocol=sasl_ssl, with names in lower case."""
    world.produce(b"a")
    consumer = world.consumer(world.topic, **_login(world, "SASL_SSL", PASSWORD))
    found = comparable(world.read(consumer, 1))
    return found, comparable(consumer.commit(asynchronous=False))


def a_client_certificate(world: World) -> Any:
    """security.protocol=ssl."""
    world.produce(b"a")
    consumer = world.consumer(
        world.topic,
        bootstrap_servers=world.kafka.bootstrap("SSL"),
        security_protocol="ssl",
        ssl_ca_location=str(world.kafka.certificates.authority),
        ssl_certificate_location=str(world.kafka.certificates.client_certificate),
        ssl_key_location=str(world.kafka.certificates.client_key),
        ssl_endpoint_identification_algorithm="https",
    )
    return comparable(world.read(consumer, 1))


def nothing_verified(world: World) -> Any:
    """enable.ssl.certificate.verification=false needs no authority."""
    world.produce(b"a")
    consumer = world.consumer(
        world.topic,
        bootstrap_servers=world.kafka.bootstrap("SSL"),
        security_protocol="ssl",
        enable_ssl_certificate_verification="false",
    )
    return comparable(world.read(consumer, 1))


def a_wrong_password(world: World) -> Any:
    """error_cb is called, and poll() returns nothing else."""
    errors: list[Any] = []
    login = _login(world, "SASL_PLAINTEXT", "wrong")
    consumer = world.consumer(world.topic, error_cb=errors.append, **login)
    came = world.poll_until(
        consumer, lambda: any(error.name() == "_AUTHENTICATION" for error in errors)
    )
    return comparable(came)


def no_broker_at_all(world: World) -> Any:
    """The constructor does not wait; error_cb is called."""
    errors: list[Any] = []
    consumer = world.consumer(world.topic, error_cb=errors.append, bootstrap_servers="127.0.0.1:1")
    world.poll_until(consumer, lambda: any(error.name() == "_ALL_BROKERS_DOWN" for error in errors))
    return consumer.assignment()


PROGRAMS = (
    a_login_over_tls,
    a_client_certificate,
    nothing_verified,
    a_wrong_password,
    no_broker_at_all,
)
