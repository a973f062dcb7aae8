"""Topics that may be described and not read, beside others that may be read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka.errors import TopicAuthorizationFailedError
from tandem_kafka.wire.fetch_request import ConsumerFetch
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.security import PASSWORD
from tests.integration.logins import allow
from tests.integration.polling import Consume, read_all
from tests.integration.watching import Sent
from tests.waiting import wait_until

pytestmark = pytest.mark.full("starts a secured cluster")

ALICE: dict[str, Any] = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "SCRAM-SHA-256",
    "sasl_plain_username": "alice",
    "sasl_plain_password": PASSWORD,
}


def forbid(cluster: RealKafka, topic: str, operation: AclOperation) -> None:
    binding = AclBindingFilter(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        "User:alice",
        None,
        operation,
        AclPermissionType.ANY,
    )
    for future in cluster.admin.client.delete_acls([binding]).values():
        future.result(30.0)


def poll_until_rejected(consumer: KafkaConsumer, topic: str) -> list[bytes]:
    """Poll until a topic is rejected; returns the values read before."""
    values: list[bytes] = []

    def rejected() -> bool:
        try:
            batch = consumer.poll(timeout_ms=50)
        except TopicAuthorizationFailedError as error:
            return bool(error.args[0] == {topic})
        values.extend(record.value for records in batch.values() for record in records)
        return False

    poll_until_true(rejected)
    return values


def poll_until_true(done: Callable[[], bool]) -> None:
    for _ in range(1_000):
        if done():
            return
    pytest.fail("polled in vain")


@pytest.mark.behaviour(167)
def test_an_unauthorized_topic_raises_and_other_topics_are_read(
    guarded: RealKafka, consume: Consume, request: pytest.FixtureRequest
) -> None:
    name = request.node.name
    allowed, forbidden = (guarded.admin.create_topic(f"{name}-{part}") for part in ("free", "shut"))
    allow(guarded, ResourceType.TOPIC, allowed, AclOperation.READ)
    allow(guarded, ResourceType.TOPIC, forbidden, AclOperation.DESCRIBE)
    guarded.admin.produce(allowed, [b"1"] * 5)
    guarded.admin.produce(forbidden, [b"2"] * 5)
    consumer = consume(bootstrap_servers=guarded.bootstrap("SASL_PLAINTEXT"), **ALICE)
    consumer.assign([TopicPartition(allowed, 0), TopicPartition(forbidden, 0)])
    values = poll_until_rejected(consumer, forbidden)
    values += poll_until_rejected(consumer, forbidden)
    guarded.admin.produce(allowed, [b"3"] * 5)
    for _ in range(3):
        values += poll_until_rejected(consumer, forbidden)
    while len(values) < 10:
        values += poll_until_rejected(consumer, forbidden)
    assert values == [b"1"] * 5 + [b"3"] * 5
    allow(guarded, ResourceType.TOPIC, forbidden, AclOperation.READ)
    got: list[bytes] = []

    def all_read() -> bool:
        try:
            batch = consumer.poll(timeout_ms=50)
        except TopicAuthorizationFailedError:
            return False
        got.extend(record.value for records in batch.values() for record in records)
        return len(got) == 5

    poll_until_true(all_read)
    assert got == [b"2"] * 5


@pytest.mark.behaviour(167)
def test_a_slow_application_finds_one_error(
    guarded: RealKafka, consume: Consume, request: pytest.FixtureRequest
) -> None:
    name = request.node.name[:80]
    allowed, forbidden = (guarded.admin.create_topic(f"{name}-{part}") for part in ("free", "shut"))
    for topic in (allowed, forbidden):
        allow(guarded, ResourceType.TOPIC, topic, AclOperation.READ)
        allow(guarded, ResourceType.TOPIC, topic, AclOperation.DESCRIBE)
        guarded.admin.produce(topic, [b"1"] * 5)
    bootstrap = guarded.bootstrap("SASL_PLAINTEXT")
    consumer = consume(bootstrap_servers=bootstrap, fetch_max_wait_ms=50, **ALICE)
    consumer.assign([TopicPartition(allowed, 0), TopicPartition(forbidden, 0)])
    read_all(consumer, 10)
    sent, buffer = Sent(consumer), consumer._core.engine.buffer
    before = buffer.added
    forbid(guarded, forbidden, AclOperation.READ)
    wait_until(lambda: buffer.added > before, "the rejection")
    fetches = len(sent.of(ConsumerFetch))
    wait_until(lambda: len(sent.of(ConsumerFetch)) >= fetches + 6, "fetches of the other topic")
    assert buffer.added == before + 1
    assert poll_until_rejected(consumer, forbidden) == []
    assert consumer.position(TopicPartition(forbidden, 0)) == 5


def test_end_offsets_of_an_unauthorized_topic_raise(
    guarded: RealKafka, consume: Consume, request: pytest.FixtureRequest
) -> None:
    topic = guarded.admin.create_topic(request.node.name)
    consumer = consume(bootstrap_servers=guarded.bootstrap("SASL_PLAINTEXT"), **ALICE)
    with pytest.raises(TopicAuthorizationFailedError):
        consumer.end_offsets([TopicPartition(topic, 0)], timeout_ms=20_000)
