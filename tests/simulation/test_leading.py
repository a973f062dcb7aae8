"""What the leader of a classic group watches for the whole group."""

from __future__ import annotations

from typing import Any

from kafka.coordinator.assignors.range import RangePartitionAssignor

from tandem_kafka import KafkaConsumer
from tandem_kafka.testing import Simulation
from tests.simulation.ledger import topic

OPTIONS: dict[str, Any] = {
    "group_id": "readers",
    "heartbeat_interval_ms": 500,
    "session_timeout_ms": 60_000,
    "metadata_max_age_ms": 2_000,
}


def until_held(member: KafkaConsumer, count: int, *others: KafkaConsumer) -> None:
    """Poll all until a member holds so many partitions, a minute at most."""
    for _ in range(300):
        for each in (member, *others):
            each.poll(200)
        if len(member.assignment()) == count:
            return
    raise AssertionError(f"{len(member.assignment())} partitions are held, not {count}")


def test_57_a_static_leader_that_was_restarted_follows_its_topics_and_assigns_nothing() -> None:
    led: list[int] = []

    class Counting(RangePartitionAssignor):  # type: ignore[misc]
        @classmethod
        def assign(cls, cluster: Any, members: Any) -> Any:
            led.append(len(members))
            return super().assign(cluster, members)

    options = {**OPTIONS, "partition_assignment_strategy": [Counting], "group_instance_id": "a"}
    with Simulation("restarted leader") as simulation:
        topic(simulation, "orders", 2)
        first = simulation.consumer("orders", **options)
        until_held(first, 2)
        first.close()
        led.clear()
        again = simulation.consumer("orders", **options)
        until_held(again, 2)
        assert not led, "the assignment stands"
        simulation.cluster.add_partitions("orders", 4)
        until_held(again, 4)
        assert led == [1]
