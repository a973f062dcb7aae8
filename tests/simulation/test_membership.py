"""Two to four members in one thread, both protocols, every fault; one seed after the other."""

from __future__ import annotations

import os
from typing import Any

import pytest
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor

from tandem_kafka.testing import Simulation
from tests.simulation.crew import MAX_POLL_INTERVAL_MS, Crew
from tests.simulation.ledger import produce, topic

#: More for a night: TANDEM_SEEDS=1000-2000.
SEEDS = range(*map(int, os.environ.get("TANDEM_SEEDS", "0-150").split("-")))
COMMON: dict[str, Any] = {
    "group_id": "readers",
    "auto_offset_reset": "earliest",
    "max_poll_interval_ms": MAX_POLL_INTERVAL_MS,
    "auto_commit_interval_ms": 1_000,
    "reconnect_backoff_max_ms": 1_000,
    "bootstrap_timeout_ms": 0,
    "request_timeout_ms": 15_000,
    "default_api_timeout_ms": 30_000,
}
CLASSIC: dict[str, Any] = {
    **COMMON,
    "heartbeat_interval_ms": 500,
    "session_timeout_ms": 6_000,
    "partition_assignment_strategy": [RangePartitionAssignor],
}
COOPERATIVE: dict[str, Any] = {
    **CLASSIC,
    "partition_assignment_strategy": [CooperativeStickyAssignor],
}
CONSUMER: dict[str, Any] = {**COMMON, "group_protocol": "consumer"}


def weather(simulation: Simulation, crew: Crew) -> None:
    """Draw how bad the network and the listeners are."""
    random, conditions = simulation.random, simulation.network.conditions
    conditions.latency_ms = (1, random.choice([2, 20, 150]))
    conditions.loss = random.choice([0.0, 0.01, 0.04])
    conditions.clog = random.choice([0.0, 0.0, 0.01])
    conditions.refuse = random.choice([0.0, 0.0, 0.2])
    crew.slow = random.choice([0.0, 0.2])
    crew.failing = random.choice([0.0, 0.3])


def act(simulation: Simulation, crew: Crew) -> None:
    """One thing that an application or its cluster does."""
    random, members = simulation.random, list(crew.members)
    match random.randrange(12):
        case 0 if len(members) < 4:
            crew.join()
        case 1 if len(members) > 1:
            crew.close(random.choice(members))
        case 2:
            crew.resubscribe(random.choice(members))
        case 3:
            simulation.sleep(random.choice([100, 3_000, 9_000, 25_000]))
        case 4 | 5 | 6:
            happen(simulation, crew)
        case 7:
            crew.poll(random.choice(members), random.choice([0, 3_000]))
        case _:
            crew.poll_all(random.randrange(1, 4), random.choice([0, 50, 200]))


def happen(simulation: Simulation, crew: Crew) -> None:
    """Something that the members did not ask for."""
    random = simulation.random
    match random.randrange(3):
        case 0:
            produce(simulation, random.choice(crew.partitions), random.randrange(1, 4))
        case 1:
            simulation.cluster.move_coordinator("readers", random.choice([1, 2]))
        case _:
            expel(simulation, random.choice([0, 1, 2]))


def expel(simulation: Simulation, number: int) -> None:
    """The coordinator forgets a member."""
    for group in (
        simulation.cluster.group("readers"),
        simulation.cluster.consumer_group("readers"),
    ):
        ids = sorted(group.members)
        if len(ids) > number:
            group.remove(ids[number])


def story(seed: object, options: dict[str, Any]) -> Simulation:
    with Simulation(f"membership {seed}", brokers=2) as simulation:
        tps = topic(simulation, "orders", simulation.random.randrange(1, 7))
        for tp in tps:
            produce(simulation, tp, simulation.random.randrange(8))
        crew = Crew(simulation, tps, options)
        weather(simulation, crew)
        for _ in range(simulation.random.randrange(2, 4)):
            crew.join()
        for _ in range(18):
            act(simulation, crew)
        crew.settle()
        for member in list(crew.members):
            crew.close(member)
        assert not crew.known(), "who closes has left"
    return simulation


@pytest.mark.parametrize("seed", SEEDS)
def test_classic_groups_under_faults(seed: int) -> None:
    story(f"classic {seed}", COOPERATIVE if seed % 2 else CLASSIC)


@pytest.mark.parametrize("seed", SEEDS)
def test_kip_848_groups_under_faults(seed: int) -> None:
    story(f"consumer {seed}", CONSUMER)


@pytest.mark.parametrize("options", [CLASSIC, COOPERATIVE, CONSUMER])
def test_the_same_seed_gives_the_same_run(options: dict[str, Any]) -> None:
    assert story(3, options).trace.digest == story(3, options).trace.digest
    assert story(3, options).trace.digest != story(4, options).trace.digest
