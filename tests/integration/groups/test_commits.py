"""Commits: what they cover, their order, and the metadata of an offset."""

from __future__ import annotations

import threading
from typing import Any

import confluent_kafka
import pytest
from kafka import KafkaAdminClient
from kafka.admin import MemberToRemove
from kafka.errors import OffsetMetadataTooLargeError

from tandem_kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition
from tandem_kafka.errors import CommitFailedError, KafkaTimeoutError
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.admin import Record
from tests.integration.polling import (
    ENDLESS_MS,
    Clock,
    Consume,
    metric,
    partitions_of,
    poll_until,
    read_all,
)
from tests.waiting import wait_until

pytestmark = pytest.mark.both_clusters

TOO_LONG = OffsetAndMetadata(1, "x" * 5_000, -1)


def offset(number: int) -> OffsetAndMetadata:
    return OffsetAndMetadata(number, "", -1)


@pytest.fixture
def tp(topic: str) -> TopicPartition:
    return TopicPartition(topic, 0)


@pytest.fixture
def group(topic: str) -> str:
    return f"group-of-{topic}"


@pytest.fixture
def consumer(consume: Consume, group: str, tp: TopicPartition) -> KafkaConsumer:
    """Has a partition, but is no member."""
    consumer = consume(group_id=group)
    consumer.assign([tp])
    return consumer


@pytest.mark.behaviour(118)
@pytest.mark.partitions(2)
def test_commit_covers_what_poll_returned_while_reading_ahead(
    kafka: RealKafka, topic: str, consumer: KafkaConsumer
) -> None:
    partitions = partitions_of(topic, 2)
    kafka.admin.produce(topic, [Record(b"x", partition=n % 2) for n in range(4_000)])
    consumer.assign(partitions)
    returned = dict.fromkeys(partitions, 0)
    for _ in range(30):
        for tp, records in consumer.poll(5_000, max_records=7).items():
            returned[tp] += len(records)
        wait_until(lambda: metric(consumer, "consumer-metrics", "fetch-buffer-bytes") > 0)
        consumer.commit()
        assert {tp: consumer.committed(tp) or 0 for tp in partitions} == returned


@pytest.mark.behaviour(118)
def test_commit_async_covers_what_poll_returned_when_it_was_called(
    kafka: RealKafka, tp: TopicPartition, consumer: KafkaConsumer
) -> None:
    kafka.admin.produce(tp.topic, [b"x"] * 20)
    read_all(consumer, 5, max_records=5)
    future = consumer.commit_async()
    read_all(consumer, 15)
    poll_until(consumer, lambda: future.is_done)
    assert future.value == {tp: consumer.committed(tp, metadata=True)}
    assert future.value[tp].offset == 5


@pytest.mark.behaviour(119)
def test_callbacks_run_in_order_on_this_thread_before_commit_returns(
    tp: TopicPartition, consumer: KafkaConsumer
) -> None:
    seen: list[tuple[int, threading.Thread]] = []

    def note(offsets: Any, error: Any) -> None:
        assert error is None
        seen.append((offsets[tp].offset, threading.current_thread()))

    for last in ({tp: offset(100)}, {}):
        seen.clear()
        for number in range(10):
            consumer.commit_async({tp: offset(number)}, note)
        consumer.commit(last)
        assert seen == [(number, threading.current_thread()) for number in range(10)]
    assert consumer.committed(tp) == 9


@pytest.mark.behaviour(120)
def test_a_failed_commit_async_does_not_fail_commit(
    tp: TopicPartition, consumer: KafkaConsumer
) -> None:
    errors: list[Exception | None] = []
    future = consumer.commit_async({tp: TOO_LONG}, lambda _, error: errors.append(error))
    consumer.commit({tp: offset(2)})
    assert [type(error) for error in errors] == [OffsetMetadataTooLargeError]
    assert isinstance(future.exception, OffsetMetadataTooLargeError)
    assert consumer.committed(tp) == 2


