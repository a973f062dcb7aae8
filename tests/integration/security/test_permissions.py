"""A user without permissions gets errors, and recovers when access is granted."""

from __future__ import annotations

import re
import uuid
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

from tandem_kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition
from tandem_kafka.errors import (
    GroupAuthorizationFailedError,
    KafkaError,
    TopicAuthorizationFailedError,
)
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.security import PASSWORD
from tests.integration.group_members import rebalance_calls
from tests.integration.logins import allow
from tests.integration.polling import (
    Consume,
    Listener,
    assigned,
    partitions_of,
    poll_until,
    read_all,
)
from tests.waiting import wait_until

pytestmark = pytest.mark.full("starts a secured cluster")

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
READ, DESCRIBE = AclOperation.READ, AclOperation.DESCRIBE


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """Of everything a test makes."""
    return f"{re.sub('[^a-z0-9_]+', '-', request.node.name)}-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def alice(guarded: RealKafka) -> dict[str, Any]:
    return {
        "bootstrap_servers": guarded.bootstrap("SASL_PLAINTEXT"),
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "alice",
        "sasl_plain_password": PASSWORD,
        "metadata_max_age_ms": 200,
        "retry_backoff_max_ms": 200,
    }


def take_back(cluster: RealKafka, kind: ResourceType, name: str, operation: AclOperation) -> None:
    right = AclBindingFilter(
        kind,
        name,
        ResourcePatternType.LITERAL,
        "User:alice",
        "*",
        operation,
        AclPermissionType.ALLOW,
    )
    for future in cluster.admin.client.delete_acls([right]).values():
        assert len(future.result(20)) == 1


def raises_until(consumer: KafkaConsumer, error: type[KafkaError], ready: Any) -> list[Any]:
    """Poll until `ready(records)`; only `error` may be raised meanwhile."""
    records: list[Any] = []

    def look() -> bool:
        try:
            for some in consumer.poll(100).values():
                records.extend(some)
        except error:
            pass
        return bool(ready(records))

    wait_until(look)
    return records


@pytest.mark.behaviour(59)
def test_an_unauthorized_topic_raises_and_the_membership_is_kept(
    guarded: RealKafka, consume: Consume, alice: dict[str, Any], name: str
) -> None:
    mine, theirs = f"mine-{name}", f"theirs-{name}"
    for topic in (mine, theirs):
        guarded.admin.create_topic(topic)
    guarded.admin.produce(mine, [b"1"])
    guarded.admin.produce(theirs, [b"2"])
    allow(guarded, TOPIC, mine, READ)
    allow(guarded, GROUP, name, READ)
    consumer = consume(mine, theirs, group_id=name, **alice)
    with pytest.raises(TopicAuthorizationFailedError, match=theirs) as caught:
        poll_until(consumer, lambda: False)
    assert caught.value.args[0] == {theirs}
    read = raises_until(consumer, TopicAuthorizationFailedError, lambda records: records)
    assert [record.value for record in read] == [b"1"]
    consumer.commit()
    member = consumer.group_metadata().member_id
    assert member != ""
    allow(guarded, TOPIC, theirs, READ)
    read = raises_until(consumer, TopicAuthorizationFailedError, lambda records: records)
    assert [record.value for record in read] == [b"2"]
    assert consumer.group_metadata().member_id == member


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("operation", ["Read", "Describe"])
def test_a_denied_topic_is_in_health_and_in_the_log_with_the_command_that_grants_it(  # noqa: PLR0917
    guarded: RealKafka,
    consume: Consume,
    alice: dict[str, Any],
    name: str,
    caplog: pytest.LogCaptureFixture,
    protocol: str,
    operation: str,
) -> None:
    guarded.admin.create_topic(name)
    allow(guarded, GROUP, name, READ)
    if operation == "Read":
        allow(guarded, TOPIC, name, DESCRIBE)
    consumer = consume(name, group_id=name, group_protocol=protocol, **alice)
    command = f"kafka-acls.sh --add --allow-principal User:alice --operation Read --topic {name}"
    raises_until(
        consumer,
        TopicAuthorizationFailedError,
        lambda _: any(command in reason for reason in consumer.health().not_ready),
    )
    assert any(command in trouble for trouble in consumer.health().troubles)
    assert any(command in text for text in caplog.messages)
    with pytest.raises(TopicAuthorizationFailedError, match=f"--operation Read --topic {name}"):
        poll_until(consumer, lambda: False)
    allow(guarded, TOPIC, name, READ)
    guarded.admin.produce(name, [b"1"])
    raises_until(consumer, TopicAuthorizationFailedError, lambda records: records)
    wait_until(lambda: consumer.poll(100) is not None and consumer.health().ready)


