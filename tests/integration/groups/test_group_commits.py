"""Commits while a classic group is being shared out."""

from __future__ import annotations

import pytest
from confluent_kafka import ConsumerGroupState

from tandem_kafka import OffsetAndMetadata, TopicPartition
from tandem_kafka_testing.kafka import RealKafka
from tests.integration.group_members import Member, options_of, settled
from tests.integration.polling import Consume, poll_until


def _joining(kafka: RealKafka, group: str) -> bool:
    described = kafka.admin.client.describe_consumer_groups([group])
    state = described[group].result(10).state
    return bool(state == ConsumerGroupState.PREPARING_REBALANCING)


@pytest.mark.partitions(2)
def test_a_commit_does_not_wait_for_a_rebalance_that_another_member_delays(
    kafka: RealKafka, topic: str, consume: Consume
) -> None:
    group = f"group-{topic}"
    kafka.admin.produce(topic, [b"one"])
    idle, busy = (Member(consume(group_id=group, **options_of("eager")), [topic]) for _ in range(2))
    settled([idle, busy], 2)
    for member in (idle, busy):
        member.stall()
    # A member revokes its partitions inside poll() before it rejoins; only one polls.
    idle.consumer.enforce_rebalance("a member joins")
    poll_until(idle.consumer, lambda: _joining(kafka, group))
    mine = {TopicPartition(topic, 0): OffsetAndMetadata(1, "", -1)}
    idle.consumer.commit(mine, timeout_ms=10_000)
    assert _joining(kafka, group)
    assert kafka.admin.committed(group, topic) == 1