@pytest.mark.behaviour(121)
@pytest.mark.parametrize("call", ["poll", "commit", "close"])
def test_callbacks_run_only_in_poll_commit_and_close(
    consume: Consume, group: str, tp: TopicPartition, consumer: KafkaConsumer, call: str
) -> None:
    seen: list[object] = []
    consumer.commit_async({tp: offset(3)}, lambda *_: seen.append(threading.current_thread()))
    other = consume(group_id=group)
    wait_until(lambda: other.committed(tp) == 3)
    wait_until(lambda: consumer._commits.waiting, "the response")
    consumer.committed(tp)
    consumer.position(tp)
    consumer.end_offsets([tp])
    assert seen == []
    {"poll": lambda: consumer.poll(0), "commit": lambda: consumer.commit({})}.get(
        call, consumer.close
    )()
    assert seen == [threading.current_thread()]


@pytest.mark.behaviour(121)
def test_a_commit_callback_ends_the_wait_of_poll(
    tp: TopicPartition, consumer: KafkaConsumer
) -> None:
    """Not poll() itself, but the wait in it: the callback runs long before poll() returns."""
    ran: list[object] = []
    consumer.commit_async({tp: offset(3)}, lambda *_: (ran.append(1), consumer.wakeup()))
    with pytest.raises(Exception, match="wakeup"):
        consumer.poll(ENDLESS_MS)
    assert ran


@pytest.mark.behaviour(122)
def test_commit_async_before_the_coordinator_is_known(
    consume: Consume, group: str, tp: TopicPartition
) -> None:
    consumer = consume(group_id=group, bootstrap_timeout_ms=0)
    seen: list[object] = []
    future = consumer.commit_async({tp: offset(4)}, lambda _, error: seen.append(error))
    consumer.commit({})
    assert seen == [None]
    assert future.succeeded()
    assert consumer.committed(tp) == 4


@pytest.mark.behaviour(125)
def test_a_commit_of_a_removed_member_fails(
    kafka: RealKafka, topic: str, consume: Consume, group: str, tp: TopicPartition
) -> None:
    kafka.admin.produce(topic, [b"x"] * 3)
    consumer = consume(topic, group_id=group, heartbeat_interval_ms=30_000)
    read_all(consumer, 3)
    admin = KafkaAdminClient(bootstrap_servers=kafka.bootstrap())
    try:
        admin.remove_group_members(group, [member_to_remove(consumer)])
    finally:
        admin.close()
    with pytest.raises(CommitFailedError, match=tp.topic):
        consumer.commit()
    assert consumer.committed(tp) is None


def member_to_remove(consumer: KafkaConsumer) -> Any:
    return MemberToRemove(member_id=consumer.group_metadata().member_id)


@pytest.mark.behaviour(128)
def test_auto_commit_follows_the_interval(
    kafka: RealKafka, topic: str, consume: Consume, group: str, tp: TopicPartition
) -> None:
    options = {"enable_auto_commit": True, "auto_commit_interval_ms": 100}
    consumer = consume(group_id=group, **options)
    consumer.assign([tp])
    other = consume(group_id=group)
    poll_until(consumer, lambda: other.committed(tp) == 0)  # a position is there to be committed
    kafka.admin.produce(topic, [b"x"] * 10)
    read_all(consumer, 4, max_records=4)
    consumer.pause(tp)
    poll_until(consumer, lambda: other.committed(tp) == 4)
    consumer.resume(tp)
    read_all(consumer, 6)
    poll_until(consumer, lambda: other.committed(tp) == 10)


@pytest.mark.behaviour(128)
def test_auto_commit_sends_nothing_without_a_position(
    topic: str, consume: Consume, group: str
) -> None:
    options = {"enable_auto_commit": True, "auto_commit_interval_ms": 10}
    consumer = consume(group_id=group, allow_auto_create_topics=False, **options)
    consumer.assign([TopicPartition(f"not-{topic}", 0)])
    clock = Clock()
    poll_until(consumer, lambda: clock.seconds > 0.3)
    assert metric(consumer, "consumer-coordinator-metrics", "commit-total") == 0


