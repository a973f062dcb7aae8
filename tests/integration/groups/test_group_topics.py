"""Topics that are created, grow and are deleted under a subscription by pattern."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tandem_kafka import SubscriptionPattern
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.admin import Record
from tests.integration.group_members import Member, check_pairs, options_of, owned, settled
from tests.integration.polling import Consume
from tests.waiting import wait_until

#: The names are matched by the members, with their metadata, or by the coordinator.
WAYS = ["eager", "cooperative", "consumer", "consumer-by-coordinator"]


def produce(kafka: RealKafka, topic: str, partitions: int, what: bytes) -> set[bytes]:
    values = [b"%s %d %s" % (topic.encode(), number, what) for number in range(partitions)]
    kafka.admin.produce(topic, [Record(value, partition=n) for n, value in enumerate(values)])
    return set(values)


@pytest.mark.full("takes long on a real broker")
@pytest.mark.behaviour(46, 58)
@pytest.mark.parametrize("way", WAYS)
def test_a_group_follows_the_topics_of_its_pattern(
    kafka: RealKafka, consume: Consume, way: str
) -> None:
    base = f"follow-{uuid.uuid4().hex[:8]}"
    old = kafka.admin.create_topic(f"{base}-old", 2)
    by_coordinator = way == "consumer-by-coordinator"
    pattern: Any = SubscriptionPattern(f"{base}-.*") if by_coordinator else f"^{base}-.*"
    options = options_of("consumer" if by_coordinator else way)

    def join() -> Member:
        consumer = consume(group_id=base, metadata_max_age_ms=200, **options)
        return Member(consumer, (), pattern=pattern)

    members = [join(), join()]
    settled(members, 2)
    new = kafka.admin.create_topic(f"{base}-new", 4)
    settled(members, 6)
    kafka.admin.add_partitions(old, 4)
    settled(members, 8)
    sent = produce(kafka, old, 4, b"first") | produce(kafka, new, 4, b"first")
    wait_until(lambda: sent <= read(members), "everything read")
    # A commit for a deleted topic is retried until its timeout.
    wait_until(lambda: all(each.handled == len(each.records) for each in members), "the commits")
    kafka.admin.delete_topic(new)
    settled(members, 4)
    assert {tp.topic for member in members for tp in owned(member)} == {old}
    sent |= produce(kafka, old, 4, b"last")
    wait_until(lambda: sent <= read(members), "everything read")
    for member in members:
        member.stop()
        assert member.error is None
        check_pairs(member.listener)


def read(members: list[Member]) -> set[bytes]:
    for member in members:
        if member.error is not None:
            raise member.error
    return {value for member in members for value in member.values}
