"""Groups, most of them classic: members that join, leave and stop polling."""

from __future__ import annotations

from typing import Any

import pytest

from tandem_kafka.wire.messages import ConsumerGroupHeartbeatRequest
from tandem_kafka_testing import CUT, Call, Simulation
from tests.scenarios.numbered_records import produce
from tests.simulation.readers import Readers, filled
from tests.tier import seeds


@pytest.mark.behaviour(21)
@pytest.mark.design("003", "Poll")
def test_polls_with_timeout_0_join_and_read() -> None:
    with Simulation() as simulation:
        readers = Readers(simulation, filled(simulation))
        readers.join()
        for _ in range(400):
            readers.poll(timeout_ms=0)
            simulation.sleep(5)
        assert readers.all_read()


@pytest.mark.behaviour(93)
@pytest.mark.design("001", "Static members")
def test_a_static_member_joins_although_its_first_join_got_no_response() -> None:
    with Simulation() as simulation:
        filled(simulation)

        def handled_without_response(call: Call) -> Any:
            assert call.default().error_code == 0
            return CUT

        simulation.cluster.script(ConsumerGroupHeartbeatRequest, handled_without_response)
        options = {"group_protocol": "consumer", "group_instance_id": "one", "group_id": "readers"}
        member = simulation.consumer("orders", **options)
        while len(member.assignment()) < 4:
            member.poll(500)
        assert simulation.clock.now_ms() < 10_000, "and does not wait for its own session to end"


@pytest.mark.parametrize("seed", seeds(10, 40))
def test_members_come_and_go_under_faults_and_everything_is_read(seed: int) -> None:
    with Simulation(f"readers {seed}", brokers=2) as simulation:
        random, conditions = simulation.random, simulation.network.conditions
        readers = Readers(simulation, filled(simulation, partitions=random.randrange(1, 7)))
        conditions.loss = random.choice([0.0, 0.0, 0.02])
        conditions.clog = random.choice([0.0, 0.0, 0.01])
        readers.join(bootstrap_timeout_ms=0)
        for _ in range(12):
            match random.randrange(6):
                case 0 if len(readers.members) < 4:
                    readers.join(bootstrap_timeout_ms=0)
                case 1 if len(readers.members) > 1:
                    readers.leave(random.choice(readers.members))
                case 2:
                    simulation.sleep(random.choice([100, 7_000]))
                case 3:
                    produce(simulation, random.choice(readers.partitions), 3)
                case 4:
                    simulation.cluster.move_coordinator("readers", random.choice([1, 2]))
                case _:
                    readers.poll(3)
        conditions.calm()
        readers.settle(600_000)
