"""Rows written to Kafka, and read back."""

from __future__ import annotations

import logging
import time
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError

from packages.spark.tests.session import Tables, by_offset
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.admin import Record
from tandem_kafka_testing.kafka.security import PASSWORD

from pyspark_tandem_kafka.options import SinkOptions  # isort: skip - needs pyspark, see session
from pyspark_tandem_kafka.producing import DeliveryError, TaskProducer, deliver  # isort: skip


def rows(tables: Tables, text: str, schema: str) -> Any:
    return tables.spark.sql(f"select * from values {text} as t({schema})")  # noqa: S608


@pytest.mark.partitions(2)
def test_columns_arrive(topic: str, tables: Tables) -> None:
    frame = rows(
        tables,
        f"('k', 'v', '{topic}', 1, array(named_struct('key', 'h', 'value', cast('x' as binary)))),"
        f"(null, null, '{topic}', 1, null), ('k', '', '{topic}', 1, null)",
        "key, value, topic, partition, headers",
    ).coalesce(1)
    tables.write(frame)
    found = by_offset(tables.read(topic, includeHeaders=True))
    assert [(r.key, r.value, r.partition) for r in found] == [
        (b"k", b"v", 1),
        (None, None, 1),
        (b"k", b"", 1),
    ]
    assert [(h.key, bytes(h.value)) for h in found[0].headers] == [("h", b"x")]
    assert found[1].headers is None


def test_timestamps_are_written(topic: str, tables: Tables) -> None:
    """Timestamps are truncated to milliseconds; a row without one gets the time of writing."""
    before = time.time() * 1_000
    frame = rows(
        tables,
        "('a', timestamp_micros(1700000000123999)), ('b', timestamp_micros(1000)), ('c', null)",
        "value, timestamp",
    )
    tables.write(frame, topic=topic)
    found = {bytes(r.value): (r.timestamp, r.timestampType) for r in tables.read(topic).collect()}
    first, second, third = found[b"a"], found[b"b"], found[b"c"]
    assert (first[0].timestamp(), first[1]) == (1_700_000_000.123, 0)
    assert second[0].timestamp() == 0.001
    assert before - 1 <= third[0].timestamp() * 1_000 <= time.time() * 1_000 + 1


def test_an_outage_logs_one_warning_and_prints_nothing(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """librdkafka retries several times a second, and would print a line each time."""
    given = {
        "topic": "t",
        "kafka.bootstrap.servers": "127.0.0.1:1",
        "tandem.flushTimeoutMs": "1000",
    }
    rows = pa.RecordBatch.from_pydict({"value": pa.array([b"x"])})
    with pytest.raises(DeliveryError, match=r"last error: .*Connection refused"):
        deliver(iter([rows]), SinkOptions.parse(given))
    messages = [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]
    assert len(messages) == 1, messages
    assert "Connection refused" in messages[0]
    # Another test's producer may print its own errors meanwhile.
    lines = capfd.readouterr().err.splitlines()
    assert [line for line in lines if "|rdkafka#" not in line or "127.0.0.1:1/" in line] == []


def test_equal_connection_errors_are_logged_once_however_long_they_took(
    caplog: pytest.LogCaptureFixture,
) -> None:
    producer = TaskProducer({"bootstrap.servers": "127.0.0.1:1"})
    refused = "127.0.0.1:1/bootstrap: Connect to ipv4#127.0.0.1:1 failed: Connection refused"
    for suffix in ("after 0ms in state CONNECT", "after 1ms in state CONNECT", "after 2ms in ..."):
        producer._errors.note(KafkaError(KafkaError._TRANSPORT, f"{refused} ({suffix})"))
    assert [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING] == [
        f"the sink's producer: {refused} (after 0ms in state CONNECT)"
    ]
    producer._errors.note(KafkaError(KafkaError._TRANSPORT, "127.0.0.1:1/bootstrap: timed out"))
    assert producer.last_error_suffix() == " (last error: 127.0.0.1:1/bootstrap: timed out)"


@pytest.mark.everyday
@pytest.mark.smoke
def test_a_stream_from_topic_to_topic(kafka: RealKafka, topic: str, tables: Tables) -> None:
    target = kafka.admin.create_topic(f"{topic}-copy")
    for _ in range(2):
        kafka.admin.produce(topic, [Record(b"%d" % n, b"key") for n in range(50)])
        stream = tables.stream(topic).select("key", "value")
        writer = stream.writeStream.format("tandem_kafka").trigger(availableNow=True)
        query = (
            tables._options(writer, None, {"topic": target})
            .option("checkpointLocation", str(tables.folder / "checkpoint"))
            .start()
        )
        assert query.awaitTermination(60)
    assert [bytes(r.value) for r in by_offset(tables.read(target))] == [
        b"%d" % n for n in range(50)
    ] * 2


def test_a_secured_cluster(kafka: RealKafka, topic: str, tables: Tables) -> None:
    """Reads and writes with the security options of the Java client."""
    login = f'PlainLoginModule required username="alice" password="{PASSWORD}";'
    secured = {
        "kafka__bootstrap__servers": kafka.bootstrap("SASL_SSL"),
        "kafka__security__protocol": "SASL_SSL",
        "kafka__sasl__mechanism": "PLAIN",
        "kafka__sasl__jaas__config": f"org.apache.kafka.common.security.plain.{login}",
        "kafka__ssl__truststore__type": "PEM",
        "kafka__ssl__truststore__location": kafka.certificates.authority,
    }
    tables.write(tables.spark.range(10).selectExpr("string(id) value"), topic=topic, **secured)
    found = tables.read(topic, **secured)
    assert {int(row.value) for row in found.collect()} == set(range(10))
    wrong = secured | {"kafka__sasl__jaas__config": login.replace(PASSWORD, "hush-hush")}
    rejected = tables.read(topic, **wrong, fetchOffset__numRetries=0)
    with pytest.raises(Exception, match="SaslAuthenticationFailed") as error:
        rejected.collect()
    assert "hush-hush" not in str(error.value)


def test_a_topic_is_not_overwritten(topic: str, tables: Tables) -> None:
    frame = tables.spark.range(1).selectExpr("string(id) value")
    with pytest.raises(Exception, match="cannot be overwritten"):
        tables.write(frame, mode="overwrite", topic=topic)


def test_rows_that_are_not_delivered_fail_the_task(topic: str, tables: Tables) -> None:
    big = tables.spark.range(2).selectExpr("'key' key", "repeat('x', 2000000) value")
    with pytest.raises(Exception, match=f"{topic}.* key b'key'"):
        tables.write(big, topic=topic, kafka__message__max__bytes=10_000_000)
    nowhere = tables.spark.range(1).selectExpr("'v' value", "7 partition")
    with pytest.raises(Exception, match=f"{topic}-7"):
        tables.write(nowhere, topic=topic)