@pytest.mark.behaviour(128)
def test_auto_commit_waits_for_the_interval(
    kafka: RealKafka, topic: str, consume: Consume, group: str, tp: TopicPartition
) -> None:
    kafka.admin.produce(topic, [b"x"] * 10)
    options = {"enable_auto_commit": True, "auto_commit_interval_ms": 600_000}
    consumer = consume(group_id=group, **options)
    consumer.assign([tp])
    for _ in range(10):
        read_all(consumer, 1, max_records=1)
    assert consumer.committed(tp) is None


@pytest.mark.behaviour(130)
@pytest.mark.design("003", "Assign, commit")
@pytest.mark.partitions(2)
def test_assign_commits_the_positions_of_former_partitions(
    kafka: RealKafka, topic: str, consume: Consume, group: str
) -> None:
    first, second = partitions_of(topic, 2)
    kafka.admin.produce(topic, [Record(b"x", partition=n) for n in range(2) for _ in range(9)])
    consumer = consume(group_id=group, enable_auto_commit=True)
    for tp, count in ((first, 3), (second, 5), (first, 6)):
        consumer.assign([tp])
        records = read_all(consumer, count, max_records=count)
        assert {record.partition for record in records} == {tp.partition}
    consumer.close()
    other = consume(group_id=group)
    assert [other.committed(tp) for tp in (first, second)] == [9, 5]


@pytest.mark.behaviour(131)
def test_metadata_and_leader_epoch_are_stored(tp: TopicPartition, consumer: KafkaConsumer) -> None:
    for metadata in ("plain", "", "täglich ✓ 日本", "x" * 4_096):
        committed = OffsetAndMetadata(0, metadata, 0)
        consumer.commit({tp: committed})
        assert consumer.committed(tp, metadata=True) == committed
    consumer.commit({tp: offset(7)})
    assert consumer.committed(tp, metadata=True) == OffsetAndMetadata(7, "", -1)
    assert consumer.committed(tp) == 7


@pytest.mark.behaviour(131)
def test_a_commit_has_the_leader_epoch_of_the_last_record(
    kafka: RealKafka, tp: TopicPartition, consumer: KafkaConsumer, consume: Consume, group: str
) -> None:
    kafka.admin.produce(tp.topic, [b"x"] * 3)
    assert {record.leader_epoch for record in read_all(consumer, 3)} == {0}
    consumer.commit()
    assert consumer.committed(tp, metadata=True) == OffsetAndMetadata(3, "", 0)
    kafka.admin.produce(tp.topic, [b"y"])
    other = consume(group_id=group)
    other.assign([tp])
    assert [record.value for record in read_all(other, 1)] == [b"y"]


@pytest.mark.behaviour(131)
def test_metadata_that_is_too_long_is_rejected(tp: TopicPartition, consumer: KafkaConsumer) -> None:
    with pytest.raises(OffsetMetadataTooLargeError):
        consumer.commit({tp: TOO_LONG})
    assert consumer.committed(tp) is None


@pytest.mark.behaviour(132)
def test_committed_is_none_without_a_commit(
    topic: str, tp: TopicPartition, consumer: KafkaConsumer
) -> None:
    assert consumer.committed(tp) is None
    assert consumer.committed(tp, metadata=True) is None
    assert consumer.committed(TopicPartition(topic, 99), timeout_ms=3_000) is None
    assert consumer.committed(TopicPartition(f"not-{topic}", 0), timeout_ms=3_000) is None


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_commit_of_a_deleted_topic_names_it_and_commits_the_others(
    kafka: RealKafka, consume: Consume, group: str, tp: TopicPartition, protocol: str
) -> None:
    gone = TopicPartition(kafka.admin.new_topic(tp.topic), 0)
    consumer = consume(tp.topic, gone.topic, group_id=group, group_protocol=protocol)
    poll_until(consumer, lambda: len(consumer.assignment()) == 2)
    kafka.admin.delete_topic(gone.topic)

    def refused() -> bool:
        try:
            consumer.commit({tp: offset(1), gone: offset(1)}, 1_500)
        except KafkaTimeoutError as error:
            return f"{gone.topic}-0: UNKNOWN_TOPIC_" in str(error)
        return False  # the coordinator learns of the deletion a little later

    wait_until(refused)
    assert consumer.committed(tp) == 1


