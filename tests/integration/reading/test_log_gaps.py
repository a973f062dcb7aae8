"""Logs with holes: compacted away, deleted, or corrupt on the broker's disk."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from tandem_kafka import ConsumerRecord, KafkaConsumer, TopicPartition
from tandem_kafka.errors import CorruptRecordError
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.admin import Record
from tests.integration.polling import Consume, partitions_of, poll_until, read_all
from tests.integration.watching import Sent, break_batch
from tests.waiting import wait_until

KEYS = 5


@pytest.fixture(scope="module")
def eager_cleaner(kafka: RealKafka) -> Iterator[None]:
    """The broker looks for something to compact ten times a second, not every 15 seconds."""

    def set_pause(operation: AlterConfigOpType, value: str | None) -> None:
        entry = ConfigEntry("log.cleaner.backoff.ms", value, incremental_operation=operation)
        resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
        for future in kafka.admin.client.incremental_alter_configs([resource]).values():
            future.result(30.0)

    set_pause(AlterConfigOpType.SET, "100")
    yield
    set_pause(AlterConfigOpType.DELETE, None)


@pytest.fixture(scope="module")
def compacted(kafka: RealKafka, eager_cleaner: None) -> str:  # noqa: ARG001 - its effect counts
    """A topic of 5 keys with 201 records, the older ones compacted away; offset 201 is last.

    The batch of 190 to 199 ends with a record that offset 200 replaced. A segment is compacted
    only once it is closed, which a record from later on does.
    """
    name = kafka.admin.create_topic(
        f"compacted-{uuid.uuid4().hex[:8]}",
        config={
            "cleanup.policy": "compact",
            "segment.ms": "1000",
            "min.cleanable.dirty.ratio": "0",
            "min.compaction.lag.ms": "0",
            "delete.retention.ms": "0",
        },
    )
    start_ms = int(time.time() * 1_000) - 100_000
    records = [
        Record(b"%d" % number, b"%d" % (number % KEYS), timestamp_ms=start_ms + number * 10)
        for number in range(200)
    ]
    kafka.admin.produce(name, records[:190], {"batch.num.messages": 7})
    kafka.admin.produce(name, records[190:], {"batch.num.messages": 10, "linger.ms": 1_000})
    kafka.admin.produce(name, [Record(b"200", b"4", timestamp_ms=start_ms + 2_000)])
    kafka.admin.produce(name, [Record(b"last", b"last", timestamp_ms=start_ms + 50_000)])
    wait_until(lambda: len(read_to(kafka, name, 202)) <= KEYS + 1, "compaction")
    return name


def read_to(kafka: RealKafka, topic: str, end: int) -> list[ConsumerRecord]:
    with KafkaConsumer(
        bootstrap_servers=kafka.bootstrap(), auto_offset_reset="earliest"
    ) as consumer:
        tp = TopicPartition(topic, 0)
        consumer.assign([tp])
        return poll_until(consumer, lambda: consumer.position(tp) == end)


SURVIVORS = [*range(195, 199), 200, 201]


@pytest.mark.behaviour(162)
@pytest.mark.full("takes long on a real broker")
def test_compacted_gaps_are_skipped(compacted: str, consume: Consume) -> None:
    consumer = consume()
    sent = Sent(consumer)
    consumer.assign(partitions_of(compacted, 1))
    records = read_all(consumer, len(SURVIVORS))
    assert [record.offset for record in records] == SURVIVORS
    assert [record.value for record in records] == [
        *(b"%d" % number for number in SURVIVORS[:-1]),
        b"last",
    ]
    wait_until(lambda: sent.fetch_offsets()[0][-1] == 202)
    offsets = sent.fetch_offsets()[0]
    assert offsets == sorted(set(offsets))


@pytest.mark.behaviour(162)
@pytest.mark.full("takes long on a real broker")
def test_a_seek_into_a_gap_continues_after_it(compacted: str, consume: Consume) -> None:
    tp = TopicPartition(compacted, 0)
    consumer = consume(auto_offset_reset="none")
    consumer.assign([tp])
    for offset in (0, 7, 100, 194, 198):
        consumer.seek(tp, offset)
        records = poll_until(consumer, lambda: consumer.position(tp) == 202)
        assert [record.offset for record in records] == [at for at in SURVIVORS if at >= offset]


@pytest.mark.behaviour(162)
@pytest.mark.full("takes long on a real broker")
def test_the_position_passes_records_missing_at_the_end_of_a_batch(
    compacted: str, consume: Consume
) -> None:
    tp = TopicPartition(compacted, 0)
    consumer = consume(max_poll_records=1)
    consumer.assign([tp])
    after = {}
    for _ in SURVIVORS:
        (record,) = read_all(consumer, 1)
        after[record.offset] = consumer.position(tp)
    assert after == {195: 196, 196: 197, 197: 198, 198: 200, 200: 201, 201: 202}


@pytest.mark.parametrize(
    ("policy", "start"), [("earliest", 12), ("latest", 20), ("by_duration:PT1H", 16)]
)
def test_deleted_records_are_skipped(
    kafka: RealKafka, topic: str, consume: Consume, policy: str, start: int
) -> None:
    """The log's start moves past the position of a running consumer.

    A fetch is parked until there is data. After it, a paused partition is not fetched.
    """
    now_ms = int(time.time() * 1_000)
    stamps = [now_ms - 7_200_000] * 16 + [now_ms] * 4
    records = [Record(b"%d" % number, timestamp_ms=at) for number, at in enumerate(stamps)]
    kafka.admin.produce(topic, records[:8])
    tp = TopicPartition(topic, 0)
    consumer = consume(auto_offset_reset=policy, fetch_max_wait_ms=25_000)
    sent = Sent(consumer)
    consumer.assign([tp])
    consumer.seek_to_beginning(tp)
    read_all(consumer, 8)
    wait_until(lambda: 8 in sent.fetch_offsets()[0], "a fetch that is parked")
    consumer.pause(tp)
    kafka.admin.produce(topic, records[8:])
    state = consumer._core.engine.subscription.assigned[tp]
    wait_until(lambda: state.held_bytes > 0, "what the parked fetch brings")
    kafka.admin.delete_records(topic, {0: 12})
    consumer.seek(tp, 8)  # records of a parked fetch do not count
    consumer.resume(tp)
    got = poll_until(consumer, lambda: consumer.position(tp) in (start, 20))
    kafka.admin.produce(topic, [b"20"])
    got += poll_until(consumer, lambda: consumer.position(tp) == 21)
    assert [record.value for record in got] == [b"%d" % each for each in range(start, 21)]
    assert consumer.beginning_offsets([tp]) == {tp: 12}


def write_batches(kafka: RealKafka, topic: str, count: int, partition: int = 0) -> None:
    """Each record is a batch of its own."""
    records = [Record(b"value %d" % number, partition=partition) for number in range(count)]
    kafka.admin.produce(topic, records, {"batch.num.messages": 1})


@pytest.mark.behaviour(164)
def test_a_corrupt_batch_is_raised_until_a_seek_past_it(
    kafka: RealKafka, topic: str, consume: Consume
) -> None:
    write_batches(kafka, topic, 6)
    tp = TopicPartition(topic, 0)
    break_batch(kafka, tp, 3)
    consumer = consume()
    consumer.assign([tp])
    before = read_all(consumer, 3)
    assert [record.value for record in before] == [b"value 0", b"value 1", b"value 2"]
    for _ in range(3):
        with pytest.raises(CorruptRecordError, match=f"{topic}-0 at offset 3.*CRC") as caught:
            consumer.poll(timeout_ms=10_000)
        assert consumer.position(tp) == 3
    assert (caught.value.partition, caught.value.next_offset) == (tp, 4)
    consumer.seek(tp, caught.value.next_offset)
    assert [record.value for record in read_all(consumer, 2)] == [b"value 4", b"value 5"]


@pytest.mark.behaviour(164)
def test_a_corrupt_first_record_is_raised_until_a_seek(
    kafka: RealKafka, topic: str, consume: Consume
) -> None:
    write_batches(kafka, topic, 2)
    tp = TopicPartition(topic, 0)
    break_batch(kafka, tp, 0)
    consumer = consume()
    consumer.assign([tp])
    for _ in range(2):
        with pytest.raises(CorruptRecordError, match=f"{topic}-0 at offset 0"):
            consumer.poll(timeout_ms=10_000)
    consumer.seek(tp, 1)
    assert [record.value for record in read_all(consumer, 1)] == [b"value 1"]


def test_without_crc_checks_the_corrupt_value_is_returned(
    kafka: RealKafka, topic: str, consume: Consume
) -> None:
    write_batches(kafka, topic, 2)
    break_batch(kafka, TopicPartition(topic, 0), 0)
    consumer = consume(check_crcs=False)
    consumer.assign(partitions_of(topic, 1))
    assert [record.value for record in read_all(consumer, 2)] == [b"value 1", b"value 1"]


@pytest.mark.behaviour(166)
@pytest.mark.partitions(2)
def test_an_error_is_raised_after_the_records_of_another_partition(
    kafka: RealKafka, topic: str, consume: Consume
) -> None:
    write_batches(kafka, topic, 4, partition=0)
    write_batches(kafka, topic, 4, partition=1)
    good, bad = partitions_of(topic, 2)
    break_batch(kafka, bad, 0)
    consumer = consume()
    buffer = consumer._core.engine.buffer
    consumer.assign([good])
    consumer.position(good)
    wait_until(lambda: buffer.added == 1, "data of the good partition")
    consumer.assign([good, bad])
    consumer.position(bad)
    wait_until(lambda: buffer.added == 2, "data of the bad partition")
    batch = consumer.poll(timeout_ms=10_000)
    assert {tp: len(records) for tp, records in batch.items()} == {good: 4}
    for _ in range(2):
        with pytest.raises(CorruptRecordError, match=f"{topic}-1 at offset 0"):
            consumer.poll(timeout_ms=10_000)
    assert consumer.position(good) == 4
    consumer.seek(bad, 1)
    assert len(read_all(consumer, 3)) == 3


@pytest.mark.behaviour(164)
@pytest.mark.partitions(2)
def test_a_corrupt_partition_can_be_paused(kafka: RealKafka, topic: str, consume: Consume) -> None:
    write_batches(kafka, topic, 4, partition=0)
    bad, good = partitions_of(topic, 2)
    break_batch(kafka, bad, 0)
    consumer = consume()
    consumer.assign([bad])
    with pytest.raises(CorruptRecordError):
        consumer.poll(timeout_ms=10_000)
    consumer.pause(bad)
    consumer.assign([bad, good])
    write_batches(kafka, topic, 4, partition=1)
    assert {record.partition for record in read_all(consumer, 4)} == {1}
    consumer.resume(bad)
    with pytest.raises(CorruptRecordError):
        consumer.poll(timeout_ms=10_000)
