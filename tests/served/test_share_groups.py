"""librdkafka's ShareConsumer (KIP-932) on the simulated cluster and on a real one."""

from __future__ import annotations

from typing import Any

import confluent_kafka
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from tandem_kafka_testing.served import ServedKafka
from tests.served.clients import TIMEOUT_S
from tests.waiting import until


def begin_at_the_earliest(cluster: ServedKafka, group: str) -> None:
    operation = AlterConfigOpType.SET
    entry = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=operation)
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    altered = admin.incremental_alter_configs([resource])
    assert [future.result(TIMEOUT_S) for future in altered.values()] == [None]


def share_consumer(cluster: ServedKafka, topic: str, group: str) -> Any:
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": group, "log_level": 0}
    consumer = confluent_kafka.ShareConsumer(settings)
    consumer.subscribe([topic])
    return consumer


def read(consumer: Any, count: int) -> list[bytes]:
    """Return the values of the next records."""
    values: list[bytes] = []
    for _ in until(lambda: len(values) >= count, lambda: values):
        for message in consumer.poll(1.0) or ():
            assert message.error() is None
            values.append(message.value())
    return values


def test_accepted_records_are_not_offered_again(cluster: ServedKafka, topic: str) -> None:
    begin_at_the_earliest(cluster, topic)
    for number in range(6):
        cluster.produce(topic, b"%d" % number, partition=number % 2)
    first = share_consumer(cluster, topic, topic)
    assert sorted(read(first, 6)) == [b"%d" % number for number in range(6)]
    first.commit_sync(TIMEOUT_S)
    first.close()

    second = share_consumer(cluster, topic, topic)
    cluster.produce(topic, b"new")
    assert read(second, 1) == [b"new"]
    second.close()
