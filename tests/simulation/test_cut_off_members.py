"""A member that was cut off for longer than its session returns no records of other members."""

from __future__ import annotations

from typing import Any

import pytest

from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka_testing import Simulation
from tests.scenarios.numbered_records import create_topic, produce
from tests.tier import sample

PARTITIONS = [TopicPartition("orders", number) for number in range(4)]


class Pair:
    """Two members; records arrive all the time, and each notes what it has returned."""

    def __init__(self, simulation: Simulation, **options: Any) -> None:
        self.simulation = simulation
        create_topic(simulation, "orders", len(PARTITIONS))
        self.members = [
            simulation.consumer(
                "orders",
                group_id="readers",
                group_protocol="consumer",
                auto_offset_reset="earliest",
                auto_commit_interval_ms=1_000,
                **options,
            )
            for _ in range(2)
        ]
        self.read: dict[tuple[TopicPartition, int], list[KafkaConsumer]] = {}
        while not all(len(each.assignment()) == 2 for each in self.members):
            self.step()

    def step(self, *, produced: int = 5) -> None:
        for tp in PARTITIONS:
            produce(self.simulation, tp, produced)
        for member in self.members:
            for tp, records in member.poll(50).items():
                for record in records:
                    self.read.setdefault((tp, record.offset), []).append(member)
        self.simulation.sleep(100)

    def run(self, duration_ms: int) -> None:
        until_ms = self.simulation.clock.now_ms() + duration_ms
        while self.simulation.clock.now_ms() < until_ms:
            self.step()

    def cut_off(self) -> None:
        transport = self.members[0]._core.engine.transport
        for broker in self.simulation.cluster.brokers.values():
            self.simulation.network.partitions.add((transport, broker.address))

    def cut_off_only_from_coordinator(self) -> None:
        coordinator = self.members[1]._core.engine.group.coordinator
        assert coordinator is not None
        address = self.simulation.cluster.brokers[coordinator.node_id].address
        self.simulation.network.partitions.clear()
        self.simulation.network.partitions.add((self.members[0]._core.engine.transport, address))

    def read_by_first(self) -> int:
        return sum(self.members[0] in by for by in self.read.values())

    def repeated(self) -> int:
        """Return how many records the first member has returned after the other one had."""
        first, second = self.members
        return sum(second in by and by[-1] is first for by in self.read.values())


@pytest.mark.parametrize("seed", sample(range(1, 4), 1))
def test_a_member_that_was_fenced_meanwhile_repeats_nothing(seed: int) -> None:
    with Simulation(f"cut off {seed}", brokers=3, trace_lines=400) as simulation:
        pair = Pair(simulation)
        pair.run(5_000)
        pair.cut_off()
        pair.run(75_000)
        assert len(pair.members[1].assignment()) == 4
        simulation.network.partitions.clear()
        pair.run(20_000)
        assert all(len(each.assignment()) == 2 for each in pair.members)
        assert pair.repeated() == 0


@pytest.mark.parametrize("seed", sample(range(1, 6), 1))
def test_reading_goes_on_without_the_coordinator(seed: int) -> None:
    """Not at once: the response to a heartbeat may be on its way."""
    with Simulation(f"hold {seed}", brokers=3, trace_lines=400) as simulation:
        pair = Pair(simulation)
        pair.run(5_000)
        pair.cut_off()
        pair.run(75_000)
        pair.cut_off_only_from_coordinator()
        engine, clock = pair.members[0]._core.engine, simulation.clock
        leaders = {state.leader_id for state in engine.subscription.assigned.values()}
        read, latest_ms = pair.read_by_first(), clock.now_ms() + 30_000
        while leaders <= engine.metadata.unreachable and clock.now_ms() < latest_ms:
            pair.step()
        reached_ms = clock.now_ms()
        while pair.read_by_first() == read and clock.now_ms() < latest_ms:
            pair.step()
        assert clock.now_ms() < latest_ms
        assert clock.now_ms() - reached_ms > 4_500


@pytest.mark.parametrize("seed", sample([1, 7, 8, 11], 1))
def test_a_full_buffer_does_not_hold_records_back_for_ever(seed: int) -> None:
    """No fetch finds out that a leader can be reached again: there is no room for its records."""
    full = {"fetch_buffer_max_bytes": 20_000, "max_partition_fetch_bytes": 10_000}
    with Simulation(f"full {seed}", brokers=3, trace_lines=400) as simulation:
        pair = Pair(simulation, max_poll_records=1, **full)
        for tp in PARTITIONS:
            produce(simulation, tp, 3_000)
        pair.run(5_000)
        pair.cut_off()
        pair.run(75_000)
        pair.cut_off_only_from_coordinator()
        read, latest_ms = pair.read_by_first(), simulation.clock.now_ms() + 60_000
        while pair.read_by_first() == read and simulation.clock.now_ms() < latest_ms:
            pair.step(produced=0)
        assert simulation.clock.now_ms() < latest_ms


@pytest.mark.parametrize("seed", sample(range(1, 4), 1))
def test_a_short_outage_does_not_stop_a_member(seed: int) -> None:
    with Simulation(f"short {seed}", brokers=3, trace_lines=400) as simulation:
        pair = Pair(simulation)
        pair.run(5_000)
        pair.cut_off()
        pair.run(3_000)
        simulation.network.partitions.clear()
        before = len(pair.read)
        pair.run(12_000)
        assert len(pair.read) > before
        assert all(member.health().ready for member in pair.members)
