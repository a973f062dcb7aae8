"""Classic groups with the included assignors."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.coordinator.assignors.cooperative_sticky import (
    CooperativeStickyAssignor as TheirCooperativeStickyAssignor,
)

from tandem_kafka import TopicPartition
from tandem_kafka.assignors import (
    CooperativeStickyAssignor,
    RangePartitionAssignor,
    RoundRobinPartitionAssignor,
    StickyPartitionAssignor,
)
from tandem_kafka_testing import Simulation
from tests.simulation.readers import Readers, filled

ALL = [
    RangePartitionAssignor,
    RoundRobinPartitionAssignor,
    StickyPartitionAssignor,
    CooperativeStickyAssignor,
    TheirCooperativeStickyAssignor,
]


@pytest.mark.parametrize("assignor", ALL)
def test_a_group_shares_its_partitions_as_members_come_and_go(assignor: Any) -> None:
    with Simulation("members come and go") as simulation:
        readers = Readers(simulation, filled(simulation, 6))
        for _ in range(3):
            readers.join(partition_assignment_strategy=[assignor])
            readers.settle()
        assert [len(each.assignment()) for each in readers.members] == [2, 2, 2]
        kept = [set(each.assignment()) for each in readers.members[1:]]
        readers.leave(readers.members[0])
        readers.settle()
        has = [set(each.assignment()) for each in readers.members]
        assert [len(each) for each in has] == [3, 3]
        if "sticky" in assignor.name:
            assert all(before < after for before, after in zip(kept, has, strict=True))


@pytest.mark.parametrize(
    "assignor", [each for each in ALL if each is not RoundRobinPartitionAssignor]
)
def test_kip_881_members_get_partitions_of_their_racks(assignor: Any) -> None:
    with Simulation("racks of a group", brokers=2, racks=["there", "here"]) as simulation:
        simulation.cluster.create_topic("orders", 6, replicas=1)
        readers = Readers(simulation, [TopicPartition("orders", number) for number in range(6)])
        racks = ("here", "there")
        for rack in racks:
            readers.join(client_rack=rack, partition_assignment_strategy=[assignor])
            readers.settle()
        brokers = simulation.cluster.brokers
        for member, rack in zip(readers.members, racks, strict=True):
            leaders = {simulation.cluster.at(tp).leader for tp in member.assignment()}
            assert {brokers[leader].rack for leader in leaders} == {rack}
            assert len(member.assignment()) == 3