@pytest.mark.behaviour(102)
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_unsubscribe_and_close_do_not_raise_pending_errors_of_poll(
    guarded: RealKafka, consume: Consume, alice: dict[str, Any], name: str, protocol: str
) -> None:
    allow(guarded, GROUP, name, READ)
    guarded.admin.create_topic(name)
    for end in (KafkaConsumer.unsubscribe, KafkaConsumer.close):
        consumer = consume(name, group_id=name, group_protocol=protocol, **alice)
        background = consumer._core.engine.background
        with pytest.raises(TopicAuthorizationFailedError):
            poll_until(consumer, lambda: False)
        wait_until(lambda queue=background: len(queue) > 0, "a pending error")
        end(consumer)
    allow(guarded, TOPIC, name, READ)
    forbidden = f"forbidden-{name}"
    consumer = consume(name, group_id=forbidden, group_protocol=protocol, **alice)
    with pytest.raises(GroupAuthorizationFailedError):
        raises_until(consumer, TopicAuthorizationFailedError, lambda _: False)
    consumer.unsubscribe()


@pytest.mark.behaviour(73)
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("end", [KafkaConsumer.unsubscribe, KafkaConsumer.close])
def test_a_rejected_commit_does_not_stop_the_revocation(
    guarded: RealKafka,
    consume: Consume,
    alice: dict[str, Any],
    name: str,
    protocol: str,
    end: Callable[[KafkaConsumer], None],
) -> None:
    allow(guarded, GROUP, name, READ)
    guarded.admin.create_topic(name)
    allow(guarded, TOPIC, name, READ, DESCRIBE)
    guarded.admin.produce(name, [b"1"])
    options = {"group_id": name, "group_protocol": protocol, **alice}
    consumer = consume(enable_auto_commit=True, auto_commit_interval_ms=3_600_000, **options)
    listener = Listener()
    consumer.subscribe([name], listener=listener)
    poll_until(consumer, lambda: consumer.assignment() and consumer.position(ours(name)) == 1)
    another = consume(group_id=f"{name}-another", **alice)
    allow(guarded, GROUP, f"{name}-another", READ)
    take_back(guarded, TOPIC, name, READ)
    wait_until_rejected(another, ours(name))
    end(consumer)
    assert rebalance_calls(listener) == [("assigned", {ours(name)}), ("revoked", {ours(name)})]
    assert guarded.admin.members(name) == 0
    assert guarded.admin.committed(name, name) == 0


def wait_until_rejected(consumer: KafkaConsumer, tp: TopicPartition) -> None:
    """Wait until the broker rejects commits."""

    def rejected() -> bool:
        try:
            consumer.commit({tp: OffsetAndMetadata(1)})
        except TopicAuthorizationFailedError:
            return True
        except GroupAuthorizationFailedError:
            pass
        return False

    wait_until(rejected)


def ours(topic: str) -> TopicPartition:
    return TopicPartition(topic, 0)


def test_an_unauthorized_assigned_topic_raises(
    guarded: RealKafka, consume: Consume, alice: dict[str, Any], name: str
) -> None:
    guarded.admin.create_topic(name)
    guarded.admin.produce(name, [b"1"])
    consumer = consume(**alice)
    tp = TopicPartition(name, 0)
    consumer.assign([tp])
    for call in (
        lambda: consumer.poll(20_000),
        lambda: consumer.position(tp),
        lambda: consumer.end_offsets([tp]),
    ):
        with pytest.raises(TopicAuthorizationFailedError, match=name):
            call()
    assert consumer.partitions_for_topic(name) == set()
    assert name not in consumer.topics()
    allow(guarded, TOPIC, name, DESCRIBE)
    # It can be described now, but not read.
    wait_until(lambda: name in consumer.topics())
    assert consumer.partitions_for_topic(name) == {0}
    raises_until(consumer, TopicAuthorizationFailedError, lambda _: positioned(consumer, tp))
    with pytest.raises(TopicAuthorizationFailedError, match=name):
        poll_until(consumer, lambda: False)
    allow(guarded, TOPIC, name, READ)
    read = raises_until(consumer, TopicAuthorizationFailedError, lambda records: records)
    assert [record.value for record in read] == [b"1"]


def positioned(consumer: KafkaConsumer, tp: TopicPartition) -> bool:
    try:
        return consumer.position(tp, timeout_ms=200) == 0
    except TopicAuthorizationFailedError:
        return False


