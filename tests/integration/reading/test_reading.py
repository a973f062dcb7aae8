"""Everything is read, once and in order, however it is read."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pytest

from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.admin import Record
from tests.integration.polling import Clock, Consume, partitions_of, poll_until, read_all
from tests.integration.watching import Sent
from tests.machine import slowness
from tests.waiting import until, wait_until

pytestmark = pytest.mark.both_clusters

FLOOD = 200_000


@pytest.fixture(scope="module")
def flood(kafka: RealKafka) -> str:
    """A topic of 200,000 records in 4 partitions; the value counts within the partition."""
    name = kafka.admin.create_topic(f"flood-{time.monotonic_ns()}", 4)
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": kafka.bootstrap(),
            "linger.ms": 20,
            "enable.idempotence": True,
            "queue.buffering.max.messages": FLOOD,
        }
    )
    for number in range(FLOOD):
        producer.produce(name, b"%d" % (number // 4), partition=number % 4)
    assert producer.flush(30.0) == 0
    return name


def batches(consumer: KafkaConsumer, count: int) -> Iterator[Any]:
    """Yield the batches of poll() until `count` records were read."""
    counts: list[int] = []
    for _ in until(lambda: sum(counts) >= count, lambda: f"only {sum(counts)} of {count} came"):
        batch = consumer.poll(timeout_ms=500)
        counts.append(batch.count)
        yield batch
    assert sum(counts) == count


def check_flood(consumer: KafkaConsumer, topic: str, pause_every: int = 0) -> None:
    """Read it all; every partition's offsets and values are 0, 1, 2, ..."""
    partitions = partitions_of(topic, 4)
    next_offsets = dict.fromkeys(partitions, 0)
    consumer.assign(partitions)
    for number, batch in enumerate(batches(consumer, FLOOD)):
        for tp, records in batch.items():
            start = next_offsets[tp]
            expected = range(start, start + len(records))
            assert [record.offset for record in records] == list(expected)
            assert [record.value for record in records] == [b"%d" % each for each in expected]
            next_offsets[tp] = start + len(records)
        if pause_every and number % pause_every == 0:
            time.sleep(0.05)  # a handler that takes its time
    assert next_offsets == dict.fromkeys(partitions, FLOOD // 4)
    assert consumer.poll(timeout_ms=100) == {}


@pytest.mark.full("takes long on a real broker")
@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="defaults"),
        pytest.param({"max_poll_records": 5_000}, id="large-polls"),
        pytest.param(
            {
                "fetch_buffer_max_bytes": 100_000,
                "max_partition_fetch_bytes": 20_000,
                "max_poll_records": 97,
            },
            id="small-buffer",
        ),
        pytest.param({"enable_incremental_fetch_sessions": False}, id="no-sessions"),
    ],
)
@pytest.mark.every_version
def test_four_partitions_are_read_completely_in_order(
    consume: Consume, flood: str, options: dict[str, Any]
) -> None:
    check_flood(consume(**options), flood)


@pytest.mark.full("takes long on a real broker")
def test_a_slow_handler_misses_no_record(consume: Consume, flood: str) -> None:
    consumer = consume(fetch_buffer_max_bytes=300_000, max_partition_fetch_bytes=50_000)
    check_flood(consumer, flood, pause_every=10)


@pytest.mark.full("takes long on a real broker")
def test_iteration_returns_the_same_records(consume: Consume, flood: str) -> None:
    consumer = consume(consumer_timeout_ms=60_000)
    consumer.assign(partitions_of(flood, 4))
    next_offsets = [0] * 4
    for record in itertools.islice(consumer, 40_000):
        assert record.offset == next_offsets[record.partition]
        next_offsets[record.partition] += 1
    assert [consumer.position(tp) for tp in partitions_of(flood, 4)] == next_offsets


