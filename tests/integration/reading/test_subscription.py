"""Subscriptions by name and pattern follow topics that are created, grow and are deleted."""

from __future__ import annotations

import re

import pytest
from confluent_kafka import KafkaError, KafkaException

from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka.errors import InvalidTopicError
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.admin import Record
from tests.integration.polling import (
    Consume,
    Listener,
    assigned,
    partitions_of,
    poll_until,
    read_all,
    when_blocked,
)
from tests.waiting import wait_until

pytestmark = pytest.mark.both_clusters

#: The metadata refresh interval, short enough to see new topics soon.
SOON = {"metadata_max_age_ms": 100}


@pytest.fixture
def group(topic: str) -> str:
    return f"group-of-{topic}"


def members(kafka: RealKafka, group: str) -> int:
    groups = kafka.admin.client.list_consumer_groups().result(20).valid
    if group not in {each.group_id for each in groups}:
        return 0
    return len(kafka.admin.client.describe_consumer_groups([group])[group].result(20).members)


@pytest.mark.behaviour(43)
def test_subscribe_sends_nothing_the_first_poll_joins(
    kafka: RealKafka, topic: str, consume: Consume, group: str
) -> None:
    consumer = consume(group_id=group)
    consumer.subscribe([topic])
    consumer.topics()  # the network thread has had its turn since
    assert consumer.group_metadata().member_id == ""
    assert members(kafka, group) == 0
    poll_until(consumer, consumer.assignment)
    assert consumer.group_metadata().member_id != ""
    assert members(kafka, group) == 1


@pytest.mark.behaviour(44)
def test_expanding_the_subscription(
    kafka: RealKafka, topic: str, consume: Consume, group: str
) -> None:
    other = kafka.admin.create_topic(f"{topic}-other", 2)
    listener = Listener()
    consumer = consume(group_id=group)
    consumer.subscribe([topic], listener=listener)
    old, new = partitions_of(topic, 1), partitions_of(other, 2)
    assigned(consumer, old)
    consumer.subscribe([topic, other], listener=listener)
    assert consumer.subscription() == {topic, other}
    assert consumer.assignment() == set(old)  # nothing changes outside of poll()
    assigned(consumer, old + new)
    # The eager protocol revokes everything before it assigns anything.
    assert listener.calls == [
        ("assigned", set(old)),
        ("revoked", set(old)),
        ("assigned", {*old, *new}),
    ]


@pytest.mark.behaviour(44)
def test_an_expanded_subscription_keeps_its_positions(
    kafka: RealKafka, topic: str, consume: Consume, group: str
) -> None:
    other = kafka.admin.create_topic(f"{topic}-other")
    kafka.admin.produce(topic, [b"%d" % n for n in range(10)])
    kafka.admin.produce(other, [b"other"])
    consumer = consume(topic, group_id=group, enable_auto_commit=True)
    first = read_all(consumer, 4, max_records=4)
    consumer.subscribe([topic, other])
    rest = read_all(consumer, 7)
    offsets = [record.offset for record in first + rest if record.topic == topic]
    assert offsets == list(range(10))


@pytest.mark.behaviour(45)
def test_shrinking_the_subscription_stops_records_at_once(
    kafka: RealKafka, topic: str, consume: Consume, group: str
) -> None:
    other = kafka.admin.create_topic(f"{topic}-other")
    kafka.admin.produce(topic, [b"x"] * 10)
    kafka.admin.produce(other, [b"y"] * 10)
    consumer = consume(topic, other, group_id=group, enable_auto_commit=True)
    seen = {record.topic for record in read_all(consumer, 20)}
    assert seen == {topic, other}
    kafka.admin.produce(topic, [b"x"] * 10)
    kafka.admin.produce(other, [b"y"] * 10)
    consumer.subscribe([topic])
    assert {record.topic for record in read_all(consumer, 10)} == {topic}
    assigned(consumer, partitions_of(topic, 1))


@pytest.mark.behaviour(45)
def test_buffered_records_of_a_removed_topic_are_not_returned(
    kafka: RealKafka, topic: str, consume: Consume, group: str
) -> None:
    other = kafka.admin.create_topic(f"{topic}-other")
    kafka.admin.produce(other, [b"y"] * 10)
    consumer = consume(topic, other, group_id=group)
    read_all(consumer, 1, max_records=1)  # nine wait on this side of the network
    consumer.subscribe([topic])
    assert poll_until(consumer, lambda: len(consumer.assignment()) == 1) == []
    assert consumer.poll(0) == {}


