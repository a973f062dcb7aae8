"""What a consumer does while its broker does not respond."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tandem_kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition
from tandem_kafka.wire.messages import ListOffsetsRequest, OffsetFetchRequest
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.admin import Record
from tests.integration.polling import (
    ENDLESS_MS,
    ENDLESS_REQUESTS,
    Clock,
    Consume,
    partitions_of,
    poll_until,
    read_all,
)
from tests.integration.watching import Sent
from tests.waiting import wait_until

TEN = [b"%d" % number for number in range(10)]


@pytest.fixture(scope="module")
def kafka() -> Iterator[RealKafka]:
    """Not that of the other tests, which would wait too."""
    with RealKafka() as cluster:
        yield cluster


def values_of(consumer: KafkaConsumer, count: int) -> list[bytes]:
    return [record.value for record in read_all(consumer, count)]


def commit(kafka: RealKafka, group: str, offsets: dict[TopicPartition, int]) -> None:
    """Commit for a group without members."""
    with KafkaConsumer(bootstrap_servers=kafka.bootstrap(), group_id=group) as consumer:
        consumer.commit({tp: OffsetAndMetadata(at, "", -1) for tp, at in offsets.items()})


@contextmanager
def silent(kafka: RealKafka) -> Iterator[None]:
    """A broker that does not respond."""
    kafka.pause()
    try:
        yield
    finally:
        kafka.resume()


def with_coordinator(consume: Consume, topic: str) -> KafkaConsumer:
    """A consumer that lacks only the committed offsets."""
    consumer = consume(group_id=f"group-of-{topic}")
    consumer.partitions_for_topic(topic)
    consumer.committed(TopicPartition(topic, 0))
    return consumer


@pytest.mark.behaviour(139)
def test_a_seek_wins_over_a_lookup_of_committed_offsets(
    kafka: RealKafka, topic: str, consume: Consume
) -> None:
    kafka.admin.produce(topic, TEN)
    tp = TopicPartition(topic, 0)
    commit(kafka, f"group-of-{topic}", {tp: 3})
    consumer = with_coordinator(consume, topic)
    sent = Sent(consumer)
    with silent(kafka):
        consumer.assign([tp])
        poll_until(consumer, lambda: sent.of(OffsetFetchRequest))
        consumer.seek(tp, 7)
    assert values_of(consumer, 3) == TEN[7:]
    assert len(sent.of(OffsetFetchRequest)) == 1


@pytest.mark.behaviour(140)
@pytest.mark.partitions(2)
def test_an_added_partition_is_looked_up_before_it_is_reset(
    kafka: RealKafka, topic: str, consume: Consume
) -> None:
    kafka.admin.produce(topic, [Record(b"x", partition=part) for part in (0, 1)] * 10)
    first, second = partitions_of(topic, 2)
    commit(kafka, f"group-of-{topic}", {first: 3, second: 8})
    consumer = with_coordinator(consume, topic)
    sent = Sent(consumer)
    with silent(kafka):
        consumer.assign([first])
        poll_until(consumer, lambda: sent.of(OffsetFetchRequest))
        consumer.assign([first, second])
        consumer.poll(timeout_ms=20)
    assert [consumer.position(tp) for tp in (first, second)] == [3, 8]
    assert sent.of(ListOffsetsRequest) == []


@pytest.mark.behaviour(141)
def test_short_polls_share_one_lookup(kafka: RealKafka, topic: str, consume: Consume) -> None:
    kafka.admin.produce(topic, TEN)
    tp = TopicPartition(topic, 0)
    commit(kafka, f"group-of-{topic}", {tp: 3})
    consumer = with_coordinator(consume, topic)
    sent = Sent(consumer)
    with silent(kafka):
        consumer.assign([tp])
        for _ in range(50):
            assert consumer.poll(timeout_ms=2) == {}
    assert values_of(consumer, 7) == TEN[3:]
    assert len(sent.of(OffsetFetchRequest)) == 1


@pytest.mark.behaviour(34)
@pytest.mark.parametrize("timeout_ms", [0, 300])
def test_position_keeps_to_its_timeout(
    kafka: RealKafka, topic: str, consume: Consume, timeout_ms: int
) -> None:
    kafka.admin.produce(topic, TEN[:3])
    tp = TopicPartition(topic, 0)
    consumer = consume(default_api_timeout_ms=ENDLESS_MS, **ENDLESS_REQUESTS)
    consumer.assign([tp])
    with silent(kafka):
        clock = Clock()
        assert consumer.position(tp, timeout_ms=timeout_ms) is None
        assert clock.seconds >= timeout_ms / 1_000 - 0.02
    assert consumer.position(tp) == 0


@pytest.mark.behaviour(149)
def test_the_lag_is_looked_up_once(kafka: RealKafka, topic: str, consume: Consume) -> None:
    kafka.admin.produce(topic, TEN)
    tp = TopicPartition(topic, 0)
    consumer = consume(max_poll_records=4)
    consumer.assign([tp])
    assert consumer.current_lag(tp) is None
    consumer.partitions_for_topic(topic)
    sent = Sent(consumer)
    consumer.pause(tp)  # no fetch returns the end
    consumer.seek(tp, 3)
    with silent(kafka):
        assert [consumer.current_lag(tp) for _ in range(10)] == [None] * 10
        wait_until(lambda: sent.of(ListOffsetsRequest))
    wait_until(lambda: consumer.current_lag(tp) is not None)
    assert consumer.current_lag(tp) == 7
    assert len(sent.of(ListOffsetsRequest)) == 1
    consumer.resume(tp)
    assert len(poll_until(consumer, lambda: consumer.position(tp) == 7)) == 4
    assert consumer.current_lag(tp) == 3


@pytest.mark.behaviour(156)
def test_buffered_records_are_returned_after_resume_without_a_new_fetch(
    kafka: RealKafka, topic: str, consume: Consume
) -> None:
    kafka.admin.produce(topic, [b"x"] * 100)
    tp = TopicPartition(topic, 0)
    # Long enough to keep the next fetch parked.
    consumer = consume(max_poll_records=10, fetch_max_wait_ms=25_000)
    sent = Sent(consumer)
    consumer.assign([tp])
    assert [record.offset for record in read_all(consumer, 10)] == list(range(10))
    consumer.pause(tp)
    assert consumer.poll(timeout_ms=200) == {}
    with silent(kafka):  # now only buffered records can be returned
        consumer.resume(tp)
        assert consumer.paused() == set()
        assert [record.offset for record in read_all(consumer, 90)] == list(range(10, 100))
    assert sent.fetch_offsets()[0] == [0, 100]
