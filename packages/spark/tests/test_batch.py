"""Topics as tables: the options of a batch query, and the special cases of a log."""

from __future__ import annotations

import time
import uuid
from typing import Any

import confluent_kafka
import pytest

from packages.spark.tests.session import SPARK, Tables, by_offset, since
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.admin import Record

from pyspark_tandem_kafka import TandemKafkaDataSource  # isort: skip - needs pyspark, see session

COLUMNS = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]


def values(frame: Any) -> list[bytes | None]:
    return [None if row.value is None else bytes(row.value) for row in by_offset(frame)]


def numbered(count: int, partitions: int = 1, *, first_ms: int = 0) -> list[Record]:
    return [
        Record(b"%d" % n, partition=n % partitions, timestamp_ms=first_ms and first_ms + n)
        for n in range(count)
    ]


def test_schema_and_contents(kafka: RealKafka, topic: str, tables: Tables) -> None:
    now_ms = int(time.time()) * 1_000
    kafka.admin.produce(
        topic,
        [
            Record(b"v", b"k", timestamp_ms=now_ms, headers=[("h", b"1"), ("h", None)]),
            Record(None, b"k", timestamp_ms=now_ms + 1),
            Record(b"", None, timestamp_ms=now_ms + 2),
        ],
    )
    frame = tables.read(topic, includeHeaders=True)
    assert frame.columns == [*COLUMNS, "headers"]
    assert tables.read(topic).columns == COLUMNS
    first, second, third = by_offset(frame)
    assert (bytes(first.key), bytes(first.value)) == (b"k", b"v")
    assert (first.topic, first.partition, first.offset, first.timestampType) == (topic, 0, 0, 0)
    assert first.timestamp.timestamp() * 1_000 == now_ms
    assert [(h.key, h.value and bytes(h.value)) for h in first.headers] == [
        ("h", b"1"),
        ("h", None),
    ]
    assert (second.value, second.headers) == (None, None)
    assert (third.key, bytes(third.value)) == (None, b"")


def test_the_source_can_be_registered_explicitly(
    kafka: RealKafka, topic: str, tables: Tables
) -> None:
    """A subclass with a different name shows that the registered class is used."""

    class ByHand(TandemKafkaDataSource):
        @classmethod
        def name(cls) -> str:
            return "kafka_by_hand"

    kafka.admin.produce(topic, numbered(10))
    session = tables.spark.newSession()
    if SPARK >= (4, 1):  # older versions cannot register a source that Spark has found by itself
        session.dataSource.register(TandemKafkaDataSource)
    session.dataSource.register(ByHand)
    for name in ("tandem_kafka", "kafka_by_hand"):
        frame = tables._options(session.read.format(name), topic, {}).load()
        assert values(frame) == [b"%d" % n for n in range(10)]
    with pytest.raises(Exception, match="kafka_by_hand"):
        tables.read(topic, by="kafka_by_hand")


@pytest.mark.partitions(2)
def test_ranges_are_split(kafka: RealKafka, topic: str, tables: Tables) -> None:
    kafka.admin.produce(topic, numbered(100, 2))
    for options, tasks in (({}, 2), ({"minPartitions": 5}, 6), ({"maxRecordsPerPartition": 20}, 6)):
        frame = tables.read(topic, **options)
        assert (frame.rdd.getNumPartitions(), frame.count()) == (tasks, 100)


def test_chosen_columns(kafka: RealKafka, topic: str, tables: Tables) -> None:
    kafka.admin.produce(topic, numbered(10))
    reader = tables.spark.read.format("tandem_kafka").schema("partition int, value binary")
    frame = tables._options(reader, topic, {}).load()
    assert sorted((r.partition, int(r.value)) for r in frame.collect()) == [
        (0, n) for n in range(10)
    ]
    with pytest.raises(Exception, match="there is no column value string"):
        tables._options(
            tables.spark.read.format("tandem_kafka").schema("value string"), topic, {}
        ).load().count()


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_codecs(kafka: RealKafka, topic: str, tables: Tables, codec: str) -> None:
    kafka.admin.produce(topic, numbered(2_000), {"compression.type": codec})
    assert values(tables.read(topic)) == [b"%d" % n for n in range(2_000)]


def test_transactions(kafka: RealKafka, topic: str, tables: Tables) -> None:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": kafka.bootstrap(), "transactional.id": uuid.uuid4().hex}
    )
    producer.init_transactions(30)
    for number in range(6):
        producer.begin_transaction()
        for _ in range(10):
            producer.produce(topic, b"%d" % number, partition=0)
        assert producer.flush(30) == 0
        (producer.abort_transaction if number % 2 else producer.commit_transaction)(30)
    committed = [b"%d" % n for n in (0, 2, 4) for _ in range(10)]
    options = {"kafka__isolation__level": "read_committed"}
    assert values(tables.read(topic, **options)) == committed
    assert values(tables.read(topic, maxRecordsPerPartition=7, **options)) == committed
    assert tables.read(topic).count() == 60


@since(4, 1, "pushed filters")
def test_filters_reduce_ranges(kafka: RealKafka, topic: str, tables: Tables) -> None:
    now_ms = int(time.time() * 1_000) - 100_000
    kafka.admin.produce(topic, numbered(100, first_ms=now_ms))
    options = {"tandem.filterPushdown": "true", "maxRecordsPerPartition": "10"}
    frame = tables._options(tables.spark.read.format("tandem_kafka"), topic, options).load()
    some = frame.where("offset >= 15 and offset < 42")
    assert some.rdd.getNumPartitions() == 3
    assert values(some) == [b"%d" % n for n in range(15, 42)]
    assert frame.where(f"topic = '{topic}' and partition = 1").count() == 0
    at = f"timestamp >= timestamp_millis({now_ms + 90})"
    assert (frame.where(at).rdd.getNumPartitions(), frame.where(at).count()) == (1, 10)


def test_a_limit_ends_the_reading(kafka: RealKafka, topic: str, tables: Tables) -> None:
    kafka.admin.produce(topic, [b"x" * 1_000] * 20_000)
    assert len(tables.read(topic).limit(10).collect()) == 10
    assert tables.read(topic).count() == 20_000
