"""Fetch metrics, per partition and in total."""

from __future__ import annotations

import pytest

from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.admin import Record
from tests.integration.polling import Consume, metric, partitions_of, read_all
from tests.integration.watching import partition_metrics
from tests.waiting import wait_until

FETCHING = "consumer-fetch-manager-metrics"


@pytest.mark.behaviour(168)
@pytest.mark.partitions(2)
def test_lag_and_lead_come_and_go_with_the_partition(
    kafka: RealKafka, topic: str, consume: Consume
) -> None:
    kafka.admin.produce(topic, [Record(b"x", partition=part) for part in (0, 1)] * 20)
    kafka.admin.delete_records(topic, {0: 5})
    first, second = partitions_of(topic, 2)
    consumer = consume(max_poll_records=4)
    assert partition_metrics(consumer, first) == {}
    consumer.assign([first, second])
    consumer.pause(second)
    assert len(read_all(consumer, 4)) == 4
    wait_until(lambda: partition_metrics(consumer, first))
    found = partition_metrics(consumer, first)
    assert (found["records-lag"], found["records-lead"]) == (11, 4)
    assert found["preferred-read-replica"] == -1
    assert len(read_all(consumer, 11)) == 11
    found = partition_metrics(consumer, first)
    assert (found["records-lag"], found["records-lead"]) == (0, 15)
    consumer.assign([second])
    wait_until(lambda: not partition_metrics(consumer, first), "the end of the metrics")
    wait_until(lambda: partition_metrics(consumer, second))
    consumer.unsubscribe()
    wait_until(lambda: not partition_metrics(consumer, second), "the end of the metrics")


@pytest.mark.behaviour(168)
def test_lag_and_lead_of_a_revoked_partition_vanish(
    kafka: RealKafka, topic: str, consume: Consume
) -> None:
    kafka.admin.produce(topic, [b"x"] * 20)
    (tp,) = partitions_of(topic, 1)
    consumer = consume(topic, group_id=f"group-of-{topic}")
    read_all(consumer, 20)
    found = partition_metrics(consumer, tp)
    assert (found["records-lag"], found["records-lead"]) == (0, 20)
    consumer.unsubscribe()
    wait_until(lambda: not partition_metrics(consumer, tp), "the end of the metrics")


def test_totals_count_the_records_that_were_read(
    kafka: RealKafka, topic: str, consume: Consume
) -> None:
    kafka.admin.produce(topic, [b"x" * 100] * 50)
    consumer = consume(max_poll_records=10)
    consumer.assign(partitions_of(topic, 1))
    read_all(consumer, 50)
    assert metric(consumer, FETCHING, "records-consumed-total") == 50
    assert metric(consumer, FETCHING, "records-per-request-avg") == 10
    assert metric(consumer, FETCHING, "bytes-consumed-total") >= 50 * 100
    assert metric(consumer, f"{FETCHING}.topic-{topic}", "records-consumed-total") == 50


def test_the_read_ahead_is_measured_and_bounded(
    kafka: RealKafka, topic: str, consume: Consume
) -> None:
    kafka.admin.produce(topic, [b"x" * 1_000] * 500, {"batch.size": 10_000})
    (tp,) = partitions_of(topic, 1)
    consumer = consume(
        max_poll_records=1, fetch_buffer_max_bytes=60_000, max_partition_fetch_bytes=20_000
    )
    consumer.assign([tp])
    read_all(consumer, 1)
    held = "fetch-buffer-bytes"
    wait_until(lambda: metric(consumer, "consumer-metrics", held) >= 40_000, "a full buffer")
    most = 0.0
    while consumer.position(tp) < 500:
        consumer.poll(timeout_ms=500)
        most = max(most, metric(consumer, "consumer-metrics", held))
    # One response can arrive while a single byte is free.
    assert 40_000 <= most <= 60_000 + 20_000 + 10_000
    wait_until(lambda: metric(consumer, "consumer-metrics", held) == 0)
