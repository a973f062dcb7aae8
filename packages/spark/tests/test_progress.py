"""The lag of streams, in logs and metrics."""

from __future__ import annotations

import json
import logging
from typing import Any
from uuid import UUID

import pytest

from packages.spark.tests.session import Tables, since
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.admin import Record

from pyspark_tandem_kafka.offsets import StreamOffset  # isort: skip
from pyspark_tandem_kafka.progress import (  # isort: skip
    LagListener,
    StreamLag,
    opentelemetry_lag,
    prometheus_lag,
)
from tandem_kafka.types import TopicPartition  # isort: skip
from tests.waiting import wait_until

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)
LAG = StreamLag("orders", "id", 3, 250, 40, {FIRST: 5, SECOND: 0}, {FIRST: 30, SECOND: 10})


@pytest.mark.partitions(2)
@since(4, 2, "latest offsets in the progress")
def test_a_listener_logs_the_lag(kafka: RealKafka, topic: str, tables: Tables, caplog: Any) -> None:
    kafka.admin.produce(topic, [Record(b"%d" % n, partition=n % 2) for n in range(100)])
    lags: list[StreamLag] = []
    listener = LagListener(lags.append)
    tables.spark.streams.addListener(listener)
    try:
        with caplog.at_level(logging.INFO, "pyspark_tandem_kafka.progress"):
            tables.finish(tables.stream(topic, maxOffsetsPerTrigger=40))
            wait_until(lambda: len(lags) >= 3)  # Spark calls listeners asynchronously
    finally:
        tables.spark.streams.removeListener(listener)
    assert [(lag.batch, lag.rows, lag.total) for lag in lags] == [
        (0, 40, 60),
        (1, 40, 20),
        (2, 20, 0),
    ]
    assert [set(lag.read.values()) for lag in lags] == [{20}, {20}, {10}]
    assert (lags[0].minimum, lags[0].maximum, lags[0].average) == (30, 30, 30.0)
    assert "offsets behind latest: min 30, max 30, avg 30.0" in caplog.messages[0]


def test_gauges_have_the_lag() -> None:
    prometheus = pytest.importorskip("prometheus_client")
    registry = prometheus.CollectorRegistry()
    keep = prometheus_lag(registry)
    name = "tandem_kafka_stream_offsets_behind_latest"
    keep(LAG)
    at = {"query": "orders", "topic": "t", "partition": "0"}
    assert registry.get_sample_value(name, at) == 5
    assert registry.get_sample_value("tandem_kafka_stream_batch_offsets", at) == 30
    assert registry.get_sample_value("tandem_kafka_stream_batch_seconds", {"query": "orders"}) == (
        0.25
    )
    keep(StreamLag("orders", "id", 4, 250, 40, {TopicPartition("t", 1): 7}))
    assert registry.get_sample_value(name, at) is None, "a removed partition has no series"


def test_a_meter_observes_the_lag() -> None:
    metrics = pytest.importorskip("opentelemetry.sdk.metrics")
    export = pytest.importorskip("opentelemetry.sdk.metrics.export")
    reader = export.InMemoryMetricReader()
    provider = metrics.MeterProvider([reader])
    keep = opentelemetry_lag(provider.get_meter("test"))
    keep(LAG)
    points = {
        (each.name, p.attributes["messaging.destination.partition.id"]): p.value
        for each in reader.get_metrics_data().resource_metrics[0].scope_metrics[0].metrics
        for p in each.data.data_points
    }
    assert points == {
        ("tandem_kafka.stream.offsets_behind_latest", "0"): 5,
        ("tandem_kafka.stream.offsets_behind_latest", "1"): 0,
        ("tandem_kafka.stream.batch_offsets", "0"): 30,
        ("tandem_kafka.stream.batch_offsets", "1"): 10,
    }
    provider.shutdown()


def lag_of(start: StreamOffset | None, end: StreamOffset | None, latest: str) -> StreamLag:
    start_text, end_text = (json.dumps(each.to_json()) if each else None for each in (start, end))

    class Source:
        latestOffset, startOffset, endOffset = latest, start_text, end_text  # noqa: N815 - Spark's

    class Progress:
        sources = (Source(),)
        name, id = None, "id"
        batchId, batchDuration, numInputRows = 0, 1, 2  # noqa: N815

    return StreamLag.of(Progress())


@pytest.mark.parametrize("end", [3, 7, 9])
def test_all_of_new_partitions_and_topics_is_read(end: int) -> None:
    """Whether a recreated topic is shorter or longer than before."""
    was = StreamOffset({FIRST: 7}, {"t": UUID(int=1)})
    grown = StreamOffset({FIRST: 9, SECOND: end}, {"t": UUID(int=1)})
    assert lag_of(was, grown, "{}").read == {FIRST: 2, SECOND: end}
    again = StreamOffset({FIRST: end, SECOND: 1}, {"t": UUID(int=2)})
    assert lag_of(was, again, "{}").read == {FIRST: end, SECOND: 1}
    first = StreamOffset({FIRST: end + 1}, {}, {FIRST: 2})
    assert lag_of(None, first, "{}").read == {FIRST: end - 1}
    assert lag_of(None, StreamOffset({FIRST: end}), "{}").read == {}


def test_a_source_of_another_kind_has_no_lag() -> None:
    lag = lag_of(None, None, "12")
    assert (lag.query, lag.behind, lag.maximum, lag.average) == ("id", {}, 0, 0.0)