@pytest.mark.behaviour(46)
def test_a_pattern_matches_existing_and_later_topics(
    kafka: RealKafka, topic: str, consume: Consume, group: str
) -> None:
    consumer = consume(group_id=group, **SOON)
    consumer.subscribe(pattern=f"^{topic}-(one|two)$")
    one = kafka.admin.create_topic(f"{topic}-one")
    assigned(consumer, partitions_of(one, 1))
    two = kafka.admin.create_topic(f"{topic}-two", 2)
    kafka.admin.create_topic(f"{topic}-three")
    assigned(consumer, partitions_of(one, 1) + partitions_of(two, 2))
    assert consumer.subscription() == {one, two}
    kafka.admin.produce(two, [b"x"])
    assert read_all(consumer, 1)[0].topic == two
    kafka.admin.delete_topic(one)
    # Records without a commit may be read again.
    poll_until(consumer, lambda: consumer.assignment() == set(partitions_of(two, 2)))


@pytest.mark.behaviour(46)
def test_a_pattern_matches_from_the_beginning_as_re_match_does(
    kafka: RealKafka, topic: str, consume: Consume, group: str
) -> None:
    kafka.admin.create_topic(f"not-{topic}")
    longer = kafka.admin.create_topic(f"{topic}-longer")
    consumer = consume(group_id=group)
    consumer.subscribe(pattern=re.compile(re.escape(topic)))
    assigned(consumer, partitions_of(topic, 1) + partitions_of(longer, 1))


@pytest.mark.behaviour(47)
def test_a_second_pattern_replaces_the_first(
    kafka: RealKafka, topic: str, consume: Consume, group: str
) -> None:
    other = kafka.admin.create_topic(f"other-{topic}")
    consumer = consume(group_id=group)
    consumer.subscribe(pattern=f"^{topic}$")
    assigned(consumer, partitions_of(topic, 1))
    consumer.subscribe(pattern=f"^other-{topic}$")
    assigned(consumer, partitions_of(other, 1))
    assert consumer.subscription() == {other}


@pytest.mark.real_cluster("the simulated one has no topic of its own")
@pytest.mark.behaviour(48)
def test_internal_topics_need_their_name_or_the_option(
    topic: str, consume: Consume, group: str
) -> None:
    internal = "__consumer_offsets"
    consume(group_id=group).commit()
    consume(group_id=group).committed(TopicPartition(topic, 0))  # makes the broker create it
    pattern = f"^({internal}|{topic})$"
    hidden = consume(group_id=f"{group}-1")
    hidden.subscribe(pattern=pattern)
    assigned(hidden, partitions_of(topic, 1))
    shown = consume(group_id=f"{group}-2", exclude_internal_topics=False)
    shown.subscribe(pattern=pattern)
    everything = set(partitions_of(topic, 1) + partitions_of(internal, 4))
    poll_until(shown, lambda: shown.assignment() == everything)
    named = consume(internal, group_id=f"{group}-3")
    poll_until(named, lambda: named.assignment() == set(partitions_of(internal, 4)))
    assert internal not in named.topics()


@pytest.mark.behaviour(49)
def test_a_member_whose_pattern_matches_nothing_still_joins(
    kafka: RealKafka, topic: str, consume: Consume, group: str
) -> None:
    consumer = consume(group_id=group, **SOON)
    consumer.subscribe(pattern=f"^later-{topic}$")
    poll_until(consumer, lambda: consumer.group_metadata().generation_id > 0)
    assert members(kafka, group) == 1
    assert consumer.assignment() == set()
    assert consumer.subscription() == set()
    later = kafka.admin.create_topic(f"later-{topic}")
    assigned(consumer, partitions_of(later, 1))


@pytest.mark.behaviour(54)
def test_an_invalid_topic_raises_and_unsubscribe_and_close_work(
    kafka: RealKafka, topic: str, consume: Consume, group: str
) -> None:
    """By subscribe() at once, as kafka-python does."""
    consumer = consume(group_id=group)
    with pytest.raises(ValueError, match='"a b" is illegal'):
        consumer.subscribe(["a b"])
    consumer.assign([TopicPartition("a b", 0)])
    with pytest.raises(InvalidTopicError, match=r"rejects the topic names \['a b'\]"):
        consumer.poll(20_000)
    consumer.unsubscribe()
    consumer.subscribe([topic])
    kafka.admin.produce(topic, [b"fine"])
    assert [record.value for record in read_all(consumer, 1)] == [b"fine"]
    consumer.unsubscribe()
    consumer.assign([TopicPartition("a b", 0)])
    with pytest.raises(InvalidTopicError):
        consumer.poll(20_000)
    consumer.close()


