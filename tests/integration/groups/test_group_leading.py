"""What the leader of a classic group watches for the whole group."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from kafka.coordinator.assignors.range import RangePartitionAssignor

from tandem_kafka import KafkaConsumer
from tandem_kafka_testing.kafka import RealKafka
from tests.integration.groups.group_scenes import World
from tests.integration.polling import Clock, Consume, assigned, partitions_of, poll_until

OPTIONS: dict[str, Any] = {
    "heartbeat_interval_ms": 300,
    "session_timeout_ms": 30_000,
    "metadata_max_age_ms": 300,
}


@pytest.mark.behaviour(57)
def test_a_restarted_static_leader_watches_its_topics_and_assigns_nothing(
    world: World,
) -> None:
    led: list[int] = []

    class Counting(RangePartitionAssignor):  # type: ignore[misc]
        @classmethod
        def assign(cls, cluster: Any, members: Any) -> Any:
            led.append(len(members))
            return super().assign(cluster, members)

    partitions = world.topic(2)
    options = {**OPTIONS, "group_instance_id": "a", "partition_assignment_strategy": [Counting]}

    def start() -> KafkaConsumer:
        consumer = world.consumer(**options)
        consumer.subscribe([partitions[0].topic])
        world.settle(partitions, consumer)
        return consumer

    start().close()
    led.clear()
    again = start()
    assert not led, "the assignment stands"
    world.brokers.add_partitions(partitions[0].topic, 4)
    world.poll_until(lambda: len(again.assignment()) == 4, again)
    assert set(led) == {1}
    again.close(leave_group="leave")


@pytest.mark.behaviour(57)
def test_the_leader_watches_topics_that_only_other_members_subscribe_to(
    kafka: RealKafka, consume: Consume
) -> None:
    base = f"others-{uuid.uuid4().hex[:8]}"
    own = kafka.admin.create_topic(f"{base}-own", 2)
    others = kafka.admin.create_topic(f"{base}-others", 2)
    options = {**OPTIONS, "group_id": base, "session_timeout_ms": 6_000}
    leader, other = consume(own, **options), consume(others, **options)
    assigned(leader, partitions_of(own, 2))
    clock = Clock()

    def both_hold(count: int) -> bool:
        other.poll(50)
        return len(other.assignment()) == count and len(leader.assignment()) == 2

    poll_until(leader, lambda: both_hold(2))
    clock.start()  # more than one refresh of the metadata
    poll_until(leader, lambda: both_hold(2) and clock.seconds > 1.5)
    kafka.admin.add_partitions(others, 4)
    poll_until(leader, lambda: both_hold(4))
