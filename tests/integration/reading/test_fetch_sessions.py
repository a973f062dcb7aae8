"""Fetch sessions: which partitions a request names, and lost sessions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka.request_managers.fetching.session import FetchSession
from tandem_kafka.wire.fetch_request import ConsumerFetch
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.admin import Record
from tests.integration.polling import Consume, partitions_of, poll_until, read_all
from tests.integration.watching import Sent
from tests.waiting import wait_until


def sessions(consumer: KafkaConsumer) -> list[FetchSession]:
    fetch: Any = consumer._core.engine.loop._managers.fetch  # type: ignore[attr-defined]
    return [slot.session for slot in fetch._placement.slots.values() if slot.partitions]


def partition_numbers(message: Any) -> list[int]:
    return sorted(each.partition for topic in message.topics for each in topic.partitions)


def forgotten(sent: Sent) -> list[int]:
    return sorted(
        number
        for message in sent.of(ConsumerFetch)
        for topic in message.forgotten_topics_data
        for number in topic.partitions
    )


@pytest.mark.behaviour(157)
@pytest.mark.partitions(4)
def test_a_session_request_has_only_changed_partitions(
    kafka: RealKafka, topic: str, consume: Consume
) -> None:
    consumer = consume(fetch_max_wait_ms=50)
    sent = Sent(consumer)
    consumer.assign(partitions_of(topic, 4))
    kafka.admin.produce(topic, [Record(b"x", partition=part) for part in range(4)])
    read_all(consumer, 4)
    wait_until(lambda: all(offsets[-1] == 1 for offsets in sent.fetch_offsets().values()))
    seen = len(sent.of(ConsumerFetch))
    poll_until(consumer, lambda: len(sent.of(ConsumerFetch)) >= seen + 4)
    full = [message for message in sent.of(ConsumerFetch) if message.session_epoch == 0]
    later = [message for message in sent.of(ConsumerFetch) if message.session_epoch > 0]
    assert {message.session_id for message in full} == {0}
    assert len({message.session_id for message in later}) == 2
    assert all(message.session_id != 0 for message in later)
    assert [partition_numbers(message) for message in later[-4:]] == [[]] * 4

    before = sent.fetch_offsets()
    kafka.admin.produce(topic, [Record(b"x", partition=2)])
    read_all(consumer, 1)
    wait_until(lambda: sent.fetch_offsets()[2] == [*before[2], 2])
    poll_until(consumer, lambda: len(sent.of(ConsumerFetch)) >= len(full + later) + 4)
    assert [sent.fetch_offsets()[number] for number in (0, 1, 3)] == [
        before[number] for number in (0, 1, 3)
    ]


@pytest.mark.behaviour(157)
@pytest.mark.partitions(4)
def test_a_session_forgets_partitions_that_are_not_fetched(
    kafka: RealKafka, topic: str, consume: Consume
) -> None:
    """No fetch requests it any more, not even through its session.

    A resumed partition may return in another session. A session without partitions is not
    updated, because it is no longer used.
    """
    partitions = partitions_of(topic, 4)
    consumer = consume(fetch_max_wait_ms=50)
    sent = Sent(consumer)

    def check_fetches_from_now_on(numbers: set[int]) -> None:
        begun = len(sent.asked())
        # The network thread may be about to send one for each of the two slots.
        wait_until(lambda: len(sent.asked()) >= begun + 2, "fetches after the change")
        before = len(sent.asked())
        wait_until(lambda: len(sent.asked()) >= before + 6, "six fetches")
        wait_until(lambda: set[int]().union(*sent.asked()[before:]) >= numbers, "each is asked for")
        assert set[int]().union(*sent.asked()[before:]) == numbers

    consumer.assign(partitions)
    kafka.admin.produce(topic, [Record(b"x", partition=part) for part in range(4)])
    read_all(consumer, 4)
    check_fetches_from_now_on({0, 1, 2, 3})
    assert forgotten(sent) == []
    consumer.pause(partitions[1])
    check_fetches_from_now_on({0, 2, 3})
    assert forgotten(sent) == [1]
    consumer.resume(partitions[1])
    check_fetches_from_now_on({0, 1, 2, 3})
    consumer.assign(partitions[:3])
    check_fetches_from_now_on({0, 1, 2})
    kafka.admin.produce(topic, [Record(b"x", partition=part) for part in range(4)])
    assert sorted(record.partition for record in read_all(consumer, 3)) == [0, 1, 2]


def lose_id(session: FetchSession) -> None:
    session._id += 1


def lose_count(session: FetchSession) -> None:
    session._epoch += 7


@pytest.mark.behaviour(157)
@pytest.mark.parametrize("spoil", [lose_id, lose_count])
@pytest.mark.partitions(4)
def test_a_lost_session_is_replaced_by_a_new_one(
    kafka: RealKafka, topic: str, consume: Consume, spoil: Callable[[FetchSession], None]
) -> None:
    consumer = consume(fetch_max_wait_ms=50)
    sent = Sent(consumer)
    consumer.assign(partitions_of(topic, 4))
    kafka.admin.produce(topic, [Record(b"x", partition=part) for part in range(4)])
    read_all(consumer, 4)
    wait_until(lambda: all(session._epoch > 2 for session in sessions(consumer)))
    before = len([each for each in sent.of(ConsumerFetch) if each.session_epoch == 0])
    for session in sessions(consumer):
        spoil(session)
    kafka.admin.produce(topic, [Record(b"y", partition=part) for part in range(4)])
    records = read_all(consumer, 4)
    assert sorted((each.partition, each.offset) for each in records) == [(p, 1) for p in range(4)]
    full = [each for each in sent.of(ConsumerFetch) if each.session_epoch == 0]
    assert len(full) - before >= 2
    wait_until(lambda: all(session._epoch > 2 for session in sessions(consumer)))


@pytest.mark.behaviour(157)
def test_a_recreated_topic_is_read_from_its_beginning(
    kafka: RealKafka, topic: str, consume: Consume
) -> None:
    tp = TopicPartition(topic, 0)
    consumer = consume(fetch_max_wait_ms=50)
    sent = Sent(consumer)
    consumer.assign([tp])
    kafka.admin.produce(topic, [b"old"] * 10)
    read_all(consumer, 10)
    old_id = consumer._core.engine.metadata.snapshot.topic_id(topic)
    kafka.admin.delete_topic(topic)
    poll_until(consumer, lambda: topic not in consumer._core.engine.metadata.snapshot.topics)
    kafka.admin.create_topic(topic)
    kafka.admin.produce(topic, [b"new %d" % number for number in range(5)])
    records = read_all(consumer, 5)
    assert [record.value for record in records] == [b"new %d" % number for number in range(5)]
    assert [record.offset for record in records] == list(range(5))
    ids = [entry.topic_id for message in sent.of(ConsumerFetch) for entry in message.topics]
    assert ids[0] == old_id != ids[-1]


@pytest.mark.behaviour(157)
def test_a_topic_recreated_between_two_polls_is_read(
    kafka: RealKafka, topic: str, consume: Consume
) -> None:
    """Nothing is polled between the end of the old topic and the first record of the new."""
    tp = TopicPartition(topic, 0)
    consumer = consume(fetch_max_wait_ms=50)
    consumer.assign([tp])
    kafka.admin.produce(topic, [b"old"] * 10)
    read_all(consumer, 10)
    kafka.admin.delete_topic(topic)
    wait_until(lambda: topic not in kafka.admin.client.list_topics(timeout=30.0).topics)
    kafka.admin.create_topic(topic)
    kafka.admin.produce(topic, [b"new"] * 3)
    assert [record.value for record in read_all(consumer, 3)] == [b"new"] * 3