@pytest.mark.full("it measures how long a poll takes")
@pytest.mark.behaviour(21)
def test_polls_with_a_timeout_of_0_make_progress(
    kafka: RealKafka, topic: str, consume: Consume
) -> None:
    kafka.admin.produce(topic, [b"%d" % number for number in range(100)])
    consumer = consume(topic, group_id=f"group-of-{topic}", max_poll_records=10)
    clock, longest = Clock(), 0.0
    values: list[bytes] = []
    while len(values) < 100:
        assert clock.within(90), f"{len(values)} records came"
        one = Clock()
        for records in consumer.poll(timeout_ms=0).values():
            values += [record.value for record in records]
        longest = max(longest, one.seconds)
        time.sleep(0.001)  # the application does something else in between
    assert values == [b"%d" % number for number in range(100)]
    assert longest < 10 * slowness()


@pytest.mark.behaviour(28)
def test_later_polls_return_the_remaining_records_without_a_new_fetch(
    kafka: RealKafka, topic: str, consume: Consume
) -> None:
    kafka.admin.produce(topic, [b"%d" % number for number in range(100)])
    consumer = consume(max_poll_records=7)
    sent = Sent(consumer)
    consumer.assign(partitions_of(topic, 1))
    records = []
    for batch in batches(consumer, 100):
        assert batch.count <= 7
        records += [record for part in batch.values() for record in part]
    assert [record.offset for record in records] == list(range(100))
    wait_until(lambda: len(sent.fetch_offsets()[0]) > 1, "the next fetch")
    assert sent.fetch_offsets()[0] == [0, 100]


@pytest.mark.behaviour(154)
@pytest.mark.partitions(6)
def test_one_fetch_per_partition_and_two_per_broker(
    kafka: RealKafka, topic: str, consume: Consume
) -> None:
    records = [Record(b"x" * 1_000, partition=number % 6) for number in range(1_200)]
    kafka.admin.produce(topic, records, {"batch.size": 5_000})
    consumer = consume(
        enable_incremental_fetch_sessions=False,
        max_partition_fetch_bytes=10_000,
        fetch_max_bytes=20_000,
    )
    sent = Sent(consumer)
    consumer.assign(partitions_of(topic, 6))
    read_all(consumer, 1_200)
    assert sent.most_in_flight == 2
    assert sent.fetched_twice == set()
    assert len(sent.fetched_from()) > 10


@pytest.mark.behaviour(173)
@pytest.mark.partitions(3)
@pytest.mark.parametrize("max_poll_records", [1, 50])
def test_no_offset_is_fetched_twice(
    kafka: RealKafka, topic: str, consume: Consume, max_poll_records: int
) -> None:
    """With sessions, a partition is sent again only with another offset.

    The exception is a partition at the end of its log, which may move to another session.
    """
    records = [Record(b"x" * 500, partition=number % 3) for number in range(600)]
    kafka.admin.produce(topic, records, {"batch.size": 2_000})
    consumer = consume(
        max_poll_records=max_poll_records,
        max_partition_fetch_bytes=4_000,
        fetch_buffer_max_bytes=12_000,
    )
    sent = Sent(consumer)
    consumer.assign(partitions_of(topic, 3))
    read_all(consumer, 600)
    wait_until(lambda: all(200 in each for each in sent.fetch_offsets().values()))
    for asked in sent.fetch_offsets().values():
        offsets = [offset for offset in asked if offset < 200]
        assert offsets == sorted(set(offsets))
        assert set(asked[len(offsets) :]) == {200}
        assert offsets[0] == 0
        assert len(offsets) > 5


@pytest.mark.behaviour(170)
@pytest.mark.partitions(4)
def test_a_busy_partition_does_not_starve_the_others(
    kafka: RealKafka, topic: str, consume: Consume
) -> None:
    records = [Record(b"x") for _ in range(5_000)]
    records += [Record(b"x", partition=part) for part in (1, 2, 3) for _ in range(10)]
    kafka.admin.produce(topic, records)
    consumer = consume(max_poll_records=5)
    consumer.assign(partitions_of(topic, 4))
    for tp in partitions_of(topic, 4):
        consumer.position(tp)
    wait_until(lambda: consumer._core.engine.buffer.added >= 4, "a chunk of every partition")
    turns = [next(iter(consumer.poll(timeout_ms=1_000))).partition for _ in range(8)]
    assert sorted(turns[:4]) == [0, 1, 2, 3]
    assert turns[4:] == turns[:4]


