"""The cases of Java's tests; `tests/behaviours/java_share_tests.toml` has the list."""

from __future__ import annotations

import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tandem_kafka import KafkaConsumer, ShareConsumer, TopicPartition
from tandem_kafka.errors import (
    IllegalStateError,
    InvalidArgumentError,
    InvalidRecordStateError,
    WakeupError,
)
from tandem_kafka_testing.kafka.admin import Record
from tandem_kafka_testing.kafka.jars import chosen_version, release_of
from tests.integration.brokers import Cluster
from tests.integration.polling import read_all
from tests.integration.reading.test_transactions import Writer
from tests.integration.share.share_members import (
    Share,
    places,
    produce,
    quiet,
    take,
)
from tests.waiting import until

pytestmark = pytest.mark.both_clusters(everyday="simulated")

_HOUR_MS = 3_600_000

#: Configures the group of the test.
Configure = Callable[..., None]


@pytest.fixture
def configure(kafka: Cluster, group: str) -> Configure:
    def change(**settings: str) -> None:
        names = {name.replace("_", "."): value for name, value in settings.items()}
        kafka.admin.configure_group(group, names)

    return change


@pytest.fixture
def writer(kafka: Any, topic: str) -> Writer:
    return Writer(kafka, topic)


def new_group(kafka: Cluster, **settings: str) -> str:
    """Name another group and configure it."""
    name = f"others-{uuid.uuid4().hex[:8]}"
    if settings:
        names = {key.replace("_", "."): value for key, value in settings.items()}
        kafka.admin.configure_group(name, names)
    return name


def offsets(consumer: ShareConsumer, count: int) -> list[int]:
    return sorted(record.offset for record in take(consumer, count))


def values(consumer: ShareConsumer, count: int) -> list[bytes]:
    return [record.value for record in take(consumer, count)]


# --- subscriptions ------------------------------------------------------------------------------


@pytest.mark.every_version
def test_records_that_arrive_later(kafka: Cluster, topic: str, share: Share) -> None:
    consumer = share()
    assert quiet(consumer)
    for offset in range(3):
        produce(kafka, topic, 1)
        assert places(take(consumer, 1)) == [(offset, 1)]


def test_without_a_subscription_there_are_no_records(
    kafka: Cluster, topic: str, share: Share
) -> None:
    produce(kafka, topic, 1)
    consumer = share()
    consumer.subscribe([])
    assert consumer.subscription() == set()
    assert quiet(consumer)
    consumer.subscribe([topic])
    consumer.subscribe([topic])
    assert consumer.subscription() == {topic}
    assert places(take(consumer, 1)) == [(0, 1)]


def test_acknowledgements_are_stored_after_another_subscription(
    kafka: Cluster, topic: str, share: Share
) -> None:
    other = kafka.admin.new_topic("another")
    produce(kafka, topic, 1)
    produce(kafka, other, 1)
    consumer = share(acknowledgement="explicit")
    [first] = take(consumer, 1)
    consumer.subscribe([other])
    [second] = take(consumer, 1)
    assert [first.topic, second.topic] == [topic, other]
    first.accept()
    second.accept()
    assert consumer.commit() == {TopicPartition(topic, 0): None, TopicPartition(other, 0): None}
    assert quiet(share())


def test_a_topic_that_cannot_exist(share: Share) -> None:
    consumer = share()
    with pytest.raises(InvalidArgumentError, match='Topic name "topic abc" is illegal'):
        consumer.subscribe(["topic abc"])


def test_a_topic_is_created_after_the_subscription(kafka: Cluster, share: Share) -> None:
    consumer, topic = share(metadata_max_age_ms=500), f"later-{uuid.uuid4().hex[:8]}"
    consumer.subscribe([topic])
    assert quiet(consumer)
    kafka.admin.create_topic(topic)
    for offset in range(2):
        produce(kafka, topic, 1)
        assert places(take(consumer, 1)) == [(offset, 1)]


def test_a_topic_is_deleted(kafka: Cluster, topic: str, share: Share) -> None:
    deleted = kafka.admin.new_topic("deleted")
    consumer = share()
    consumer.subscribe([topic, deleted])
    for name in (topic, deleted):
        produce(kafka, name, 1)
        assert [record.topic for record in take(consumer, 1)] == [name]
    kafka.admin.delete_topic(deleted)
    for _ in range(2):
        produce(kafka, topic, 1)
        assert [record.topic for record in take(consumer, 1)] == [topic]


def test_wakeup_before_a_poll_keeps_the_records(kafka: Cluster, topic: str, share: Share) -> None:
    produce(kafka, topic, 1)
    consumer = share()
    consumer.wakeup()
    with pytest.raises(WakeupError):
        consumer.poll()
    assert places(take(consumer, 1)) == [(0, 1)]


