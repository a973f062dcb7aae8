"""Reading and committing under every fault of the network."""

from __future__ import annotations

import pytest

from tandem_kafka import TopicPartition
from tandem_kafka_testing import Conditions, Simulation
from tests.histories.ledger import SimulatedLedger
from tests.scenarios.numbered_records import create_topic, produce
from tests.tier import seeds

SEEDS = seeds(12, 100)


def weather(simulation: Simulation) -> None:
    """Draw the conditions of the network."""
    random, conditions = simulation.random, simulation.network.conditions
    conditions.latency_ms = (1, random.choice([2, 10, 80]))
    conditions.loss = random.choice([0.0, 0.01, 0.05])
    conditions.clog = random.choice([0.0, 0.0, 0.02])
    conditions.refuse = random.choice([0.0, 0.1, 0.3])


def options(simulation: Simulation) -> dict[str, object]:
    random = simulation.random
    return {
        "group_id": "readers",
        "auto_offset_reset": "earliest",
        "enable_auto_commit": random.random() < 0.5,
        "auto_commit_interval_ms": random.choice([100, 5_000]),
        "max_poll_records": random.choice([1, 7, 500]),
        "fetch_max_bytes": random.choice([300, 52_428_800]),
        **random.choice(
            [
                {"max_partition_fetch_bytes": 200, "fetch_buffer_max_bytes": 1_000},
                {"max_partition_fetch_bytes": 200},
                {"max_partition_fetch_bytes": 300, "fetch_buffer_max_bytes": 300},
                {},
            ]
        ),
        "enable_incremental_fetch_sessions": random.random() < 0.8,
        "bootstrap_timeout_ms": 0,
    }


def act(simulation: Simulation, ledger: SimulatedLedger, tps: list[TopicPartition]) -> None:
    """Do one random action of the application or the cluster."""
    random, consumer = simulation.random, ledger.consumer
    match random.randrange(9):
        case 0:
            ledger.commit(random.choice([50, 500, 10_000]))
        case 1:
            consumer.commit_async()
        case 2:
            consumer.pause(*random.sample(tps, 2))
        case 3:
            consumer.resume(*consumer.paused())
        case 4:
            simulation.sleep(random.choice([1, 100, 6_000]))
        case 5:
            produce(simulation, random.choice(tps), random.randrange(1, 10))
        case _:
            ledger.poll(random.choice([0, 10, 1_000]), random.choice([None, 3]))


def everything(seed: int) -> Simulation:
    with Simulation(seed, brokers=2, conditions=Conditions()) as simulation:
        tps = create_topic(simulation, "orders", 4)
        for tp in tps:
            produce(simulation, tp, simulation.random.randrange(30))
        weather(simulation)
        ledger = SimulatedLedger(simulation, simulation.consumer(**options(simulation)), tps)
        ledger.consumer.assign(tps)
        for _ in range(40):
            act(simulation, ledger, tps)
        simulation.network.conditions.calm()
        ledger.consumer.resume(*tps)
        ledger.read_all()
        assert ledger.commit(60_000)
        for tp, offset in ledger.next.items():
            assert simulation.cluster.committed("readers", tp) == (offset or None) or not offset
    return simulation


@pytest.mark.parametrize("seed", SEEDS)
def test_records_arrive_once_and_in_order_and_no_commit_is_ahead(seed: int) -> None:
    everything(seed)


def test_the_same_seed_gives_the_same_run() -> None:
    assert everything(3).trace.digest == everything(3).trace.digest
    assert everything(3).trace.digest != everything(4).trace.digest
