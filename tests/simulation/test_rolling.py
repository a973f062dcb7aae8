"""Rolling upgrades from one protocol to the other and back, under load."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import GroupIdNotFoundError

from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka_testing import Simulation
from tests.scenarios.numbered_records import produce
from tests.simulation.readers import Readers, filled
from tests.tier import seeds

SEEDS = seeds(3, 12)
CONSUMER: dict[str, Any] = {"group_protocol": "consumer"}
EAGER: dict[str, Any] = {"partition_assignment_strategy": [RangePartitionAssignor]}
COOPERATIVE: dict[str, Any] = {"partition_assignment_strategy": [CooperativeStickyAssignor]}
CLASSIC = pytest.mark.parametrize("classic", [EAGER, COOPERATIVE], ids=["eager", "cooperative"])


class Owners:
    """The owners of partitions, according to the calls of listeners."""

    def __init__(self) -> None:
        self.by_partition: dict[TopicPartition, Owner] = {}


class Owner:
    """The listener of one member; its partitions must have no other owner."""

    def __init__(self, owners: Owners) -> None:
        self._owners = owners.by_partition

    def on_partitions_assigned(self, partitions: set[TopicPartition]) -> None:
        assert not self._owners.keys() & partitions, "somebody else has it"
        self._owners.update(dict.fromkeys(partitions, self))

    def on_partitions_revoked(self, partitions: set[TopicPartition]) -> None:
        for tp in partitions:
            assert self._owners.pop(tp) is self

    def on_partitions_lost(self, partitions: set[TopicPartition]) -> None:
        self.on_partitions_revoked(partitions)


class Rolling:
    """A group of three whose members are replaced one by one, while records are produced."""

    def __init__(self, simulation: Simulation, **options: Any) -> None:
        self.simulation = simulation
        self.cluster = simulation.cluster
        self.readers = Readers(simulation, filled(simulation, 6))
        self.owners = Owners()
        for _ in range(3):
            self.join(**options)
        self.settle()

    @property
    def kind(self) -> str:
        """The protocol of the group."""
        return "consumer" if self.cluster.consumer_group("readers").members else "classic"

    def join(self, **options: Any) -> KafkaConsumer:
        return self.readers.join(Owner(self.owners), **options)

    def read_for_a_while(self) -> None:
        """Produce records, and read for a while."""
        random = self.simulation.random
        for _ in range(random.randrange(6)):
            produce(self.simulation, random.choice(self.readers.partitions), random.randrange(1, 4))
            self.readers.poll(1, random.choice([1, 20, 200]))

    def roll(self, **options: Any) -> None:
        """Replace every member; the new one joins before or after the old one leaves."""
        random = self.simulation.random
        for old in list(self.readers.members):
            if random.random() < 0.5:
                self.join(**options)
                self.read_for_a_while()
                self.readers.leave(old)
            else:
                self.readers.leave(old)
                self.read_for_a_while()
                self.join(**options)
            self.read_for_a_while()

    def settle(self) -> None:
        for tp in self.readers.partitions:
            produce(self.simulation, tp, 3)
        self.readers.settle()
        held = {m: m.assignment() for m in self.readers.members}
        assert all(held.values()), "each has its share"


@pytest.mark.design("all", "Change of the group protocol")
@CLASSIC
@pytest.mark.parametrize("seed", SEEDS)
def test_a_group_rolls_to_the_new_protocol_and_back(seed: int, classic: dict[str, Any]) -> None:
    with Simulation(f"rolling {seed}", brokers=2) as simulation:
        world = Rolling(simulation, **classic)
        assert world.kind == "classic"
        world.roll(**CONSUMER)
        world.settle()
        assert world.kind == "consumer"
        again = {record: count for record, count in world.readers.read.items() if count > 1}
        assert not again, "records read by members that left were committed"
        # In a downgrade, members behind the last epoch lose their partitions and read again.
        world.roll(**classic)
        world.settle()
        assert world.kind == "classic"


@pytest.mark.design("all", "Change of the group protocol")
@CLASSIC
@pytest.mark.parametrize("seed", SEEDS)
def test_members_of_both_protocols_form_one_group(seed: int, classic: dict[str, Any]) -> None:
    """Meanwhile, coordinators fail over; their logs have members of both protocols."""
    with Simulation(f"half {seed}", brokers=2) as simulation:
        world = Rolling(simulation, **classic)
        for _ in range(2):
            world.join(**CONSUMER)
            world.read_for_a_while()
        for step in range(4):
            world.cluster.fail_over("readers", 1 + step % 2)
            world.read_for_a_while()
            world.settle()
        assert len(world.cluster.consumer_group("readers").members) == 5
        for member in world.readers.members[-2:]:
            world.readers.leave(member)
            world.cluster.fail_over("readers", simulation.random.choice([1, 2]))
            world.read_for_a_while()
        world.settle()
        assert world.kind == "classic"


@CLASSIC
def test_a_group_that_may_not_be_upgraded_rejects_the_new_member(
    classic: dict[str, Any],
) -> None:
    with Simulation() as simulation:
        simulation.cluster.configure_group("readers", migration_policy="downgrade")
        world = Rolling(simulation, **classic)
        new_member = simulation.consumer(group_id="readers", **CONSUMER)
        new_member.subscribe(["orders"])
        with pytest.raises(GroupIdNotFoundError):
            new_member.poll(5_000)
        world.settle()
        assert world.kind == "classic"


@pytest.mark.design("all", "Change of the group protocol")
@CLASSIC
@pytest.mark.parametrize("seed", seeds(2, 4))
def test_static_members_change_their_protocol_one_by_one(
    seed: int, classic: dict[str, Any]
) -> None:
    with Simulation(f"static {seed}", brokers=2) as simulation:
        readers = Readers(simulation, filled(simulation, 6))
        for name in ("a", "b", "c"):
            readers.join(group_instance_id=name, **classic)
        readers.settle()
        for options in (CONSUMER, classic):
            for name in ("a", "b", "c"):
                readers.leave(readers.members[0])
                readers.join(group_instance_id=name, **options)
                readers.poll(simulation.random.randrange(4))
                for tp in readers.partitions:
                    produce(simulation, tp, 2)
            readers.settle()
            groups = (
                simulation.cluster.group("readers"),
                simulation.cluster.consumer_group("readers"),
            )
            assert [len(group.members) for group in groups] == (
                [0, 3] if options is CONSUMER else [3, 0]
            )


def test_reading_starts_at_the_offset_of_a_committed_transaction() -> None:
    with Simulation() as simulation:
        (tp,) = filled(simulation, 1)
        simulation.cluster.commit_in_transaction("readers", 7, {tp: 12})
        member = simulation.consumer(
            group_id="readers", auto_offset_reset="earliest", isolation_level="read_committed"
        )
        member.subscribe(["orders"])
        assert member.poll(3_000).count == 0, "the offset is not stable"
        simulation.cluster.end_transaction("readers", 7)
        records = member.poll(5_000).get(tp, [])
        assert [record.offset for record in records][:1] == [12]