# --- records ------------------------------------------------------------------------------------


class Deserializer:
    """Keeps what it was given, with the headers."""

    def deserialize(self, topic: str, headers: Any, data: bytes) -> tuple[str, Any, bytes]:
        return topic, [*headers], data


def test_the_parts_of_a_record(kafka: Cluster, topic: str, share: Share) -> None:
    headers = [("b", b"1"), ("a", None), ("b", b"2")]
    kafka.admin.produce(topic, [Record(b"value", b"key", 0, 1_700_000_000_123, headers)])
    [record] = take(share(value_deserializer=Deserializer()), 1)
    assert (record.key, record.value) == (b"key", (topic, headers, b"value"))
    assert [*record.headers] == headers
    assert (record.timestamp, record.timestamp_type) == (1_700_000_000_123, 0)
    assert (record.serialized_key_size, record.serialized_value_size) == (3, 5)


def test_a_record_that_is_larger_than_a_fetch(kafka: Cluster, topic: str, share: Share) -> None:
    kafka.admin.produce(topic, [b"small", b"0" * 10_000])
    assert offsets(share(fetch_max_bytes=1), 2) == [0, 1]


def test_few_records_in_a_call(kafka: Cluster, topic: str, share: Share) -> None:
    records = [Record(b"%d" % n, b"key %d" % n, 0, 1_700_000_000_000 + n) for n in range(100)]
    kafka.admin.produce(topic, records)
    consumer, seen = share(max_poll_records=2), []

    for _ in until(lambda: len(seen) >= 100):
        for batch in consumer.poll(500).values():
            assert len(batch) <= 2
            seen.extend(batch)
    assert [(each.offset, each.key, each.value, each.timestamp) for each in seen] == [
        (number, record.key, record.value, record.timestamp_ms)
        for number, record in enumerate(records)
    ]


def test_one_record_at_a_time(kafka: Cluster, topic: str, share: Share) -> None:
    produce(kafka, topic, 5)
    consumer = share(acknowledgement="explicit", max_poll_records=1)
    for offset in range(5):
        [record] = take(consumer, 1)
        assert (record.offset, record.delivery_count) == (offset, 1)
        record.accept()
        assert consumer.commit() == {TopicPartition(topic, 0): None}
    assert quiet(share())


# --- acknowledgements ---------------------------------------------------------------------------


@pytest.mark.every_version
def test_acknowledgements_are_stored_without_commit(
    kafka: Cluster, topic: str, share: Share
) -> None:
    produce(kafka, topic, 3)
    first, second, third = take(share(acknowledgement="explicit"), 3)
    first.accept()
    second.reject()
    third.release()
    other = share()
    assert places(take(other, 1)) == [(2, 2)]
    assert quiet(other)


def test_unacknowledged_records_stop_nothing(kafka: Cluster, topic: str, share: Share) -> None:
    produce(kafka, topic, 3)
    consumer = share(acknowledgement="explicit")
    first, second, third = take(consumer, 3)
    first.accept()
    second.accept()
    produce(kafka, topic, 1)
    [fourth] = take(consumer, 1)
    assert (fourth.offset, third.offset) == (3, 2)
    third.accept()
    fourth.accept()
    assert consumer.commit() == {TopicPartition(topic, 0): None}
    assert quiet(share())


def test_an_acknowledgement_is_final(kafka: Cluster, topic: str, share: Share) -> None:
    produce(kafka, topic, 2)
    consumer = share(acknowledgement="explicit")
    first, second = take(consumer, 2)
    first.release()
    second.reject()
    assert consumer.commit() == {TopicPartition(topic, 0): None}
    for call in (first.accept, second.renew):
        with pytest.raises(IllegalStateError, match="acknowledged before"):
            call()
    assert places(take(consumer, 1)) == [(0, 2)]


def test_an_accepted_record_is_not_acknowledged_again(
    kafka: Cluster, topic: str, share: Share
) -> None:
    produce(kafka, topic, 1)
    consumer = share()
    [record] = take(consumer, 1)
    assert quiet(consumer)
    with pytest.raises(IllegalStateError, match="acknowledged before"):
        record.release()
    assert quiet(share())


@pytest.mark.every_version
def test_renewed_records_stay_with_the_application(
    kafka: Cluster, topic: str, share: Share
) -> None:
    produce(kafka, topic, 10)
    consumer, other = share(acknowledgement="explicit"), share()
    records = take(consumer, 10)
    before = [record.lock_deadline_ms for record in records]
    for record in records:
        if record.offset % 2:
            record.renew()
        else:
            record.accept()
    for _ in until(
        lambda: all(each.lock_deadline_ms > before[each.offset] for each in records[1::2])
    ):
        quiet(other)
    for record in records[1::2]:
        record.accept()
    assert consumer.commit() == {TopicPartition(topic, 0): None}
    assert quiet(other)
    assert quiet(consumer)