def test_an_unauthorized_group_raises_until_it_is_joined_again(
    guarded: RealKafka, consume: Consume, alice: dict[str, Any], name: str
) -> None:
    guarded.admin.create_topic(name)
    guarded.admin.produce(name, [b"1"])
    allow(guarded, TOPIC, name, READ)
    consumer = consume(name, group_id=name, **alice)
    for _ in range(3):
        with pytest.raises(GroupAuthorizationFailedError, match=f"--operation Read --group {name}"):
            consumer.poll(20_000)
    consumer.unsubscribe()
    allow(guarded, GROUP, name, READ)
    consumer.subscribe([name])
    read = raises_until(consumer, GroupAuthorizationFailedError, lambda records: records)
    assert [record.value for record in read] == [b"1"]


def test_an_unauthorized_group_without_membership(
    guarded: RealKafka, consume: Consume, alice: dict[str, Any], name: str
) -> None:
    guarded.admin.create_topic(name)
    guarded.admin.produce(name, [b"1"])
    allow(guarded, TOPIC, name, READ)
    consumer = consume(group_id=name, **alice)
    tp = TopicPartition(name, 0)
    consumer.assign([tp])
    seen: list[Exception | None] = []
    offsets = {tp: OffsetAndMetadata(1, "", -1)}
    for _ in range(2):
        for call in (
            lambda: consumer.committed(tp),
            lambda: consumer.commit(offsets),
            lambda: consumer.position(tp),
            lambda: consumer.poll(20_000),
        ):
            with pytest.raises(GroupAuthorizationFailedError, match=name):
                call()
    consumer.commit_async(offsets, lambda _, error: seen.append(error))
    consumer.commit({})
    assert [type(error) for error in seen] == [GroupAuthorizationFailedError]
    consumer.seek_to_beginning()  # reading needs no group
    assert len(raises_until(consumer, GroupAuthorizationFailedError, lambda got: got)) == 1
    allow(guarded, GROUP, name, READ)

    def commits() -> bool:
        try:
            consumer.commit()
        except GroupAuthorizationFailedError:
            return False
        return True

    wait_until(commits)
    assert consumer.committed(tp) == 1


@pytest.mark.behaviour(135)
def test_a_rejected_commit_names_all_unauthorized_topics(
    guarded: RealKafka, consume: Consume, alice: dict[str, Any], name: str
) -> None:
    topics = [f"{name}-{number}" for number in range(3)]
    for topic in topics:
        guarded.admin.create_topic(topic)
    allow(guarded, TOPIC, topics[0], READ)
    allow(guarded, GROUP, name, READ)
    consumer = consume(group_id=name, **alice)
    offsets = {TopicPartition(topic, 0): OffsetAndMetadata(1, "", -1) for topic in topics}
    with pytest.raises(TopicAuthorizationFailedError) as caught:
        consumer.commit(offsets)
    assert caught.value.args[0] == set(topics[1:])
    assert consumer.committed(TopicPartition(topics[0], 0)) == 1


@pytest.mark.behaviour(56)
@pytest.mark.parametrize("way", ["subscribe", "assign"])
@pytest.mark.parametrize("allowed", [True, False])
def test_topics_are_created_only_if_both_sides_allow_it(
    guarded: RealKafka, consume: Consume, name: str, allowed: bool, way: str
) -> None:
    options = {"bootstrap_servers": guarded.bootstrap(), "allow_auto_create_topics": allowed}
    consumer = consume(group_id=name, **options)
    partitions = partitions_of(name, 1)
    assert consumer.partitions_for_topic(name) == set(), "asking creates nothing"
    if way == "subscribe":
        consumer.subscribe([name])
        if allowed:
            assigned(consumer, partitions)
        else:
            wait_until(lambda: consumer.poll(50) == {} and has_joined(consumer))
    else:
        consumer.assign(partitions)
        if allowed:
            assert consumer.position(partitions[0]) == 0
        else:
            assert consumer.position(partitions[0], timeout_ms=500) is None
    assert (name in guarded.admin.client.list_topics(timeout=20).topics) == allowed


def has_joined(consumer: KafkaConsumer) -> bool:
    return consumer.group_metadata().generation_id > 0


@pytest.mark.behaviour(56)
def test_the_broker_can_forbid_topic_creation(
    kafka: RealKafka, consume: Consume, name: str
) -> None:
    consumer = consume(allow_auto_create_topics=True)
    assert consumer.partitions_for_topic(name) == set()
    consumer.assign(partitions_of(name, 1))
    assert consumer.position(TopicPartition(name, 0), timeout_ms=500) is None
    assert name not in kafka.admin.client.list_topics(timeout=20).topics


def test_all_authorized_topics_are_read(
    guarded: RealKafka, consume: Consume, alice: dict[str, Any], name: str
) -> None:
    guarded.admin.create_topic(name)
    guarded.admin.produce(name, [b"1", b"2"])
    allow(guarded, TOPIC, name, READ)
    allow(guarded, GROUP, name, READ)
    consumer = consume(name, group_id=name, **alice)
    assert len(read_all(consumer, 2)) == 2