@pytest.mark.behaviour(163)
def test_a_record_above_every_limit_is_delivered(
    kafka: RealKafka, topic: str, consume: Consume
) -> None:
    large = b"x" * 300_000
    kafka.admin.produce(topic, [b"before", large, large, b"after"], {"batch.num.messages": 1})
    consumer = consume(
        fetch_max_bytes=1_000,
        max_partition_fetch_bytes=500,
        fetch_buffer_max_bytes=1_000,
        fetch_max_wait_ms=50,
    )
    consumer.assign(partitions_of(topic, 1))
    values = [record.value for record in read_all(consumer, 4)]
    assert values == [b"before", large, large, b"after"]


@pytest.mark.behaviour(163)
@pytest.mark.partitions(3)
def test_large_records_beside_small_ones_are_delivered(
    kafka: RealKafka, topic: str, consume: Consume
) -> None:
    large = b"x" * 300_000
    values = [large, b"small", large]
    kafka.admin.produce(
        topic,
        [Record(value, partition=part) for value in values for part in range(3)],
        {"batch.num.messages": 1},
    )
    consumer = consume(fetch_max_bytes=0, max_partition_fetch_bytes=0, fetch_max_wait_ms=50)
    consumer.assign(partitions_of(topic, 3))
    records = read_all(consumer, 9)
    for part in range(3):
        assert [each.value for each in records if each.partition == part] == values


@pytest.mark.partitions(2)
def test_empty_polls_change_nothing(topic: str, consume: Consume) -> None:
    consumer = consume()
    partitions = partitions_of(topic, 2)
    consumer.assign(partitions)
    poll_until(consumer, lambda: all(consumer.position(tp) == 0 for tp in partitions))
    assert consumer.poll(timeout_ms=0).next_offsets.keys() <= set(partitions)  # where they begin
    for _ in range(5):
        clock = Clock()
        batch = consumer.poll(timeout_ms=100)
        assert batch == {}
        assert batch.count == 0
        assert batch.next_offsets == {}
        assert clock.seconds >= 0.09  # and nothing else would end it
    assert [consumer.position(tp) for tp in partitions] == [0, 0]


def test_a_topic_is_read_once_it_exists(kafka: RealKafka, consume: Consume) -> None:
    name = f"later-{time.monotonic_ns()}"
    consumer = consume()
    consumer.assign([TopicPartition(name, 0)])
    assert consumer.partitions_for_topic(name) == set()
    clock = Clock()
    assert consumer.poll(timeout_ms=300) == {}
    assert clock.seconds >= 0.29  # and nothing else would end it
    kafka.admin.create_topic(name)
    kafka.admin.produce(name, [b"first", b"second"])
    assert [record.value for record in read_all(consumer, 2)] == [b"first", b"second"]


@pytest.mark.behaviour(169)
@pytest.mark.partitions(2)
def test_next_offsets_follow_the_last_record(
    kafka: RealKafka, topic: str, consume: Consume
) -> None:
    kafka.admin.produce(topic, [b"%d" % number for number in range(10)])
    consumer = consume(max_poll_records=4)
    consumer.assign(partitions_of(topic, 2))
    tp, empty = partitions_of(topic, 2)
    seen = []
    for batch in batches(consumer, 10):
        if batch:
            # The other one once: its position was reset.
            assert {tp} <= batch.next_offsets.keys() <= ({tp} if seen else {tp, empty})
            after = batch.next_offsets[tp]
            assert after.offset == batch[tp][-1].offset + 1 == consumer.position(tp)
            assert after.leader_epoch == batch[tp][-1].leader_epoch >= 0
            seen.append(after.offset)
    assert seen == [4, 8, 10]