@pytest.mark.behaviour(132)
def test_committed_is_none_for_a_deleted_topic(
    kafka: RealKafka, tp: TopicPartition, consumer: KafkaConsumer
) -> None:
    """The consumer sends a topic id that the broker no longer knows."""
    consumer.poll(0)
    consumer.commit({tp: offset(1)})
    consumer.unsubscribe()
    kafka.admin.delete_topic(tp.topic)
    # The coordinator drops a deleted topic's commits a little later.
    wait_until(lambda: consumer.committed(tp, timeout_ms=1_500) is None)


@pytest.mark.behaviour(134)
def test_committed_waits_for_an_open_transaction(
    kafka: RealKafka, tp: TopicPartition, consumer: KafkaConsumer, group: str
) -> None:
    consumer.commit({tp: offset(1)})
    settings = {"bootstrap.servers": kafka.bootstrap(), "transactional.id": f"writer-{group}"}
    producer = confluent_kafka.Producer({**settings, "log_level": 0})
    producer.init_transactions(30)
    producer.begin_transaction()
    ours = confluent_kafka.Consumer(
        {"bootstrap.servers": kafka.bootstrap(), "group.id": group, "log_level": 0}
    )
    sent = [confluent_kafka.TopicPartition(tp.topic, tp.partition, 8)]
    producer.send_offsets_to_transaction(sent, ours.consumer_group_metadata(), 30)
    ours.close()
    with pytest.raises(KafkaTimeoutError, match="committed"):
        consumer.committed(tp, timeout_ms=500)
    assert kafka.admin.committed(group, tp.topic) == 1  # which does not
    producer.commit_transaction(30)
    assert consumer.committed(tp) == 8


@pytest.mark.behaviour(137)
def test_a_member_that_left_commits_explicit_offsets(
    kafka: RealKafka, topic: str, consume: Consume, group: str, tp: TopicPartition
) -> None:
    kafka.admin.produce(topic, [b"x"] * 3)
    consumer = consume(topic, group_id=group)
    read_all(consumer, 3)
    consumer.unsubscribe()
    consumer.commit()  # of nothing, which is no error
    assert consumer.committed(tp) is None
    consumer.commit({tp: offset(2)})
    assert consumer.committed(tp) == 2
    consumer.subscribe([topic])
    assert [record.offset for record in read_all(consumer, 1)] == [2]


@pytest.mark.every_version
def test_the_next_member_starts_at_the_commit(
    kafka: RealKafka, topic: str, consume: Consume, group: str
) -> None:
    kafka.admin.produce(topic, [b"%d" % n for n in range(10)])
    first = consume(topic, group_id=group)
    read_all(first, 6, max_records=6)
    first.commit()
    first.close()
    second = consume(topic, group_id=group)
    assert [record.offset for record in read_all(second, 4)] == [6, 7, 8, 9]


def test_close_commits_only_with_auto_commit(
    kafka: RealKafka, topic: str, consume: Consume, group: str, tp: TopicPartition
) -> None:
    kafka.admin.produce(topic, [b"x"] * 9)
    look = consume(group_id=group)
    for autocommit, committed in ((False, None), (True, 4)):
        consumer = consume(topic, group_id=group, enable_auto_commit=True)
        read_all(consumer, 4, max_records=4)
        consumer.close(autocommit=autocommit)
        assert look.committed(tp) == committed


def test_a_with_block_commits_only_without_an_exception(
    kafka: RealKafka, topic: str, consume: Consume, group: str, tp: TopicPartition
) -> None:
    kafka.admin.produce(topic, [b"x"] * 9)
    look = consume(group_id=group)
    with pytest.raises(ZeroDivisionError):
        fails_after_reading(consume(topic, group_id=group, enable_auto_commit=True))
    assert look.committed(tp) is None
    with consume(topic, group_id=group, enable_auto_commit=True) as consumer:
        read_all(consumer, 4, max_records=4)
    assert look.committed(tp) == 4


def fails_after_reading(consumer: KafkaConsumer) -> None:
    with consumer:
        read_all(consumer, 4, max_records=4)
        raise ZeroDivisionError
