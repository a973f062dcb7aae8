"""Plans of faults: from a file, at their times, and the same ones for the same seed."""

from __future__ import annotations

import tomllib

import pytest

from tandem_kafka.runtime import Random
from tandem_kafka_testing.fault_plan import KINDS, FaultPlan, PlannedFault
from tandem_kafka_testing.network import Conditions
from tandem_kafka_testing.simulation import Simulation

FILE = """
[network]
latency_ms = [1, 20]
loss = 0.001

[[fault]]
kind = "cut"
at_ms = 2000
broker = 1

[[fault]]
kind = ["lead", "pause", "slow_down"]
every_ms = 1000
until_ms = 3500
"""


def run(plan: FaultPlan, seed: int, duration_ms: int) -> list[tuple[int, str]]:
    """The faults of a simulated run, with their times."""
    found: list[tuple[int, str]] = []
    with Simulation(seed, brokers=3) as simulation:
        simulation.cluster.create_topic("orders", 4)
        begin_ms = simulation.clock.now_ms()
        plan.begin(
            simulation.cluster,
            Random(seed),
            lambda fault: found.append((simulation.clock.now_ms() - begin_ms, fault)),
        )
        simulation.sleep(duration_ms)
    return found


def test_a_file_has_the_network_and_the_faults() -> None:
    assert FaultPlan.from_table(tomllib.loads(FILE)) == FaultPlan(
        [
            PlannedFault("cut", at_ms=2000, arguments={"broker": 1}),
            PlannedFault(["lead", "pause", "slow_down"], every_ms=1000, until_ms=3500),
        ],
        Conditions(latency_ms=(1, 20), loss=0.001),
    )


def test_faults_occur_at_their_times_and_end() -> None:
    found = run(FaultPlan.from_table(tomllib.loads(FILE)), 7, 10_000)
    assert [when for when, _ in found] == [1000, 2000, 2000, 3000]
    assert (2000, "cut broker=1") in found


def test_the_seed_decides_what_is_left_open() -> None:
    plan = FaultPlan([PlannedFault(["lead", "pause", "crash"], at_ms=0, every_ms=500)])
    runs = [run(plan, seed, 20_000) for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]
    assert len(runs[0]) == 41


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_each_fault_can_be_drawn_and_ends(kind: str) -> None:
    """Without arguments, on a cluster with and without topics and groups."""
    plan = FaultPlan([PlannedFault(kind, at_ms=10, every_ms=100)])
    with Simulation(3, brokers=3) as simulation:
        plan.begin(simulation.cluster, Random(3), lambda _: None)
        simulation.sleep(1_000)
        simulation.cluster.create_topic("orders", 2)
        simulation.cluster.group("billing")
        simulation.sleep(1_000)
    assert any(broker.up for broker in simulation.cluster.brokers.values())


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("[[faults]]", "the plan: unknown 'faults'; allowed: network, fault"),
        ("[[fault]]\nat_ms = 1", "fault 1: kind: name at least one fault"),
        ("[[fault]]\nkind = 'cut'", "fault 1: give at_ms for a single fault, or every_ms for"),
        ("[[fault]]\nkind = 'cut'\nevery_ms = 0", "fault 1: every_ms=0: must be an integer of at"),
        ("[[fault]]\nkind = 'cut'\nat_ms = '1s'", "fault 1: at_ms='1s': must be an integer of at"),
        ("[[fault]]\nkind = 'cut'\nat_ms = 1\nid = 2", "cut: unknown 'id'; allowed: broker"),
        ("[[fault]]\nkind = 'heal'\nat_ms = 1\nid = 2", "heal: unknown 'id'; it has no arguments"),
        ("[[fault]]\nkind = 'cut'\nat_ms = 1\nbroker = '1'", "broker='1': must be of type int"),
        (
            "[[fault]]\nkind = 'pause'\nat_ms = 1\nfor_ms = -1",
            "pause: for_ms=-1: must not be negat",
        ),
        (
            "[[fault]]\nkind = 'cut'\nat_ms = 9\nuntil_ms = 8",
            "until_ms=8: it would first occur at 9",
        ),
        ("[[fault]]\nkind = 'hang'\nat_ms = 1", "kind='hang': must be one of coordinate, crash"),
        ("[network]\nloss = 2", "network: loss=2: must be a share from 0 to 1"),
        ("[network]\nlatency_ms = 5", r"latency_ms=5: must be \[shortest, longest\], in ms"),
        ("[network]\nlag = 5", "network: unknown 'lag'; allowed: latency_ms, loss, clog"),
    ],
)
def test_what_is_not_allowed_is_named(text: str, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        FaultPlan.from_table(tomllib.loads(text))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[fault]\nkind = "cut"\nat_ms = 1', r"write \[\[fault\]\], not \[fault\]"),
        ("fault = [1]", r"fault 1: 1: must be a table"),
        ("[[fault]]\nkind = 3\nat_ms = 1", r"fault 1: kind=3: must be a name, or several"),
        ("network = 3", r"network=3: must be a table"),
    ],
)
def test_a_file_of_another_shape_is_rejected(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FaultPlan.from_table(tomllib.loads(text))
