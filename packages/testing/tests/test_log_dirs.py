"""DescribeLogDirs: each broker tells the sizes of its own replicas."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest
from kafka import KafkaAdminClient

from tandem_kafka.types import TopicPartition
from tandem_kafka_testing.cluster import SimCluster
from tandem_kafka_testing.served import ServedKafka

pytestmark = pytest.mark.real_time

TP = TopicPartition("two", 0)


def prepare(cluster: SimCluster) -> None:
    cluster.create_topic("two", 1, replicas=2)
    cluster.create_topic("three", 2)
    cluster.produce(TP, b"x" * 1_000)
    cluster.fall_behind(TP, 2)
    cluster.produce(TP, b"y")


def sizes(answers: Any) -> dict[int, dict[str, list[tuple[int, bool, int]]]]:
    """Return the partition, whether it has bytes, and how far its replica is behind."""
    return {
        each["broker"]: {
            topic["name"]: [
                (p["partition_index"], p["partition_size"] > 1_000, p["offset_lag"])
                for p in topic["partitions"]
            ]
            for folder in each["log_dirs"]
            for topic in folder["topics"]
        }
        for each in answers
    }


def test_each_broker_has_its_replicas() -> None:
    with ServedKafka(brokers=3) as kafka:
        kafka.perform(prepare)
        with closing(KafkaAdminClient(bootstrap_servers=kafka.bootstrap)) as admin:
            every = sizes(admin.describe_log_dirs())
            some = sizes(admin.describe_log_dirs({"two": [0], "three": [1], "absent": [0]}))
    both = [(0, False, 0), (1, False, 0)]
    assert every == {
        1: {"two": [(0, True, 0)], "three": both},
        2: {"two": [(0, True, 1)], "three": both},
        3: {"three": both},
    }
    assert some == {
        1: {"two": [(0, True, 0)], "three": both[1:]},
        2: {"two": [(0, True, 1)], "three": both[1:]},
        3: {"three": both[1:]},
    }
