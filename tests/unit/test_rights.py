"""Who lacks a right, and the command that grants it."""

from __future__ import annotations

import pickle
import shlex
from typing import Any

import pytest

from tandem_kafka import KafkaConsumer
from tandem_kafka.config import Config
from tandem_kafka.errors import (
    GroupAuthorizationFailedError,
    TopicAuthorizationFailedError,
    TopicsDeniedError,
    acl_command,
)
from tandem_kafka.wire.messages import ConsumerGroupHeartbeatRequest, MetadataRequest
from tandem_kafka_testing import Call
from tandem_kafka_testing.served import ServedKafka


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("kind", ["group", "topic"])
def test_a_login_is_named_in_the_command_that_grants_a_right(mechanism: str, kind: str) -> None:
    def without_group(call: Call) -> Any:
        response = call.default()
        response.error_code = GroupAuthorizationFailedError.errno
        return response

    def without_topic(call: Call) -> Any:
        response = call.default()
        for each in response.topics:
            each.error_code = TopicAuthorizationFailedError.errno
        return response

    denied: Any = {
        "group": (ConsumerGroupHeartbeatRequest, without_group, GroupAuthorizationFailedError),
        "topic": (MetadataRequest, without_topic, TopicsDeniedError),
    }
    request, handler, error = denied[kind]
    with ServedKafka(users={"alice": "Hidden-7"}) as kafka:
        name = kafka.create_topic("orders")
        with KafkaConsumer(
            bootstrap_servers=kafka.bootstrap,
            group_id="orders",
            group_protocol="consumer",
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism=mechanism,
            sasl_plain_username="alice",
            sasl_plain_password="Hidden-7",
        ) as consumer:
            kafka.perform(lambda cluster: cluster.script(request, *[handler] * 100))
            consumer.subscribe([name])  # only now: metadata that it has are not asked for again
            with pytest.raises(error) as raised:
                _poll(consumer)
    command = f"--allow-principal User:alice --operation Read --{kind} orders"
    assert command in str(raised.value)
    assert command in str(pickle.loads(pickle.dumps(raised.value)))


def _poll(consumer: KafkaConsumer[Any, Any]) -> None:
    for _ in range(100):
        consumer.poll(200)


def test_without_a_name_the_command_has_a_gap() -> None:
    assert " User:... " in acl_command("Read", "group", "readers")
    assert " User:... " in str(TopicsDeniedError({"orders"}))


@pytest.mark.parametrize("name", ["my readers", "$(reboot)", "it's", "a;b", "r\nb"])
def test_a_shell_takes_names_as_they_are(name: str) -> None:
    words = shlex.split(acl_command("Read", "group", name, user=name))
    assert words[-1] == name
    assert f"User:{name}" in words


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN"}, "alice"),
        ({"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "SCRAM-SHA-256"}, "alice"),
        ({"security_protocol": "PLAINTEXT", "sasl_mechanism": "PLAIN"}, None),
        ({"security_protocol": "SSL"}, None),
    ],
)
def test_a_login_has_a_name_if_the_client_sends_it(
    options: dict[str, Any], name: str | None
) -> None:
    user = {"sasl_plain_username": "alice", "sasl_plain_password": "Hidden-7"}
    assert Config.from_options({**options, **user}).login_name == name
