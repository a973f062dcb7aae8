"""Assignors and patterns of the user: not on the network thread, even if slow."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

import pytest
from kafka.coordinator.assignors.range import RangePartitionAssignor

from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka.assignors import GroupMember, MemberAssignment, PartitionAssignor
from tandem_kafka_testing import Simulation
from tests.scenarios.numbered_records import create_topic, produce

#: Longer than the session: only members that keep sending heartbeats stay.
SLOW_MS = 50_000


class Watched(RangePartitionAssignor):
    """A classic assignor that records its calls and their threads."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.calls: list[str] = []

    def _note(self, what: str) -> None:
        assert not self.simulation.on_network_thread
        self.calls.append(what)

    def metadata(self, topics: Any) -> Any:  # type: ignore[override]
        self._note("metadata")
        return super().metadata(topics)

    def assign(self, cluster: Any, members: Any) -> Any:  # type: ignore[override]
        self._note("assign")
        return super().assign(cluster, members)

    def on_assignment(self, assignment: Any, generation: int) -> None:  # type: ignore[override]
        self._note("on_assignment")
        super().on_assignment(assignment, generation)


class Local(PartitionAssignor):
    """The same for client-side assignment; assigns everything to the first member."""

    name = "local"

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.calls: list[str] = []

    def _note(self, what: str) -> None:
        assert not self.simulation.on_network_thread
        self.calls.append(what)

    def metadata(self) -> bytes:
        self._note("metadata")
        return b"the same"

    def assign(
        self, members: Mapping[str, GroupMember], topics: Mapping[str, int]
    ) -> Mapping[str, Collection[TopicPartition]]:
        self._note("assign")
        everything = [TopicPartition(t, n) for t, count in topics.items() for n in range(count)]
        return {min(members): everything}

    def on_assignment(self, assignment: MemberAssignment) -> None:
        assert assignment.metadata == b""
        self._note("on_assignment")


def poll_until_assigned(consumer: KafkaConsumer, within_ms: int) -> None:
    until_ms = consumer._core.clock.now_ms() + within_ms
    while not consumer.assignment():
        assert consumer._core.clock.now_ms() < until_ms, "nothing is assigned"
        consumer.poll(1_000)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_assignors_run_on_no_network_thread(protocol: str, seed: int) -> None:
    with Simulation(f"{protocol} {seed}", trace_lines=None) as simulation:
        create_topic(simulation, "orders", 4)
        assignor: Any = Watched(simulation) if protocol == "classic" else Local(simulation)
        option = (
            "partition_assignment_strategy" if protocol == "classic" else "group_local_assignors"
        )
        consumer = simulation.consumer(
            "orders", group_id="readers", group_protocol=protocol, **{option: [assignor]}
        )
        poll_until_assigned(consumer, 20_000)
        assert {"metadata", "assign", "on_assignment"} <= set(assignor.calls)


@pytest.mark.parametrize("seed", range(5))
def test_a_leader_with_an_assignor_slower_than_its_session_succeeds(seed: int) -> None:
    with Simulation(f"slow {seed}", trace_lines=None) as simulation:
        create_topic(simulation, "orders", 4)
        options = {
            "group_id": "readers",
            "session_timeout_ms": 45_000,
            "max_poll_interval_ms": 10**6,
        }
        leader = simulation.consumer(
            "orders", partition_assignment_strategy=[Watched(simulation)], **options
        )
        simulation.drivers[0].offloaded_ms = (SLOW_MS, SLOW_MS)
        poll_until_assigned(leader, 4 * SLOW_MS)
        assert leader.group_metadata().generation_id == 1
        brokers = simulation.cluster.brokers.values()
        assert sum(b.requests.get("HeartbeatRequest", 0) for b in brokers) >= SLOW_MS // 3_000 - 1


def test_a_kip_848_member_sends_heartbeats_while_its_assignor_runs() -> None:
    with Simulation("slow", trace_lines=100_000) as simulation:
        create_topic(simulation, "orders", 4)
        local = Local(simulation)
        consumer = simulation.consumer(
            "orders", group_id="readers", group_protocol="consumer", group_local_assignors=[local]
        )
        poll_until_assigned(consumer, 20_000)
        generation = consumer.group_metadata().generation_id
        simulation.drivers[0].offloaded_ms = (SLOW_MS, SLOW_MS)
        simulation.cluster.add_partitions("orders", 6)
        for _ in range(3 * SLOW_MS // 1_000):
            consumer.poll(1_000)
        assert local.calls.count("assign") > 1
        assert consumer.group_metadata().generation_id >= generation
        assert len(consumer.assignment()) >= 4
        lines = [line for line in simulation.trace.lines if "GroupHeartbeat" in line]
        assert len(lines) > SLOW_MS // 1_000


@pytest.mark.parametrize("seed", range(5))
def test_a_slow_pattern_delays_nothing_else(seed: int) -> None:
    with Simulation(f"pattern {seed}", trace_lines=None) as simulation:
        create_topic(simulation, "orders-1", 1)
        consumer = simulation.consumer(
            group_id="readers", auto_offset_reset="earliest", metadata_max_age_ms=5_000
        )
        consumer.subscribe(pattern=re.compile("orders-.*"))
        poll_until_assigned(consumer, 20_000)
        simulation.drivers[0].offloaded_ms = (SLOW_MS, SLOW_MS)
        create_topic(simulation, "orders-2", 1)
        for _ in range(30):
            produce(simulation, TopicPartition("orders-1", 0), 1)
            assert consumer.poll(2_000).count == 1
            simulation.sleep(1_000)
        for _ in range(4 * SLOW_MS // 1_000):
            consumer.poll(1_000)
        assert consumer.subscription() == {"orders-1", "orders-2"}