def test_a_group_without_renewals(
    kafka: Cluster, topic: str, share: Share, configure: Configure, caplog: pytest.LogCaptureFixture
) -> None:
    configure(share_renew_acknowledge_enable="false")
    produce(kafka, topic, 1)
    consumer = share(acknowledgement="explicit")
    [record] = take(consumer, 1)
    before = record.lock_deadline_ms
    record.renew()
    outcome = consumer.commit()[TopicPartition(topic, 0)]
    assert isinstance(outcome, InvalidRecordStateError)
    assert f"locks of {topic}-0 were not renewed" in caplog.text
    assert record.lock_deadline_ms <= before + 1, "clocks are rounded"
    assert places(take(share(), 1)) == [(0, 2)]


# --- deliveries ---------------------------------------------------------------------------------


def test_each_record_is_delivered_until_its_limit(
    kafka: Cluster, topic: str, share: Share, configure: Configure
) -> None:
    configure(share_delivery_count_limit="3")
    produce(kafka, topic, 40)
    consumer, seen = share(acknowledgement="explicit"), Counter[tuple[int, int]]()

    for _ in until(lambda: seen.total() == 120):
        for batch in consumer.poll(500).values():
            for record in batch:
                seen[record.offset, record.delivery_count] += 1
                record.release()
    assert seen == Counter((offset, count) for offset in range(40) for count in (1, 2, 3))
    assert quiet(consumer)


def test_closing_counts_as_a_delivery(kafka: Cluster, topic: str, share: Share) -> None:
    produce(kafka, topic, 2)
    with share(acknowledgement="explicit") as consumer:
        first, _ = take(consumer, 2)
        first.release()
        assert consumer.commit() == {TopicPartition(topic, 0): None}
    assert places(take(share(), 2)) == [(0, 2), (1, 2)]


# --- where a group begins -----------------------------------------------------------------------


def test_a_group_begins_with_the_first_record_that_is_not_deleted(
    kafka: Cluster, topic: str, share: Share
) -> None:
    produce(kafka, topic, 10)
    kafka.admin.delete_records(topic, {0: 5})
    consumer = share()
    assert offsets(consumer, 5) == [5, 6, 7, 8, 9]
    produce(kafka, topic, 5)
    assert offsets(consumer, 5) == [10, 11, 12, 13, 14]
    kafka.admin.delete_records(topic, {0: 15})
    assert quiet(consumer)


