"""Scenarios: three to eight members under faults, one seed after the other."""

from __future__ import annotations

import os
from typing import Any

import pytest

from tandem_kafka import TopicPartition
from tandem_kafka.testing import Simulation
from tests.scenarios import SCENARIOS, Violation
from tests.scenarios import run_seed as tell
from tests.scenarios.__main__ import main
from tests.scenarios.invariants import Invariants
from tests.scenarios.run import KEPT_LINES
from tests.simulation.ledger import Ledger, produce, topic

#: More for a night: TANDEM_SEEDS=1000-2000; or `python -m tests.scenarios run --seeds 10000`.
SEEDS = range(*map(int, os.environ.get("TANDEM_SEEDS", "0-240").split("-")))

#: Seeds that found a defect, with a description.
FOUND = {
    (73, "consumer-static"): "who gave up all brokers while its positions were known never asked "
    "for brokers again, until its metadata was old",
    (74, "classic-static"): "the same, of a classic group",
    (637, "classic"): "the same, without instance ids",
    (47110167, "consumer-patient"): "a simulated coordinator that took over after a member had "
    "left, before there was a new target, took that member for known when it came back, and gave "
    "it nothing",
    (750012, "classic"): "who closed after its membership had been lost committed what it had read "
    "before, as somebody without membership, into a group that was empty by then",
    (750025, "consumer"): "the same, of the commit of the interval, by the poll that tells of it",
    (750035, "rolling-cooperative"): "the same, in a group of both protocols",
    (1103, "cooperative-transactions"): "who had lost its membership and had not been told named "
    "nobody to a transactional producer, whose commit for nobody was taken",
    (930388, "classic-static"): "a story took who had been left out of a generation for an owner, "
    "because its instance id keeps its place",
    (
        77310106,
        "rolling",
    ): "partitions that a classic member lost unnoticed were forgotten when its "
    "group was classic again and then not, all before the member had asked",
    (
        3016,
        "consumer-recreated",
    ): "a story took who had been assigned a partition of a topic that is "
    "gone for an owner of the new one's, which a KIP-848 coordinator gives on at once",
}


@pytest.mark.design("all", "Random faults")
@pytest.mark.parametrize("seed", SEEDS)
def test_groups_under_faults(seed: int) -> None:
    outcome = tell(seed)
    assert not outcome.error, f"{outcome.error}\n" + "\n".join(outcome.trace[-40:])


def test_members_that_request_different_assignors_under_faults() -> None:
    used: set[str] = set()
    for seed in range(10):
        outcome = tell(seed, "consumer-remote", whole_trace=True)
        assert not outcome.error, f"{outcome.error}\n" + "\n".join(outcome.trace[-40:])
        told = "\n".join(outcome.trace)
        used |= {name for name in ("uniform", "range") if f"by '{name}'" in told}
    assert used == {"uniform", "range"}


@pytest.mark.parametrize(("seed", "scenario"), FOUND)
def test_seeds_that_found_a_defect(seed: int, scenario: str) -> None:
    assert not tell(seed, scenario).error, FOUND[seed, scenario]


def test_a_rebootstrapped_consumer_requests_the_brokers_again() -> None:
    with Simulation(brokers=2) as simulation:
        tps = topic(simulation, "orders", 2)
        consumer = simulation.consumer(auto_offset_reset="earliest")
        consumer.assign(tps)
        ledger = Ledger(simulation, consumer, tps)
        ledger.read_all()
        consumer._core.engine.loop._context.metadata.rebootstrap()
        for _ in range(2):  # the fetches in flight still return records
            produce(simulation, TopicPartition("orders", 1), 5)
            ledger.read_all(within_ms=10_000)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_same_seed_gives_the_same_run(scenario: str) -> None:
    assert tell(3, scenario).digest == tell(3, scenario).digest != tell(4, scenario).digest


def test_the_command_runs_seeds_and_shows_how_to_replay(capsys: Any) -> None:
    assert main(["run", "--seeds", "2", "--first", "5", "--jobs", "1"]) == 0
    told = capsys.readouterr().out
    assert "seeds 5 to 6" in told
    assert "all passed" in told


def test_the_command_prints_the_trace_of_a_seed_that_fails(
    capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reads_what_is_not_there(_: Any) -> bool:
        raise Violation("this story does not end well")

    monkeypatch.setattr(Invariants, "all_read", reads_what_is_not_there)
    assert main(["run", "--seeds", "1", "--first", "3", "--jobs", "1"]) == 1
    told = capsys.readouterr().out.split("this story does not end well")[1].splitlines()
    trace = [line.strip() for line in told if line.startswith("    ")]
    assert trace == [line.strip() for line in tell(3).trace]
    assert 100 < len(trace) <= KEPT_LINES
    assert "replay 3" in told[-1]


def test_the_command_replays_a_seed_with_its_trace(capsys: Any) -> None:
    assert main(["replay", "3", "--scenario", "consumer"]) == 0
    told = capsys.readouterr().out
    assert "member 1: starts" in told
    assert tell(3, "consumer").digest in told
