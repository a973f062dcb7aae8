"""First positions, and positions after a seek."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tandem_kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition
from tandem_kafka.errors import (
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
)
from tandem_kafka.wire.messages import ListOffsetsRequest
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.admin import Record
from tests.integration.polling import (
    ENDLESS_MS,
    Consume,
    partitions_of,
    poll_until,
    read_all,
)
from tests.integration.watching import Sent

pytestmark = pytest.mark.both_clusters

HOUR_MS = 3_600_000


def values_of(consumer: KafkaConsumer, count: int) -> list[bytes]:
    return [record.value for record in read_all(consumer, count)]


def numbers(start: int, stop: int) -> list[bytes]:
    return [b"%d" % number for number in range(start, stop)]


@pytest.mark.behaviour(138)
@pytest.mark.partitions(3)
@pytest.mark.parametrize(("policy", "start"), [("earliest", 0), ("latest", 10)])
def test_committed_offsets_first_then_the_policy(
    kafka: RealKafka, topic: str, consume: Consume, policy: str, start: int
) -> None:
    kafka.admin.produce(topic, [Record(b"x", partition=part) for part in (0, 1, 2)] * 10)
    group = f"group-of-{topic}"
    partitions = partitions_of(topic, 3)
    committed = [OffsetAndMetadata(at, "", -1) for at in (4, 10)]
    with KafkaConsumer(bootstrap_servers=kafka.bootstrap(), group_id=group) as nobody:
        nobody.commit(dict(zip(partitions, committed, strict=False)))
    consumer = consume(group_id=group, auto_offset_reset=policy)
    consumer.assign(partitions)
    assert [consumer.position(tp) for tp in partitions] == [4, 10, start]
    read = read_all(consumer, 6 + 10 - start)
    assert [record.offset for record in read if record.partition == 0] == list(range(4, 10))
    assert not [record for record in read if record.partition == 1]


@pytest.mark.behaviour(142)
def test_without_a_policy_a_missing_offset_raises(
    kafka: RealKafka, topic: str, consume: Consume
) -> None:
    kafka.admin.produce(topic, numbers(0, 10))
    tp = TopicPartition(topic, 0)
    consumer = consume(auto_offset_reset="none", group_id=f"group-of-{topic}")
    consumer.assign([tp])
    for _ in range(2):
        with pytest.raises(NoOffsetForPartitionError, match=topic):
            consumer.poll(timeout_ms=10_000)
    with pytest.raises(NoOffsetForPartitionError, match=topic):
        consumer.position(tp)
    consumer.seek(tp, 6)
    assert values_of(consumer, 4) == numbers(6, 10)


@pytest.mark.behaviour(142)
@pytest.mark.parametrize("offset", [2, 1_000], ids=["deleted", "beyond"])
def test_without_a_policy_an_offset_out_of_range_raises_until_a_seek(
    kafka: RealKafka, topic: str, consume: Consume, offset: int
) -> None:
    kafka.admin.produce(topic, numbers(0, 10))
    kafka.admin.delete_records(topic, {0: 5})
    tp = TopicPartition(topic, 0)
    consumer = consume(auto_offset_reset="none")
    consumer.assign([tp])
    consumer.seek(tp, offset)
    for _ in range(3):
        with pytest.raises(OffsetOutOfRangeError) as caught:
            consumer.poll(timeout_ms=10_000)
        assert caught.value.args[0] == {tp: offset}
        assert consumer.position(tp) == offset
    consumer.seek(tp, 8)
    assert values_of(consumer, 2) == numbers(8, 10)


@pytest.mark.behaviour(143)
@pytest.mark.parametrize("offset", [2, 1_000], ids=["deleted", "beyond"])
@pytest.mark.parametrize(
    ("policy", "start"), [("earliest", 5), ("latest", 10), ("by_duration:PT1H", 7)]
)
def test_out_of_range_resets_silently(
    kafka: RealKafka, topic: str, consume: Consume, policy: str, start: int, offset: int
) -> None:
    now_ms = int(time.time() * 1_000)
    old = [Record(value, timestamp_ms=now_ms - 2 * HOUR_MS) for value in numbers(0, 7)]
    young = [Record(value, timestamp_ms=now_ms) for value in numbers(7, 10)]
    kafka.admin.produce(topic, old + young)
    kafka.admin.delete_records(topic, {0: 5})
    tp = TopicPartition(topic, 0)
    consumer = consume(auto_offset_reset=policy)
    consumer.assign([tp])
    consumer.seek(tp, offset)
    records = poll_until(consumer, lambda: consumer.position(tp) != offset)
    kafka.admin.produce(topic, numbers(10, 12))
    records += poll_until(consumer, lambda: consumer.position(tp) == 12)
    assert [record.value for record in records] == numbers(start, 12)


@pytest.mark.behaviour(143)
def test_records_fetched_before_the_log_start_moved_are_returned(
    kafka: RealKafka, topic: str, consume: Consume
) -> None:
    """Buffered records come first; the offset after them is inside the log."""
    kafka.admin.produce(topic, numbers(0, 10))
    tp = TopicPartition(topic, 0)
    consumer = consume(max_poll_records=1)
    consumer.assign([tp])
    assert values_of(consumer, 1) == numbers(0, 1)
    kafka.admin.produce(topic, numbers(10, 20))
    kafka.admin.delete_records(topic, {0: 15})
    values = [record.value for record in poll_until(consumer, lambda: consumer.position(tp) == 20)]
    assert values[:9] == numbers(1, 10)
    assert values[-5:] == numbers(15, 20)


@pytest.mark.behaviour(144)
def test_by_duration_starts_at_the_first_record_within_it(
    kafka: RealKafka, topic: str, consume: Consume
) -> None:
    now_ms = int(time.time() * 1_000)
    ages_h = [50, 30, 20, 10]
    records = [Record(b"%d" % age, timestamp_ms=now_ms - age * HOUR_MS) for age in ages_h]
    kafka.admin.produce(topic, records, {"batch.num.messages": 1})
    consumer = consume(auto_offset_reset="by_duration:P1DT1H")
    consumer.assign(partitions_of(topic, 1))
    assert values_of(consumer, 2) == [b"20", b"10"]


@pytest.mark.behaviour(145)
def test_by_duration_without_a_record_within_it_starts_at_the_end(
    kafka: RealKafka, topic: str, consume: Consume
) -> None:
    long_ago_ms = int(time.time() * 1_000) - 2 * HOUR_MS
    kafka.admin.produce(topic, [Record(b"old", timestamp_ms=long_ago_ms)] * 3)
    tp = TopicPartition(topic, 0)
    consumer = consume(auto_offset_reset="by_duration:PT1H")
    consumer.assign([tp])
    assert consumer.position(tp, timeout_ms=ENDLESS_MS) == 3
    consumer.poll(timeout_ms=0)
    kafka.admin.produce(topic, [Record(b"also old", timestamp_ms=long_ago_ms)])
    assert values_of(consumer, 1) == [b"also old"]


@pytest.mark.behaviour(146)
@pytest.mark.partitions(2)
def test_seeks_to_beginning_and_end_are_lazy_and_default_to_all_partitions(
    kafka: RealKafka, topic: str, consume: Consume
) -> None:
    kafka.admin.produce(topic, [Record(b"x", partition=part) for part in (0, 1)] * 10)
    kafka.admin.delete_records(topic, {1: 4})
    partitions = partitions_of(topic, 2)
    consumer = consume()
    consumer.assign(partitions)
    sent = Sent(consumer)
    consumer.seek_to_end()
    assert sent.of(ListOffsetsRequest) == []
    assert [consumer.position(tp) for tp in partitions] == [10, 10]
    consumer.seek_to_beginning(partitions[1])
    assert [consumer.position(tp) for tp in partitions] == [10, 4]
    consumer.seek_to_beginning()
    assert [consumer.position(tp) for tp in partitions] == [0, 4]
    consumer.seek_to_end(partitions[0])
    assert len(read_all(consumer, 6)) == 6


@pytest.mark.behaviour(146)
def test_the_end_is_looked_up_on_demand(kafka: RealKafka, topic: str, consume: Consume) -> None:
    kafka.admin.produce(topic, numbers(0, 5))
    tp = TopicPartition(topic, 0)
    consumer = consume()
    consumer.assign([tp])
    consumer.seek_to_end(tp)
    kafka.admin.produce(topic, numbers(5, 8))
    assert consumer.position(tp) == 8


@pytest.mark.behaviour(147)
@pytest.mark.partitions(3)
def test_offsets_for_times(kafka: RealKafka, topic: str, consume: Consume) -> None:
    records = [
        Record(b"x", partition=part, timestamp_ms=1_000_000 + number * 1_000)
        for part in (0, 1)
        for number in range(10)
    ]
    kafka.admin.produce(topic, records)
    busy, other, empty = partitions_of(topic, 3)
    consumer = consume()
    found = consumer.offsets_for_times({busy: 1_002_500, other: 1_009_001, empty: 0})
    assert found[other] is None
    assert found[empty] is None
    hit = found[busy]
    assert hit is not None
    assert (hit.offset, hit.timestamp) == (3, 1_003_000)
    consumer.assign([busy])
    consumer.seek(busy, hit.offset)
    assert read_all(consumer, 7)[0].timestamp == 1_003_000


@pytest.mark.behaviour(158)
@pytest.mark.partitions(2)
def test_a_seek_drops_records_that_were_fetched_before(
    kafka: RealKafka, topic: str, consume: Consume
) -> None:
    kafka.admin.produce(topic, [Record(b"x", partition=part) for part in (0, 1)] * 200)
    tp, other = partitions_of(topic, 2)
    consumer = consume(max_poll_records=5)
    consumer.assign([tp, other])
    poll_until(consumer, lambda: consumer.position(tp) >= 5)
    for target in (100, 40, 40, 199, 0):
        consumer.seek(tp, target)
        assert consumer.position(tp) == target
        records = poll_until(consumer, lambda target=target: consumer.position(tp) != target)
        mine = [record.offset for record in records if record.partition == 0]
        assert mine == list(range(target, target + len(mine)))
    rest: Any = poll_until(consumer, lambda: consumer.position(other) == 200)
    offsets = [record.offset for record in rest if record.partition == 1]
    assert offsets == list(range(200 - len(offsets), 200))