def test_a_group_begins_at_a_time(kafka: Cluster, topic: str, share: Share) -> None:
    now_ms = int(time.time() * 1_000)
    ages = (2 * _HOUR_MS, _HOUR_MS // 2, 0)
    for age in ages:  # each has a batch of its own
        kafka.admin.produce(topic, [Record(b"%d" % age, timestamp_ms=now_ms - age)])
    for reset, first in (("by_duration:PT1H", 1), ("by_duration:PT3H", 0)):
        consumer = share(group_id=new_group(kafka, share_auto_offset_reset=reset))
        assert offsets(consumer, 3 - first) == [*range(first, 3)]


def test_groups_do_not_share(kafka: Cluster, topic: str, share: Share) -> None:
    """Two members of each group read at the same time; the last group begins at the end."""
    produce(kafka, topic, 500)
    latest = share(group_id=new_group(kafka))
    earliest = [new_group(kafka, share_auto_offset_reset="earliest") for _ in range(2)]
    seen = {name: Counter[int]() for name in earliest}

    def read(name: str, consumer: ShareConsumer) -> None:
        for _ in until(lambda: seen[name].total() >= 500):
            for batch in consumer.poll(200).values():
                seen[name].update(record.offset for record in batch)

    threads = [
        threading.Thread(target=read, args=[name, share(group_id=name)])
        for name in earliest
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(counts == Counter(range(500)) for counts in seen.values())
    first: list[Any] = []

    # It has no place in the topic before a broker has seen its first fetch.
    for _ in until(lambda: first):
        produce(kafka, topic, 1)
        first.extend(record for batch in latest.poll(500).values() for record in batch)
    assert first[0].offset >= 500


# --- several members ----------------------------------------------------------------------------


def test_members_poll_in_turn(kafka: Cluster, topic: str, share: Share) -> None:
    produce(kafka, topic, 1_000)
    members, seen = [share(), share()], Counter[int]()

    for _ in until(lambda: seen.total() >= 1_000):
        for member in members:
            for batch in member.poll(100).values():
                seen.update(record.offset for record in batch)
    assert seen == Counter(range(1_000))


def test_a_member_that_ends_keeps_nothing(kafka: Cluster, topic: str, share: Share) -> None:
    """One after an exception, which releases what it had; one without, which accepts it."""
    produce(kafka, topic, 600)

    def failing() -> None:
        with share() as consumer:
            failed.extend(take(consumer, 1))
            raise ZeroDivisionError

    failed: list[Any] = []
    with pytest.raises(ZeroDivisionError):
        failing()
    with share() as consumer:
        done = take(consumer, 1)
    rest = take(share(), 600 - len(done))
    assert sorted(each.offset for each in (*done, *rest)) == [*range(600)]
    again = {each.offset: each.delivery_count for each in (*done, *rest)}
    assert all(again[each.offset] == 2 for each in failed)


# --- transactions -------------------------------------------------------------------------------


@pytest.fixture
def transactions(writer: Writer) -> Callable[[str], None]:
    """Writes a transaction for each letter: a capital one is committed, another one aborted."""

    def write(letters: str) -> None:
        for letter in letters:
            with writer.transaction(aborted=letter.islower()):
                writer.write(letter.encode())

    return write


@pytest.mark.every_version
@pytest.mark.parametrize(
    ("level", "seen"), [("read_committed", "ABDE"), ("read_uncommitted", "ABcDEf")]
)
def test_the_group_decides_on_aborted_records(
    share: Share, configure: Configure, transactions: Callable[[str], None], level: str, seen: str
) -> None:
    configure(share_isolation_level=level)
    transactions("ABcDEf")
    consumer = share()
    assert b"".join(values(consumer, len(seen))) == seen.encode()
    assert quiet(consumer), "a marker is no record"


def test_released_records_of_aborted_transactions_are_hidden_from_now_on(
    share: Share, configure: Configure, transactions: Callable[[str], None]
) -> None:
    configure(share_isolation_level="read_uncommitted")
    consumer = share(acknowledgement="explicit")
    transactions("Ab")
    for record in take(consumer, 2):
        record.release()
    consumer.commit()
    configure(share_isolation_level="read_committed")
    transactions("CdeF")
    found = take(consumer, 3)
    assert sorted(record.value for record in found) == [b"A", b"C", b"F"]
    assert quiet(consumer)


@pytest.mark.parametrize("how", ["release", "reject"])
def test_records_of_aborted_transactions_are_seen_from_now_on(
    share: Share, configure: Configure, transactions: Callable[[str], None], how: str
) -> None:
    configure(share_isolation_level="read_committed")
    consumer = share(acknowledgement="explicit")
    transactions("Ab")
    [record] = take(consumer, 1)
    getattr(record, how)()
    consumer.commit()
    configure(share_isolation_level="read_uncommitted")
    transactions("CdeF")
    expected = sorted(b"CdeF" + (b"A" if how == "release" else b""))
    found: list[Any] = []

    for _ in until(lambda: len(found) >= len(expected)):
        for batch in consumer.poll(500).values():
            for each in batch:
                each.accept()
                found.append(each.value)
    assert sorted(b"".join(found)) == expected
    assert consumer.commit() in ({}, {TopicPartition(record.topic, 0): None})
    assert quiet(consumer)


# --- dead letters -------------------------------------------------------------------------------


@pytest.mark.every_version
@pytest.mark.real_cluster("it writes dead letters")
@pytest.mark.skipif(release_of(chosen_version()) < (4, 4), reason="KIP-1191 needs Kafka 4.4")
def test_brokers_write_dead_letters(
    kafka: Cluster, topic: str, share: Share, configure: Configure
) -> None:
    """Of rejected records, and of those that were delivered often enough."""
    letters = f"dlq.{topic}"
    kafka.admin.create_topic(letters, config={"errors.deadletterqueue.group.enable": "true"})
    configure(
        errors_deadletterqueue_topic_name=letters,
        errors_deadletterqueue_copy_record_enable="true",
        share_delivery_count_limit="2",
    )
    produce(kafka, topic, 3)
    consumer = share(acknowledgement="explicit")
    for _ in range(4):
        record = next(consumer)
        (record.accept, record.reject, record.release)[record.offset]()
    consumer.commit()
    with KafkaConsumer(
        letters, auto_offset_reset="earliest", bootstrap_servers=kafka.bootstrap()
    ) as reader:
        found = read_all(reader, 2)
    wanted = [(b"1", b"1", b"1"), (b"2", b"2", b"2")]
    headers = [dict(each.headers) for each in found]
    assert wanted == [
        (each.value, of["__dlq.errors.offset"], of["__dlq.errors.delivery.count"])
        for each, of in zip(found, headers, strict=True)
    ]
