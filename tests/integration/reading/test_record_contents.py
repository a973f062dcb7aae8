"""Records arrive unchanged, and a record that cannot be deserialized can be skipped."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Sequence

import pytest

from tandem_kafka import TopicPartition
from tandem_kafka.errors import RecordDeserializationError
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.admin import Record
from tests.integration.polling import Consume, partitions_of, poll_until, read_all

pytestmark = pytest.mark.both_clusters

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


def test_all_codecs_in_one_partition(kafka: RealKafka, topic: str, consume: Consume) -> None:
    values = []
    for turn in range(2):
        for codec in CODECS:
            some = [f"{codec} {turn} {number} ".encode() * 20 for number in range(100)]
            kafka.admin.produce(topic, some, {"compression.type": codec})
            values += some
    consumer = consume()
    consumer.assign(partitions_of(topic, 1))
    assert [record.value for record in read_all(consumer, 1_000)] == values


@pytest.mark.parametrize("codec", CODECS)
def test_a_seek_into_the_middle_of_a_batch(
    kafka: RealKafka, topic: str, consume: Consume, codec: str
) -> None:
    values = [b"%d" % number for number in range(500)]
    kafka.admin.produce(topic, values, {"compression.type": codec, "linger.ms": 200})
    consumer = consume()
    consumer.assign(partitions_of(topic, 1))
    consumer.seek(TopicPartition(topic, 0), 321)
    assert [record.value for record in read_all(consumer, 179)] == values[321:]


def test_headers_keys_and_nulls(kafka: RealKafka, topic: str, consume: Consume) -> None:
    headers = [("trace", b"\x00\xff"), ("empty", b""), ("none", None), ("trace", b"again")]
    sent = [
        Record(b"value", key=b"key", timestamp_ms=1_700_000_000_123, headers=headers),
        Record(None, key=b"tombstone"),
        Record(b"", key=b""),
        Record(None),
        Record(b"plain"),
    ]
    kafka.admin.produce(topic, sent)
    consumer = consume()
    consumer.assign(partitions_of(topic, 1))
    records = read_all(consumer, 5)
    assert [(record.key, record.value) for record in records] == [
        (each.key, each.value) for each in sent
    ]
    assert [list(record.headers) for record in records] == [headers, [], [], [], []]
    first, tombstone, empty = records[:3]
    assert (first.timestamp, first.timestamp_type) == (1_700_000_000_123, 0)
    assert (first.serialized_key_size, first.serialized_value_size) == (3, 5)
    assert first.serialized_header_size == 5 + 2 + 5 + 4 + 5 + 5
    assert (tombstone.serialized_key_size, tombstone.serialized_value_size) == (9, -1)
    assert (empty.serialized_key_size, empty.serialized_value_size) == (0, 0)
    assert first.leader_epoch >= 0


def test_log_append_time_replaces_the_producers_timestamp(
    kafka: RealKafka, consume: Consume
) -> None:
    name = f"append-time-{uuid.uuid4().hex[:8]}"
    kafka.admin.create_topic(name, config={"message.timestamp.type": "LogAppendTime"})
    before_ms = int(time.time() * 1_000)
    for codec in CODECS:
        kafka.admin.produce(name, [Record(b"x", timestamp_ms=1_000)], {"compression.type": codec})
    after_ms = int(time.time() * 1_000)
    consumer = consume()
    consumer.assign(partitions_of(name, 1))
    records = read_all(consumer, len(CODECS))
    assert [record.timestamp_type for record in records] == [1] * len(CODECS)
    stamps = [record.timestamp for record in records]
    assert stamps == sorted(stamps)
    assert before_ms <= stamps[0] <= stamps[-1] <= after_ms


def test_deserializers_make_keys_and_values(kafka: RealKafka, topic: str, consume: Consume) -> None:
    kafka.admin.produce(topic, [Record(b'{"a": 1}', key=b"k"), Record(b"[2]", key=b"l")])
    consumer = consume(key_deserializer=bytes.decode, value_deserializer=json.loads)
    consumer.assign(partitions_of(topic, 1))
    records = read_all(consumer, 2)
    assert [(record.key, record.value) for record in records] == [("k", {"a": 1}), ("l", [2])]
    assert records[0].serialized_value_size == 8


@pytest.mark.behaviour(174)
def test_a_deserializer_gets_topic_and_headers(
    kafka: RealKafka, topic: str, consume: Consume
) -> None:
    class ByHeader:
        def deserialize(
            self, topic: str, headers: Sequence[tuple[str, bytes | None]], data: bytes | None
        ) -> tuple[str, str]:
            coding = dict(headers).get("coding") or b"ascii"
            return topic, (data or b"").decode(coding.decode())

    coded = Record("ü".encode("utf-16"), headers=[("coding", b"utf-16")])
    kafka.admin.produce(topic, [coded, b"u"])
    consumer = consume(value_deserializer=ByHeader())
    consumer.assign(partitions_of(topic, 1))
    assert [record.value for record in read_all(consumer, 2)] == [(topic, "ü"), (topic, "u")]


@pytest.mark.behaviour(165)
@pytest.mark.parametrize("origin", ["key", "value"])
def test_a_deserialization_error_is_raised_until_a_seek(
    kafka: RealKafka, topic: str, consume: Consume, origin: str
) -> None:
    bad = Record(b"bad", key=b"bad", timestamp_ms=1_700_000_000_000, headers=[("h", b"1")])
    kafka.admin.produce(topic, [Record(b"1", b"1"), Record(b"2", b"2"), bad, Record(b"3", b"3")])
    consumer = consume(**{f"{origin}_deserializer": int})
    tp = TopicPartition(topic, 0)
    consumer.assign([tp])
    good = read_all(consumer, 2)
    assert [getattr(record, origin) for record in good] == [1, 2]
    for _ in range(3):
        with pytest.raises(RecordDeserializationError) as caught:
            consumer.poll(timeout_ms=10_000)
        error = caught.value
        assert (error.origin, error.partition, error.offset) == (origin, tp, 2)
        assert (error.timestamp, error.key, error.value) == (1_700_000_000_000, b"bad", b"bad")
        assert list(error.headers) == [("h", b"1")]
        assert isinstance(error.__cause__, ValueError)
        assert consumer.position(tp) == 2
    consumer.seek(tp, error.offset + 1)
    (last,) = read_all(consumer, 1)
    assert (last.offset, getattr(last, origin)) == (3, 3)


@pytest.mark.behaviour(165)
@pytest.mark.partitions(2)
def test_other_partitions_can_be_read_during_a_deserialization_error(
    kafka: RealKafka, topic: str, consume: Consume
) -> None:
    kafka.admin.produce(topic, [Record(b"bad"), Record(b"1", partition=1)])
    consumer = consume(value_deserializer=int)
    bad, good = partitions_of(topic, 2)
    consumer.assign([bad, good])

    values: list[object] = []

    def caught() -> bool:
        try:
            batch = consumer.poll(timeout_ms=100)
        except RecordDeserializationError as error:
            consumer.pause(error.partition)
            return error.partition == bad
        values.extend(record.value for record in batch.get(good, ()))
        return False

    while not caught():
        pass
    poll = poll_until(consumer, lambda: consumer.position(good) == 1)
    values += [record.value for record in poll]
    assert values == [1]
    kafka.admin.produce(topic, [Record(b"2", partition=1)])
    assert [record.value for record in read_all(consumer, 1)] == [2]
