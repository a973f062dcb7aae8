"""Client-side assignment: real consumers on a simulated cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka.assignors import GroupMember, MemberAssignment, PartitionAssignor
from tandem_kafka.errors import LocalAssignorError, UnsupportedVersionError
from tandem_kafka.wire.messages import (
    ConsumerGroupInstallAssignmentRequest,
    ConsumerGroupPrepareAssignmentRequest,
)
from tandem_kafka_testing import Simulation
from tandem_kafka_testing.coordinator.kip848 import ConsumerGroup
from tandem_kafka_testing.coordinator.records import ConsumerGroupAssignmentComputation
from tests.scenarios.numbered_records import produce
from tests.simulation.readers import Listener, Readers, filled
from tests.tier import seeds

SEEDS = seeds(1, 4)
CONSUMER = {"group_protocol": "consumer"}


class Dealing(PartitionAssignor):
    """Assigns partitions one by one, in the order of member ids."""

    name = "dealing"

    def assign(
        self, members: Mapping[str, GroupMember], topics: Mapping[str, int]
    ) -> Mapping[str, list[TopicPartition]]:
        names = sorted(members)
        everything = [TopicPartition(t, n) for t, count in topics.items() for n in range(count)]
        return {name: everything[at :: len(names)] for at, name in enumerate(names)}


class Older(Dealing):
    """Has a version that assignors of version 1 do not support."""

    version = maximum_version = 0


class Newer(Dealing):
    """Supports both versions."""

    minimum_version = version = maximum_version = 1


class Failing(Dealing):
    """Always fails."""

    def assign(
        self, members: Mapping[str, GroupMember], topics: Mapping[str, int]
    ) -> Mapping[str, list[TopicPartition]]:
        raise ArithmeticError(f"{len(members)} members and {len(topics)} topics are too much")


class Owners:
    """The owners of partitions, according to the calls of listeners."""

    def __init__(self) -> None:
        self.owned: dict[TopicPartition, Owner] = {}

    def forget(self, owner: Owner) -> None:
        """Forget a member that the coordinator has removed."""
        self.owned = {tp: each for tp, each in self.owned.items() if each is not owner}


class Owner(Listener):
    """The listener of one member."""

    def __init__(self, owners: Owners) -> None:
        super().__init__()
        self.owners = owners

    def on_partitions_assigned(self, partitions: set[TopicPartition]) -> None:
        for tp in partitions:
            assert self.owners.owned.setdefault(tp, self) is self, f"{tp} has two owners"

    def on_partitions_revoked(self, partitions: set[TopicPartition]) -> None:
        for tp in partitions:
            assert self.owners.owned.pop(tp) is self

    def on_partitions_lost(self, partitions: set[TopicPartition]) -> None:
        self.on_partitions_revoked(partitions)


def slowly(call: Any) -> Any:
    """Delay the response; the coordinator handles the request at once."""
    call.delay_ms = 300
    return call.default()


class Computing:
    """A group with client-side assignors, in a simulation."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.cluster = simulation.cluster
        self.readers = Readers(simulation, filled(simulation, 6))
        self.owners = Owners()
        self.listeners: dict[KafkaConsumer, Owner] = {}

    @property
    def group(self) -> ConsumerGroup:
        return self.cluster.consumer_group("readers")

    @property
    def current(self) -> ConsumerGroupAssignmentComputation | None:
        return self.group.computations.current

    def join(self, *assignors: Any, **options: Any) -> KafkaConsumer:
        listener = Owner(self.owners)
        local = {"group_local_assignors": assignors} if assignors else {}
        member = self.readers.join(listener, **CONSUMER, **local, **options)
        self.listeners[member] = listener
        return member

    def kill(self, member: KafkaConsumer) -> None:
        """Kill a member; its partitions are free after its session timeout."""
        self.readers.members.remove(member)
        driver: Any = member._core.driver
        driver.parked.stalled_until_ms = 10**9
        member._core.closed = True
        self.owners.forget(self.listeners[member])

    def computing(self) -> KafkaConsumer:
        current = self.current
        assert current is not None
        return next(
            m for m in self.readers.members if m.group_metadata().member_id == current.member_id
        )

    def join_and_compute(self, prepared: bool) -> None:
        """Let a member join, and wait until another one must compute or computes."""
        self.cluster.script(ConsumerGroupPrepareAssignmentRequest, slowly)
        self.join(Dealing)
        self.poll_until(
            lambda: self.current and (self.current.prepared_for is not None) is prepared
        )

    def poll_until(self, done: Any) -> None:
        for _ in range(3_000):
            if done():
                return
            for member in self.readers.members:
                self.team_poll(member)
        raise AssertionError("it does not come to that")

    def team_poll(self, member: KafkaConsumer) -> None:
        for tp, records in member.poll(1).items():
            self.readers.read.update((tp, record.offset) for record in records)

    def settle(self, assignor: str = "dealing") -> None:
        for tp in self.readers.partitions:
            produce(self.simulation, tp, 3)
        self.readers.settle()
        assert self.group.epoch == self.group.assignment_epoch
        assert self.group.assignor == assignor


