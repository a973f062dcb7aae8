"""Options of streams: the offsets they start and end at, their topics, and their batches."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterable
from typing import Any

import confluent_kafka
import pytest

from packages.spark.tests.session import Tables, since
from packages.spark.tests.test_stream import numbered, offsets_of, rows_per_batch, whole
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.admin import Record

pytest.importorskip("pyspark")

from pyspark.sql.functions import spark_partition_id

AT_ONCE = {"processingTime": "0 seconds"}


def timed(values: Iterable[int], first_ms: int, partition: int) -> list[Record]:
    """Records whose value is their time relative to the first record."""
    return [Record(b"%d" % n, partition=partition, timestamp_ms=first_ms + n) for n in values]


def committed(tables: Tables, batch: int, name: str = "out") -> bool:
    return (tables.folder / f"{name}-checkpoint" / "commits" / str(batch)).exists()


def offsets(reported: Any) -> Any:
    return json.loads(reported) if isinstance(reported, str) else reported


def counts(query: Any) -> list[int]:
    return [each["numInputRows"] for each in query.recentProgress]


# --- topics and records ------------------------------------------------------------------------


def test_new_topics_and_partitions_are_read(kafka: RealKafka, topic: str, tables: Tables) -> None:
    """They are added while a query with a pattern runs, and while it does not."""
    kafka.admin.produce(topic, numbered(10))
    names = [topic, f"{topic}-second", f"{topic}-third"]

    def found() -> dict[str, int]:
        rows = tables.written()
        return {name: sum(row.topic == name for row in rows) for name in names}

    def read(count: int) -> bool:
        return sum(rows_per_batch(query)) == count

    query = tables.begin(tables.stream(subscribePattern=f"{topic}.*"), trigger=AT_ONCE)
    tables.until(query, lambda: read(10))
    kafka.admin.produce(kafka.admin.create_topic(names[1], 2), numbered(20, 2))
    tables.until(query, lambda: read(30), patience_s=60)
    kafka.admin.add_partitions(topic, 3)
    kafka.admin.produce(topic, [Record(b"x", partition=2)] * 5)
    tables.until(query, lambda: read(35), patience_s=60)
    query.stop()
    kafka.admin.produce(kafka.admin.create_topic(names[2]), numbered(7))
    kafka.admin.add_partitions(names[1], 3)
    kafka.admin.produce(names[1], [Record(b"x", partition=2)] * 4)
    tables.finish(tables.stream(subscribePattern=f"{topic}.*"))
    assert found() == {names[0]: 15, names[1]: 24, names[2]: 7}
    kept = {(row.topic, row.partition, row.offset) for row in tables.written()}
    assert len(kept) == 46


@since(4, 2, "rate limits")
def test_aborted_and_open_transactions(kafka: RealKafka, topic: str, tables: Tables) -> None:
    """A batch of aborted records is empty. Reading waits for an open transaction."""
    settings = {"bootstrap.servers": kafka.bootstrap(), "transactional.id": uuid.uuid4().hex}
    producer = confluent_kafka.Producer(settings)
    producer.init_transactions(30)

    def begin(count: int) -> None:
        producer.begin_transaction()
        for _ in range(count):
            producer.produce(topic, b"x", partition=0)
        assert producer.flush(30) == 0

    begin(10)
    producer.commit_transaction(30)
    begin(10)
    producer.abort_transaction(30)
    begin(5)
    stream = tables.stream(topic, kafka__isolation__level="read_committed", maxOffsetsPerTrigger=11)
    query = tables.finish(stream)
    assert counts(query)[:2] == [10, 0]
    assert committed(tables, 1)
    ends = [offsets(each["sources"][0]["endOffset"])[topic]["0"] for each in query.recentProgress]
    assert ends[:2] == [11, 22]
    assert ends[-1] == 22
    kafka.admin.produce(topic, numbered(3))
    producer.commit_transaction(30)
    tables.finish(stream)
    assert offsets_of(tables) == {0: [*range(10), *range(22, 30)]}


# --- starting offsets --------------------------------------------------------------------------


@pytest.mark.partitions(3)
def test_assigned_partitions_since_a_time(kafka: RealKafka, topic: str, tables: Tables) -> None:
    """Reads some columns, with headers, in more tasks than partitions."""
    now_ms = int(time.time() * 1_000) - 100_000
    for partition in range(3):
        kafka.admin.produce(topic, timed(range(30), now_ms, partition))
    late = Record(b"30", partition=2, timestamp_ms=now_ms + 30, headers=[("h", b"1")])
    kafka.admin.produce(topic, [late])
    columns = "headers array<struct<key:string,value:binary>>, topic string, partition int"
    options = {
        "assign": json.dumps({topic: [0, 2]}),
        "startingTimestamp": now_ms + 12,
        "includeHeaders": True,
        "minPartitions": 6,
    }
    reader = tables.spark.readStream.format("tandem_kafka").schema(f"{columns}, offset bigint")
    stream = tables._options(reader, None, options).load()
    assert stream.columns == ["headers", "topic", "partition", "offset"]
    query = tables.finish(stream.withColumn("task", spark_partition_id()))
    assert rows_per_batch(query) == [37]
    assert offsets_of(tables) == {0: list(range(12, 30)), 2: list(range(12, 31))}
    written = tables.written()
    assert len({row.task for row in written}) == 6
    with_headers = [row for row in written if row.headers is not None]
    assert [(row.partition, row.offset) for row in with_headers] == [(2, 30)]
    assert [(h.key, bytes(h.value)) for h in with_headers[0].headers] == [("h", b"1")]


# --- batches -----------------------------------------------------------------------------------


@since(4, 2, "rate limits")
def test_records_that_arrive_after_available_now(
    kafka: RealKafka, topic: str, tables: Tables
) -> None:
    """They belong to the next run, and the run does not wait for a minimum."""
    kafka.admin.produce(topic, numbered(50))
    stream = tables.stream(topic, maxOffsetsPerTrigger=20, minOffsetsPerTrigger=15)
    query = tables.begin(stream, trigger={"availableNow": True})
    tables.until(query, lambda: committed(tables, 0))
    kafka.admin.produce(topic, numbered(30))
    assert query.awaitTermination(60)
    assert rows_per_batch(query) == [20, 20, 10]
    assert offsets_of(tables) == whole(p0=50)
    assert rows_per_batch(tables.finish(stream)) == [20, 10]
    assert offsets_of(tables) == whole(p0=80)


@since(4, 2, "rate limits")
def test_trigger_once(kafka: RealKafka, topic: str, tables: Tables) -> None:
    """One batch reads all existing records, regardless of the limit."""
    kafka.admin.produce(topic, numbered(50))
    stream = tables.stream(topic, maxOffsetsPerTrigger=20)
    for count in (50, 25):
        query = tables.begin(stream, trigger={"once": True})
        assert query.awaitTermination(60)
        assert rows_per_batch(query) == [count]
        kafka.admin.produce(topic, numbered(25))
    assert offsets_of(tables) == whole(p0=75)
