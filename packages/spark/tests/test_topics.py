"""The driver notices topics that are created, extended or deleted while a query runs."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

import packages.spark.tests.session  # noqa: F401 - skips all of this without pyspark
from tandem_kafka.types import TopicPartition
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.admin import Record

from pyspark_tandem_kafka.cluster import Cluster, UnknownTopicError  # isort: skip - see session
from pyspark_tandem_kafka.offsets import StreamOffset  # isort: skip
from pyspark_tandem_kafka.options import SourceOptions  # isort: skip
from tests.waiting import wait_until


def cluster(kafka: RealKafka, **options: Any) -> Cluster:
    given = {"kafka.bootstrap.servers": kafka.bootstrap(), **options}
    return Cluster(SourceOptions.parse(given, streaming=True))


def until_deleted(kafka: RealKafka, topic: str) -> None:
    wait_until(lambda: topic not in kafka.admin.client.list_topics(timeout=30).topics)


@pytest.mark.parametrize("way", ["subscribe", "subscribePattern"])
def test_each_batch_looks_up_topics(kafka: RealKafka, topic: str, way: str) -> None:
    """Cached metadata may be five minutes old, but new partitions are found immediately."""
    with cluster(kafka, **{way: topic}) as planner:
        first = planner.partitions()
        assert planner.latest(first) == {TopicPartition(topic, 0): 0}
        kafka.admin.add_partitions(topic, 3)
        grown = planner.partitions()
        assert grown.keys() == {TopicPartition(topic, n) for n in range(3)}
        assert set(grown.values()) == {first[TopicPartition(topic, 0)]}
        kafka.admin.produce(topic, [Record(b"x", partition=2)] * 2)
        assert planner.latest(grown)[TopicPartition(topic, 2)] == 2
        kafka.admin.delete_topic(topic)
        until_deleted(kafka, topic)
        assert planner.partitions(lenient=True) == {}
        if way == "subscribe":
            with pytest.raises(UnknownTopicError, match=f"there is no {topic}-0"):
                planner.partitions()


def test_stale_metadata_is_requested_again(
    monkeypatch: pytest.MonkeyPatch, kafka: RealKafka
) -> None:
    """A partition is missing at first, or the topic has the id of one that was deleted."""
    old, new = UUID(int=1), UUID(int=2)
    less = {TopicPartition("a", 0): new}
    more = {**less, TopicPartition("a", 1): new}
    known = StreamOffset({TopicPartition("a", 1): 0}, {"a": new})
    planner = cluster(kafka, subscribe="a")
    responses = [less, dict.fromkeys(more, old), more, less]
    monkeypatch.setattr(planner, "_partitions", lambda **_: responses.pop(0))
    assert planner.partitions(known=known) == more
    responses[:] = [less] * 5
    assert planner.partitions(known=known) == less
    assert len(responses) == 1