def settled(simulation: Simulation, members: int = 3, *assignors: Any) -> Computing:
    world = Computing(simulation)
    for _ in range(members):
        world.join(*(assignors or (Dealing,)))
    world.settle()
    return world


@pytest.mark.design("001", "InstallAssignment 6")
@pytest.mark.parametrize("seed", SEEDS)
def test_members_come_and_go_and_one_of_them_computes(seed: int) -> None:
    with Simulation(f"computing {seed}", brokers=2) as simulation:
        world = settled(simulation, 2)
        for _ in range(3):
            world.join(Dealing)
            world.readers.poll(simulation.random.randrange(4))
        world.settle()
        for _ in range(3):
            world.readers.leave(simulation.random.choice(world.readers.members))
            world.readers.poll(simulation.random.randrange(4))
        world.settle()


@pytest.mark.design("001", "Client-side assignors, the member fails")
@pytest.mark.parametrize("prepared", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_another_member_computes_when_the_computing_one_crashes(seed: int, prepared: bool) -> None:
    with Simulation(f"crashing {seed}", brokers=2) as simulation:
        world = settled(simulation)
        world.join_and_compute(prepared)
        victim = world.computing()
        epoch = world.group.assignment_epoch
        world.kill(victim)
        world.settle()
        assert world.group.assignment_epoch > epoch


@pytest.mark.design("001", "Client-side assignors, the coordinator fails")
@pytest.mark.parametrize("prepared", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_failover_during_a_computation(seed: int, prepared: bool) -> None:
    with Simulation(f"failing over {seed}", brokers=2) as simulation:
        world = settled(simulation)
        world.join_and_compute(prepared)
        before = world.current, world.group.target, world.group.announced
        world.cluster.fail_over("readers", 3 - world.cluster.coordinator_of("readers"))
        assert (world.current, world.group.target, world.group.announced) == before
        world.settle()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_late_result_is_dropped_and_the_member_continues(seed: int) -> None:
    with Simulation(f"late {seed}", brokers=2) as simulation:
        world = settled(simulation)

        def late(call: Any) -> Any:
            world.group.computations._failed()  # the coordinator has skipped it
            return call.default()

        world.cluster.script(ConsumerGroupInstallAssignmentRequest, late)
        world.join(Dealing)
        world.settle()


@pytest.mark.design("001", "Client-side assignors, the member fails")
@pytest.mark.parametrize("seed", SEEDS)
def test_a_failed_assignor_is_reported_and_another_member_computes(
    seed: int,
) -> None:
    with Simulation(f"failing {seed}", brokers=2) as simulation:
        world = Computing(simulation)
        failing = world.join(Failing)
        with pytest.raises(LocalAssignorError, match="too much") as raised:
            world.poll_until(lambda: False)
        assert isinstance(raised.value.__cause__, ArithmeticError)
        for _ in range(2):
            world.join(Dealing)
        reports = 0
        while world.group.assignor != "dealing":
            try:
                world.team_poll(failing)
            except LocalAssignorError:
                reports += 1
            for member in world.readers.members[1:]:
                world.team_poll(member)
        assert reports <= 2
        world.settle()
        world.join(Dealing)
        world.settle()  # nothing is raised: a member that has succeeded before is chosen


def test_when_all_assignors_fail_the_assignment_stays() -> None:
    with Simulation("hopeless") as simulation:
        world = settled(simulation, 1)
        epoch = world.group.assignment_epoch
        (able,) = world.readers.members
        others = [world.join(Failing) for _ in range(2)]
        world.poll_until(lambda: len(world.group.members) == 3)
        world.kill(able)
        seen: set[KafkaConsumer] = set()
        for _ in range(400):
            for member in others:
                try:
                    member.poll(50)
                except LocalAssignorError:
                    seen.add(member)
        assert seen == set(others)
        assert world.group.epoch > world.group.assignment_epoch >= epoch


@pytest.mark.design("001", "Client-side assignors, versions and upgrade")
@pytest.mark.parametrize("seed", SEEDS)
def test_a_rolling_upgrade_from_the_coordinators_assignor_to_the_members(seed: int) -> None:
    with Simulation(f"rolling {seed}", brokers=2) as simulation:
        world = Computing(simulation)
        for _ in range(3):
            world.join()
        world.settle("uniform")
        for member in list(world.readers.members):
            world.readers.leave(member)
            world.join(Dealing)
            world.readers.poll(simulation.random.randrange(8))
        world.settle()


def test_static_members_restart_and_one_of_them_computes() -> None:
    with Simulation("static", brokers=2) as simulation:
        world = Computing(simulation)
        named = {name: world.join(Dealing, group_instance_id=name) for name in ("one", "two")}
        world.settle()
        for name, member in named.items():
            epoch = world.group.epoch
            world.readers.leave(member)
            world.join(Dealing, group_instance_id=name)
            world.settle()
            assert world.group.epoch == epoch, "it comes back to what it had"


@pytest.mark.parametrize("protocol", ["consumer", "auto"])
def test_a_cluster_without_client_side_assignors_is_rejected(protocol: str) -> None:
    with Simulation("released") as simulation:
        tps = filled(simulation)
        simulation.cluster.disabled |= {
            ConsumerGroupPrepareAssignmentRequest.API_KEY,
            ConsumerGroupInstallAssignmentRequest.API_KEY,
        }
        consumer = simulation.consumer(
            tps[0].topic,
            group_id="readers",
            group_protocol=protocol,
            group_local_assignors=[Dealing],
        )
        with pytest.raises(UnsupportedVersionError, match="remove group_local_assignors"):
            consumer.poll(5_000)


class Handing(Dealing):
    """Sends each member its position as metadata, and records what it receives."""

    def __init__(self) -> None:
        self.racks: list[str] = []
        self.handed: list[tuple[set[TopicPartition], bytes, int]] = []

    def assign(
        self, members: Mapping[str, GroupMember], topics: Mapping[str, int]
    ) -> Mapping[str, MemberAssignment]:
        self.racks = sorted(each.rack for each in members.values())
        dealt = super().assign(members, topics).values()
        places = enumerate(zip(sorted(members), dealt, strict=True))
        return {
            name: MemberAssignment(partitions, b"%d of %d" % (at, len(members)), error=at)
            for at, (name, partitions) in places
        }

    def on_assignment(self, assignment: MemberAssignment) -> None:
        self.handed.append((set(assignment.partitions), assignment.metadata, assignment.error))


@pytest.mark.design("001", "ConsumerGroupHeartbeatResponse")
@pytest.mark.parametrize("seed", SEEDS)
def test_assignor_metadata_comes_with_the_assignment(seed: int) -> None:
    with Simulation(f"handing {seed}", brokers=2) as simulation:
        world = Computing(simulation)
        assignors = [Handing() for _ in range(3)]
        for rack, assignor in zip(("east", "west", ""), assignors, strict=True):
            world.join(assignor, client_rack=rack)
        world.settle()
        assert {each.handed[-1][1:] for each in assignors} == {
            (b"%d of 3" % at, at) for at in range(3)
        }
        for assignor, member in zip(assignors, world.readers.members, strict=True):
            assert assignor.handed[-1][0] == set(member.assignment())
        assert ["", "east", "west"] in [each.racks for each in assignors]
        world.cluster.fail_over("readers", 1)
        world.readers.leave(world.readers.members[-1])
        world.settle()
        assert {each.handed[-1][1] for each in assignors[:2]} == {b"0 of 2", b"1 of 2"}
