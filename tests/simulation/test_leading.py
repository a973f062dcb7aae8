"""The leader of a classic group watches topics for all members."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

from tandem_kafka import KafkaConsumer
from tandem_kafka.assignors import CooperativeStickyAssignor
from tandem_kafka.errors import AssignorError
from tandem_kafka_testing import Simulation
from tests.scenarios.numbered_records import create_topic
from tests.simulation.readers import Readers, filled

OPTIONS: dict[str, Any] = {
    "group_id": "readers",
    "heartbeat_interval_ms": 500,
    "session_timeout_ms": 60_000,
    "metadata_max_age_ms": 2_000,
}


def until_held(member: KafkaConsumer, count: int, *others: KafkaConsumer) -> None:
    """Poll all members until one has this number of partitions, for at most a minute."""
    for _ in range(300):
        for each in (member, *others):
            each.poll(200)
        if len(member.assignment()) == count:
            return
    raise AssertionError(f"{len(member.assignment())} partitions are held, not {count}")


@pytest.mark.behaviour(57)
def test_the_leader_watches_topics_of_other_members() -> None:
    with Simulation("topics of others") as simulation:
        create_topic(simulation, "orders", 2)
        create_topic(simulation, "payments", 2)
        leader = simulation.consumer("orders", **OPTIONS)
        until_held(leader, 2)
        other = simulation.consumer("payments", **OPTIONS)
        until_held(other, 2, leader)
        for _ in range(5):  # more than one refresh of the metadata
            for member in (leader, other):
                member.poll(OPTIONS["metadata_max_age_ms"])
        simulation.cluster.add_partitions("payments", 4)
        until_held(other, 4, leader)
        refresher = leader._core.engine.loop._managers.metadata
        assert refresher._topics_of_interest(simulation.clock.now_ms()) == {"orders", "payments"}
        leader.unsubscribe()
        until_held(other, 4)
        assert "payments" not in refresher._topics_of_interest(simulation.clock.now_ms())


class Breakable:
    """Makes an assignor raise in assign() while `broken` is True."""

    broken = False

    def assign(self, *args: Any) -> Any:
        if self.broken:
            raise ArithmeticError("a bug in an assignor of the user")
        return super().assign(*args)  # type: ignore[misc]


class BreakableRange(Breakable, RangePartitionAssignor):  # type: ignore[misc]
    """Eager."""


class BreakableCooperative(Breakable, CooperativeStickyAssignor):  # type: ignore[misc]
    """Cooperative."""


class Group:
    """Members that are polled in turn, and the errors that each of them got."""

    def __init__(self, simulation: Simulation, kind: Any, *, static: bool = False) -> None:
        self.simulation, self.kind, self.static = simulation, kind, static
        self.assignors: list[Any] = []
        self.members: list[KafkaConsumer] = []
        self.errors: list[list[Exception]] = []

    def join(self) -> None:
        self.assignors.append(self.kind())
        options = {**OPTIONS, "partition_assignment_strategy": [self.assignors[-1]]}
        if self.static:
            options["group_instance_id"] = f"instance {len(self.members)}"
        self.members.append(self.simulation.consumer("orders", **options))
        self.errors.append([])

    def poll(self, for_ms: int) -> None:
        until_ms = self.simulation.clock.now_ms() + for_ms
        while self.simulation.clock.now_ms() < until_ms:
            for member, errors in zip(self.members, self.errors, strict=True):
                try:
                    member.poll(200)
                except AssignorError as error:
                    errors.append(error)

    @property
    def generation(self) -> int:
        return int(self.simulation.cluster.group("readers").generation)

    def begin(self) -> None:
        """Let three members join, of which the first leads."""
        for _ in range(2):
            self.join()
            self.poll(6_000)
        self.join()


@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("kind", [BreakableRange, BreakableCooperative])
def test_a_group_goes_on_without_a_leader_whose_assignor_fails(kind: Any, static: bool) -> None:
    with Simulation("broken leader") as simulation:
        create_topic(simulation, "orders", 6)
        group = Group(simulation, kind, static=static)
        group.begin()
        group.assignors[0].broken = True
        before = group.generation
        group.poll(60_000)
        assert [len(each.assignment()) for each in group.members] == [2, 2, 2]
        assert group.generation - before <= 6
        assert [len(each) for each in group.errors] == [1, 0, 0]
        values = group.members[0].metrics()["consumer-coordinator-metrics"]
        assert values["failed-rebalance-total"] == 1
        assert group.members[0].health().troubles == ()


@pytest.mark.parametrize("kind", [BreakableRange, BreakableCooperative])
def test_each_member_of_a_group_whose_assignor_fails_everywhere_learns_of_it(kind: Any) -> None:
    with Simulation("broken everywhere") as simulation:
        create_topic(simulation, "orders", 6)
        group = Group(simulation, kind)
        group.begin()
        for each in group.assignors:
            each.broken = True
        before = group.generation
        group.poll(120_000)
        for member, errors in zip(group.members, group.errors, strict=True):
            assert 2 <= len(errors) <= 12
            assert any("a bug in an assignor" in trouble for trouble in member.health().troubles)
        assert group.generation - before <= 3 * 2 * 12
        for each in group.assignors:
            each.broken = False
        group.poll(60_000)
        assert [len(each.assignment()) for each in group.members] == [2, 2, 2]


@pytest.mark.parametrize("assignor", [RangePartitionAssignor, RoundRobinPartitionAssignor])
def test_a_static_member_among_others_leaves_none_of_them_without_partitions(assignor: Any) -> None:
    with Simulation() as simulation:
        readers = Readers(simulation, filled(simulation, partitions=6))
        for instance in (None, "static", None):
            options = {"group_instance_id": instance} if instance else {}
            readers.join(partition_assignment_strategy=[assignor], **options)
            readers.settle()
        assert [len(member.assignment()) for member in readers.members] == [2, 2, 2]
