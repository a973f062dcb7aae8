"""A broker subscribes to metrics (KIP-714), and decodes what the consumer pushes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.admin import Record
from tests.integration.polling import Consume, poll_until, read_all
from tests.kafka.metrics_receiver import compiled_receiver, received, receiver_settings, subscribe
from tests.waiting import wait_until

pytestmark = pytest.mark.full("starts brokers of its own")

CONSUMED = "org.apache.kafka.consumer.fetch.manager.records.consumed.total"
CONNECTIONS = "org.apache.kafka.consumer.connection.count"
LAG = "org.apache.kafka.consumer.fetch.manager.records.lag{partition=0, topic=%s}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("metrics-receiver")


@pytest.fixture(scope="module")
def receiving(folder: Path) -> Iterator[RealKafka]:
    config = receiver_settings(folder / "pushes")
    with RealKafka(properties=config, plugins=compiled_receiver()) as cluster:
        subscribe(cluster.bootstrap(), 1_000, ["org.apache.kafka.consumer."])
        yield cluster


def test_what_the_broker_receives(receiving: RealKafka, consume: Consume, folder: Path) -> None:
    topic = receiving.admin.create_topic("pushed")
    receiving.admin.produce(topic, [Record(b"x" * 100)] * 60)
    consumer = consume(
        topic,
        bootstrap_servers=receiving.bootstrap(),
        client_id="pushing",
        group_id="pushing-group",
        client_rack="rack-1",
    )
    read_all(consumer, 60)

    def pushes() -> list[dict[str, Any]]:
        return received(folder / "pushes", "pushing")

    poll_until(consumer, lambda: len(pushes()) >= 3)
    receiving.admin.produce(topic, [Record(b"x")] * 7)
    read_all(consumer, 7)
    consumer.close()
    wait_until(lambda: pushes()[-1]["terminating"], "the last push")
    *regular, last = pushes()
    assert not any(push["terminating"] for push in regular)
    assert len({push["instance"] for push in (*regular, last)}) == 1
    labels = last["resource"]
    assert labels.pop("group_member_id")
    assert labels == {"group_id": "pushing-group", "client_rack": "rack-1"}
    assert {push["values"][CONSUMED][0] for push in (*regular, last)} == {"DELTA"}
    assert sum(push["values"][CONSUMED][1] for push in (*regular, last)) == 67
    kind, connections = regular[0]["values"][CONNECTIONS]
    assert kind == "GAUGE"
    assert connections >= 1
    assert any(LAG % topic in push["values"] for push in regular)
    assert all(name.startswith("org.apache.kafka.consumer.") for name in last["values"])