@pytest.mark.usefixtures("kafka")
@pytest.mark.behaviour(54)
def test_the_lookup_of_an_invalid_topic_has_no_partitions(
    consume: Consume, caplog: pytest.LogCaptureFixture
) -> None:
    assert consume().partitions_for_topic("a b") == set()
    assert "partitions_for_topic('a b') returns no partitions: " in caplog.text


@pytest.mark.behaviour(55)
@pytest.mark.parametrize("way", ["subscribe", "assign"])
def test_a_topic_created_after_subscribe_is_read(
    kafka: RealKafka, topic: str, consume: Consume, group: str, way: str
) -> None:
    later = f"later-{topic}"
    consumer = consume(group_id=group)
    if way == "subscribe":
        consumer.subscribe([later])
    else:
        consumer.assign(partitions_of(later, 1))

    def create() -> None:
        kafka.admin.create_topic(later)
        kafka.admin.produce(later, [b"at last"])

    with when_blocked(consumer, create):
        assert [record.value for record in read_all(consumer, 1)] == [b"at last"]


@pytest.mark.behaviour(57)
def test_new_partitions_are_assigned(
    kafka: RealKafka, topic: str, consume: Consume, group: str
) -> None:
    consumer = consume(topic, group_id=group, **SOON)
    assigned(consumer, partitions_of(topic, 1))
    kafka.admin.add_partitions(topic, 3)
    assigned(consumer, partitions_of(topic, 3))
    kafka.admin.produce(topic, [Record(b"x", partition=2)])
    assert read_all(consumer, 1)[0].partition == 2


@pytest.mark.behaviour(58)
@pytest.mark.parametrize("auto_commit", [True, False])
def test_a_deleted_topic_is_revoked_and_the_other_is_read(
    kafka: RealKafka, topic: str, consume: Consume, group: str, auto_commit: bool
) -> None:
    """Also 127: the commit before the rebalance does not insist on the deleted topic."""
    killed = kafka.admin.create_topic(f"doomed-{topic}")
    consumer = consume(topic, killed, group_id=group, enable_auto_commit=auto_commit, **SOON)
    for name in (topic, killed):
        kafka.admin.produce(name, [b"1", b"2"])
    read_all(consumer, 4)
    kafka.admin.delete_topic(killed)
    records = poll_until(consumer, lambda: consumer.assignment() == set(partitions_of(topic, 1)))
    kafka.admin.produce(topic, [b"3"])
    left = [b"3"] if auto_commit else [b"1", b"2", b"3"]
    records += read_all(consumer, len(left) - len(records))
    assert [record.value for record in records] == left


@pytest.mark.behaviour(58)
def test_a_deleted_and_recreated_topic_is_read_again(
    kafka: RealKafka, topic: str, consume: Consume
) -> None:
    consumer = consume(**SOON)
    consumer.assign(partitions_of(topic, 1))
    kafka.admin.produce(topic, [b"old"] * 5)
    read_all(consumer, 5)
    kafka.admin.delete_topic(topic)
    recreate(kafka, topic)
    kafka.admin.produce(topic, [b"new"])
    assert [record.value for record in read_all(consumer, 1)] == [b"new"]


def recreate(kafka: RealKafka, topic: str) -> None:
    """Create a topic as soon as the broker has forgotten the old one of that name."""
    for _ in range(200):
        try:
            kafka.admin.create_topic(topic)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
        else:
            return
    raise AssertionError(f"{topic} does not go away")


def test_unsubscribe_drops_an_assignment_in_flight(
    kafka: RealKafka, topic: str, consume: Consume, group: str
) -> None:
    consumer = consume(group_id=group)
    listener = Listener()
    consumer.subscribe([topic], listener=listener)
    consumer.poll(0)
    wait_until(lambda: len(consumer._core.engine.background) > 0, "the assignment")
    consumer.unsubscribe()
    other = kafka.admin.create_topic(f"other-{topic}")
    kafka.admin.produce(other, [b"x"])
    consumer.assign(partitions_of(other, 1))
    assert len(read_all(consumer, 1)) == 1
    assert listener.calls == []


def test_unsubscribe_leaves_the_group_and_subscribe_joins_again(
    kafka: RealKafka, topic: str, consume: Consume, group: str
) -> None:
    consumer: KafkaConsumer = consume(topic, group_id=group)
    assigned(consumer, partitions_of(topic, 1))
    consumer.unsubscribe()
    assert (consumer.assignment(), consumer.subscription()) == (set(), None)
    assert members(kafka, group) == 0
    consumer.subscribe([topic])
    assigned(consumer, partitions_of(topic, 1))
    assert members(kafka, group) == 1
