"""Streams: no record is lost or duplicated, whatever happens between two micro-batches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions

from packages.spark.tests.session import Tables, since
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.admin import Record


def numbered(count: int, partitions: int = 1) -> list[Record]:
    return [Record(b"%d" % n, partition=n % partitions) for n in range(count)]


def offsets_of(tables: Tables, name: str = "out") -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for row in tables.written(name):
        found.setdefault(row.partition, []).append(row.offset)
    return found


def whole(**partitions: int) -> dict[int, list[int]]:
    return {int(name[1:]): list(range(count)) for name, count in partitions.items()}


def rows_per_batch(query: Any) -> list[int]:
    return [p["numInputRows"] for p in query.recentProgress if p["numInputRows"]]


def forget(tables: Tables, kind: str, batch: int, name: str = "out") -> None:
    """Remove a query's log entries for a batch, as if it had been killed before it wrote them."""
    checkpoint = tables.folder / f"{name}-checkpoint"
    folder = tables.folder / name / "_spark_metadata" if kind == "sink" else checkpoint / kind
    for file in (folder / str(batch), folder / f".{batch}.crc"):
        Path(file).unlink(missing_ok=True)


@pytest.mark.partitions(2)
def test_restarts_and_new_partitions(kafka: RealKafka, topic: str, tables: Tables) -> None:
    kafka.admin.produce(topic, numbered(20, 2))
    tables.finish(tables.stream(topic))
    assert offsets_of(tables) == whole(p0=10, p1=10)
    tables.finish(tables.stream(topic))
    kafka.admin.add_partitions(topic, 3)
    kafka.admin.produce(topic, numbered(30, 3))
    tables.finish(tables.stream(topic))
    assert offsets_of(tables) == whole(p0=20, p1=20, p2=10)


@pytest.mark.partitions(2)
@since(4, 2, "rate limits")
def test_a_rate_limit_and_lag(kafka: RealKafka, topic: str, tables: Tables) -> None:
    kafka.admin.produce(topic, numbered(100, 2))
    query = tables.finish(tables.stream(topic, maxOffsetsPerTrigger=30))
    assert rows_per_batch(query) == [30, 30, 30, 10]
    first = query.recentProgress[0]["sources"][0]
    assert json.loads(first["latestOffset"])[topic] == {"0": 50, "1": 50}
    assert json.loads(first["endOffset"])[topic] == {"0": 15, "1": 15}
    source = query.lastProgress["sources"][0]
    assert source["latestOffset"] == source["endOffset"]
    assert offsets_of(tables) == whole(p0=50, p1=50)


@since(4, 2, "rate limits")
def test_a_repeated_batch_is_the_same(kafka: RealKafka, topic: str, tables: Tables) -> None:
    kafka.admin.produce(topic, numbered(50))
    tables.finish(tables.stream(topic, maxOffsetsPerTrigger=20))
    kafka.admin.produce(topic, numbered(50))
    # The sink's entry, too, or the sink would skip the batch.
    forget(tables, "commits", 2)
    forget(tables, "sink", 2)
    query = tables.finish(tables.stream(topic, maxOffsetsPerTrigger=25))
    assert rows_per_batch(query) == [10, 25, 25]
    assert offsets_of(tables) == whole(p0=100)


@pytest.mark.parametrize("starting", ["latest", "earliest"])
@since(4, 2, "offsets of the batch start")
def test_a_first_batch_that_never_finished(
    kafka: RealKafka, topic: str, tables: Tables, starting: str
) -> None:
    """Records that arrive between the first and the second start belong to the stream."""
    kafka.admin.produce(topic, numbered(10))
    tables.finish(tables.stream(topic, startingOffsets=starting))
    forget(tables, "commits", 0)
    for number in (1, 2):
        forget(tables, "offsets", number)
        forget(tables, "commits", number)
    import shutil

    shutil.rmtree(tables.folder / "out")
    kafka.admin.produce(topic, numbered(10))
    tables.finish(tables.stream(topic, startingOffsets=starting))
    first = 10 if starting == "latest" else 0
    assert offsets_of(tables) == {0: list(range(first, 20))}


def test_records_that_arrive_while_the_stream_runs(
    kafka: RealKafka, topic: str, tables: Tables
) -> None:
    stream = tables.stream(topic, startingOffsets="latest", commitOffsetsToGroup=f"lag-{topic}")
    query = tables.begin(stream, trigger={"processingTime": "0 seconds"})
    checkpoint = tables.folder / "out-checkpoint" / "commits"
    tables.until(query, (checkpoint / "0").exists)
    for number in range(1, 4):
        kafka.admin.produce(topic, numbered(10))
        done = lambda: sum(rows_per_batch(query)) == 10 * number  # noqa: B023, E731
        tables.until(query, done)
    query.stop()
    assert offsets_of(tables) == whole(p0=30)
    assert _committed(kafka, f"lag-{topic}") >= 10


def _committed(kafka: RealKafka, group: str) -> int:
    partitions = [ConsumerGroupTopicPartitions(group)]
    found = kafka.admin.client.list_consumer_group_offsets(partitions)[group].result(30)
    return max(each.offset for each in found.topic_partitions)


@since(4, 2, "offsets of the batch start")
def test_a_topic_that_was_created_again(kafka: RealKafka, topic: str, tables: Tables) -> None:
    """It is longer than the old one, and workers know that from the first run."""
    kafka.admin.produce(topic, numbered(5))
    tables.finish(tables.stream(topic))
    kafka.admin.delete_topic(topic)
    kafka.admin.create_topic(topic)
    kafka.admin.produce(topic, numbered(8))
    with pytest.raises(Exception, match=f"topic {topic} was deleted and created again"):
        tables.finish(tables.stream(topic))
    tables.finish(tables.stream(topic, failOnDataLoss=False))
    kafka.admin.produce(topic, numbered(2))
    tables.finish(tables.stream(topic))
    assert offsets_of(tables) == {0: sorted([*range(5), *range(10)])}
