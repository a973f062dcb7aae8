"""The scenarios of the generalised group protocol (document 002), by their sections."""

from __future__ import annotations

from typing import Any

import pytest
from kafka import errors
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

from tandem_kafka.wire.messages import JoinGroupRequest, SyncGroupRequest, SyncGroupResponse
from tandem_kafka_testing import CUT, Call, Simulation
from tandem_kafka_testing.cluster.apis.join_group import join_response
from tandem_kafka_testing.coordinator.requests import JoinResult
from tests.simulation.readers import Readers, filled

OLD, NEW = RoundRobinPartitionAssignor, RangePartitionAssignor


def cut(_: Call) -> Any:
    return CUT


def handled_without_response(call: Call) -> Any:
    call.default()
    return CUT


def refused_sync(error: Any) -> Any:
    return SyncGroupResponse(
        throttle_time_ms=0,
        error_code=error.errno,
        protocol_type=None,
        protocol_name=None,
        assignment=b"",
    )


@pytest.mark.design("000", "Co-ordinator 3")
@pytest.mark.design("002", "Phase 1: Joining the Group")
@pytest.mark.parametrize(
    "failure",
    [
        cut,
        handled_without_response,
        join_response(JoinResult(errors.CoordinatorLoadInProgressError)),
        join_response(JoinResult(errors.NotCoordinatorError)),
        join_response(JoinResult(errors.UnknownMemberIdError)),
        join_response(JoinResult(errors.RebalanceInProgressError)),
    ],
    ids=["cut", "no response", "loading", "moved", "unknown", "in progress"],
)
def test_a_failed_join_is_retried(failure: Any) -> None:
    with Simulation(brokers=2) as simulation:
        readers = Readers(simulation, filled(simulation))
        readers.join()
        readers.settle()
        simulation.cluster.script(JoinGroupRequest, failure, failure)
        readers.join()
        readers.settle()
        assert {len(member.assignment()) for member in readers.members} == {2}


@pytest.mark.design("002", "Phase 2: Synchronizing Group State")
@pytest.mark.parametrize(
    "failure",
    [
        cut,
        refused_sync(errors.RebalanceInProgressError),
        refused_sync(errors.NotCoordinatorError),
        refused_sync(errors.IllegalGenerationError),
        refused_sync(errors.UnknownMemberIdError),
    ],
    ids=["cut", "in progress", "moved", "generation", "unknown"],
)
def test_a_failed_sync_is_followed_by_a_new_join(failure: Any) -> None:
    with Simulation(brokers=2) as simulation:
        readers = Readers(simulation, filled(simulation))
        for _ in range(3):
            readers.join()
        simulation.cluster.script(SyncGroupRequest, failure, failure)
        readers.settle()


@pytest.mark.design("002", "Failure Scenarios 2")
def test_a_leader_with_a_failing_assignor_does_not_block_the_group_once_it_left() -> None:
    class Breaks(RangePartitionAssignor):
        broken = True

        @classmethod
        def assign(cls, cluster: Any, members: Any) -> Any:
            if cls.broken:
                msg = "no assignment today"
                raise RuntimeError(msg)
            return super().assign(cluster, members)

    with Simulation() as simulation:
        readers = Readers(simulation, filled(simulation))
        leader = readers.join(partition_assignment_strategy=[Breaks])
        with pytest.raises(Exception, match="no assignment today"):
            readers.poll(20)
        readers.leave(leader)
        readers.join(partition_assignment_strategy=[RangePartitionAssignor])
        readers.settle()
