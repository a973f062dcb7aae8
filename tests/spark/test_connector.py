"""Compares rows and checkpoints with Spark's own connector."""

from __future__ import annotations

import time
import uuid
from typing import Any

import confluent_kafka
import pytest

from benchmarks.spark.connector import connector_jars, connector_version
from tandem_kafka.testing.kafka import RealKafka
from tandem_kafka.testing.kafka.admin import Record
from tests.spark.session import Tables

pytestmark = pytest.mark.skipif(
    not connector_jars(), reason="Spark's own connector could not be downloaded to compare with"
)

OURS, THEIRS = "tandem_kafka", "kafka"


@pytest.fixture(scope="module")
def awkward(kafka: RealKafka) -> list[str]:
    """Topics with codecs, LogAppendTime, transactions and compaction."""
    mark = uuid.uuid4().hex[:8]
    names = []
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        names.append(kafka.admin.create_topic(f"awkward-{codec}-{mark}", 2))
        records = [_record(number) for number in range(300)]
        kafka.admin.produce(names[-1], records, {"compression.type": codec})
    appended = {"message.timestamp.type": "LogAppendTime"}
    names.append(kafka.admin.create_topic(f"awkward-appended-{mark}", 2, config=appended))
    kafka.admin.produce(names[-1], [_record(number) for number in range(100)])
    names.append(kafka.admin.create_topic(f"awkward-transactions-{mark}", 2))
    _transactions(kafka, names[-1])
    names.append(_compacted(kafka, f"awkward-compacted-{mark}"))
    return names


def _record(number: int) -> Record:
    value = {0: None, 1: b"", 2: b"\x00\xff" * 10}.get(number % 7, b"%d" % number * 20)
    key = {0: None, 1: b""}.get(number % 5, b"%d" % (number % 11))
    many = [("a", b"1"), ("a", None), ("", b"")]
    return Record(value, key, number % 2, 0, many if number % 3 == 0 else [])


def _transactions(kafka: RealKafka, topic: str) -> None:
    config = {"bootstrap.servers": kafka.bootstrap(), "transactional.id": topic}
    producer = confluent_kafka.Producer(config)
    producer.init_transactions(30)
    for number in range(9):
        producer.begin_transaction()
        for index in range(10):
            producer.produce(topic, b"%d" % number, partition=index % 2)
        assert producer.flush(30) == 0
        (producer.abort_transaction if number % 3 == 1 else producer.commit_transaction)(30)


def _compacted(kafka: RealKafka, name: str) -> str:
    """Create gaps: wait until the log cleaner has compacted the topic."""
    config = {
        "cleanup.policy": "compact",
        "segment.ms": "100",
        "min.cleanable.dirty.ratio": "0",
        "min.compaction.lag.ms": "0",
    }
    kafka.admin.create_topic(name, 1, config=config)
    start_ms = int(time.time() * 1_000) - 100_000
    for begin in (0, 50):
        records = [
            Record(b"%d" % n, b"%d" % (n % 5), timestamp_ms=start_ms + n * 1_000)
            for n in range(begin, begin + 50)
        ]
        kafka.admin.produce(name, records, {"batch.num.messages": 7})
    end = time.monotonic() + 60
    while _count(kafka, name) == 100:
        assert time.monotonic() < end, "nothing was compacted"
        time.sleep(0.2)
    return name


def _count(kafka: RealKafka, name: str) -> int:
    config = {
        "bootstrap.servers": kafka.bootstrap(),
        "group.id": "counting",
        "enable.partition.eof": True,
    }
    reader = confluent_kafka.Consumer(config)
    try:
        reader.assign([confluent_kafka.TopicPartition(name, 0, 0)])
        found = 0
        while (message := reader.poll(30)) is not None and message.error() is None:
            found += 1
        return found
    finally:
        reader.close()


def rows(frame: Any) -> list[Any]:
    found = frame.collect()
    return sorted(found, key=lambda row: (row.topic, row.partition, row.offset))


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("isolation", "more"), [("read_uncommitted", {}), ("read_committed", {"minPartitions": 40})]
)
def test_all_rows_are_equal(
    tables: Tables, awkward: list[str], isolation: str, more: dict[str, Any]
) -> None:
    options = {"includeHeaders": True, "kafka__isolation__level": isolation, **more}
    theirs = tables.read(",".join(awkward), by=THEIRS, **options)
    ours = tables.read(",".join(awkward), by=OURS, **options)
    assert ours.schema == theirs.schema
    assert ours.rdd.getNumPartitions() == theirs.rdd.getNumPartitions()
    expected = rows(theirs)
    assert len(expected) > 1_600, connector_version()
    assert rows(ours) == expected


@pytest.mark.partitions(2)
@pytest.mark.parametrize("unfinished", [False, True])
@pytest.mark.parametrize("order", [(THEIRS, OURS) * 2, (OURS, THEIRS) * 2])
def test_both_continue_the_checkpoint_of_the_other(
    kafka: RealKafka, topic: str, tables: Tables, order: tuple[str, ...], unfinished: bool
) -> None:
    produced = 0

    def produce() -> None:
        nonlocal produced
        kafka.admin.produce(topic, [Record(b"x", partition=n % 2) for n in range(20)])
        produced += 10

    for number, by in enumerate(order):
        produce()
        if unfinished and number == 1:
            noted = tables.folder / "out-checkpoint" / "commits" / "0"
            noted.unlink()
            noted.with_name(".0.crc").unlink()
        tables.finish(tables.stream(topic, by=by))
    found = [(row.partition, row.offset) for row in tables.written()]
    assert found == [(partition, at) for partition in (0, 1) for at in range(produced)]


def test_sinks_choose_the_same_partitions(kafka: RealKafka, topic: str, tables: Tables) -> None:
    """A key goes to the same partition with both sinks."""
    frame = tables.spark.range(200).selectExpr("string(id) key", "string(id) value")
    copies = []
    for by in (OURS, THEIRS):
        name = kafka.admin.create_topic(f"{topic}-{by}", 5)
        tables._options(frame.write.format(by).mode("append"), None, {"topic": name}).save()
        copies.append(
            {(row.partition, bytes(row.key), bytes(row.value)) for row in rows(tables.read(name))}
        )
    assert copies[0] == copies[1]
