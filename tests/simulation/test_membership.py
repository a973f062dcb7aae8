"""Scenarios: three to eight members under faults, one seed after the other."""

from __future__ import annotations

from typing import Any

import pytest

from tandem_kafka import TopicPartition
from tandem_kafka_testing import Simulation
from tests.histories.ledger import SimulatedLedger
from tests.scenarios import SCENARIOS, Violation, run_seed
from tests.scenarios.__main__ import main
from tests.scenarios.invariants import Invariants
from tests.scenarios.numbered_records import create_topic, produce
from tests.scenarios.run import KEPT_LINES
from tests.tier import sample, seeds

#: More for a night: TANDEM_KAFKA_SEEDS=1000-2000; or `python -m tests.scenarios run --seeds 10000`.
SEEDS = seeds(8, 60)

#: Seeds that found a defect, with a description.
FOUND = {
    (3, "classic-recreated"): (
        "while one partition of a recreated topic had a position in the new topic and another one "
        "still in the old, both were committed for the new"
    ),
    (73, "consumer-static"): (
        "a member that gave up all brokers while its positions were known did "
        "not request brokers again until its metadata expired"
    ),
    (74, "classic-static"): "the same in a classic group",
    (637, "classic"): "the same without instance ids",
    (47110167, "consumer-patient"): (
        "a member left before there was a new target; the next simulated "
        "coordinator took it for known when it returned, and assigned nothing"
    ),
    (750012, "classic"): (
        "a member that closed after the loss of its membership committed its earlier "
        "reads, as a client without membership, into a group that was empty by then"
    ),
    (750025, "consumer"): "the same with an auto-commit, in the poll() that reports the loss",
    (750035, "rolling-cooperative"): "the same in a group of both protocols",
    (1103, "cooperative-transactions"): (
        "a member that had lost its membership without notice gave "
        "no member id to a transactional producer, whose commit was accepted"
    ),
    (930388, "classic-static"): (
        "an invariant took a member that was left out of a generation for an "
        "owner, because its instance id keeps its place"
    ),
    (49975364, "classic-static"): (
        "the same after the member was removed and the next simulated coordinator read it from "
        "the log, as Kafka's does"
    ),
    (77310106, "rolling"): (
        "partitions that a classic member lost without notice were forgotten when "
        "its group was converted twice before its next request"
    ),
    (3016, "consumer-recreated"): (
        "an invariant took a member with a partition of a deleted topic for "
        "an owner of the new partition, which a KIP-848 coordinator reassigns at once"
    ),
    (9200449, "consumer-recreated"): (
        "an invariant took a commit for lost that had failed without a response, because a fault's "
        "second copy of an earlier response came only after the faults"
    ),
    (5139, "consumer-recreated"): (
        "a simulated coordinator that took over forgot to send the loss of a deleted topic's "
        "partitions; Kafka's compares each heartbeat with the logged assignment"
    ),
    (4, "consumer-workers-transactions"): (
        "workers committed an offset behind an aborted transaction of a new leader with the epoch "
        "of the record before, so the next member took the log for truncated"
    ),
    (7, "share-explicit"): (
        "fetches in turn were parked for the shortest time for ever, as one of the brokers was "
        "asked no more"
    ),
}


@pytest.mark.design("all", "Random faults")
@pytest.mark.parametrize("seed", SEEDS)
def test_groups_under_faults(seed: int) -> None:
    outcome = run_seed(seed)
    assert not outcome.error, f"{outcome.error}\n" + "\n".join(outcome.trace[-40:])


def test_members_that_request_different_assignors_under_faults() -> None:
    used: set[str] = set()
    for seed in range(10):
        outcome = run_seed(seed, "consumer-remote", whole_trace=True)
        assert not outcome.error, f"{outcome.error}\n" + "\n".join(outcome.trace[-40:])
        trace = "\n".join(outcome.trace)
        used |= {name for name in ("uniform", "range") if f"by '{name}'" in trace}
    assert used == {"uniform", "range"}


@pytest.mark.parametrize(("seed", "scenario"), FOUND)
def test_seeds_that_found_a_defect(seed: int, scenario: str) -> None:
    assert not run_seed(seed, scenario).error, FOUND[seed, scenario]


def test_a_rebootstrapped_consumer_requests_the_brokers_again() -> None:
    with Simulation(brokers=2) as simulation:
        tps = create_topic(simulation, "orders", 2)
        consumer = simulation.consumer(auto_offset_reset="earliest")
        consumer.assign(tps)
        ledger = SimulatedLedger(simulation, consumer, tps)
        ledger.read_all()
        consumer._core.engine.loop._context.metadata.rebootstrap()
        for _ in range(2):  # the fetches in flight still return records
            produce(simulation, TopicPartition("orders", 1), 5)
            ledger.read_all(within_ms=10_000)


@pytest.mark.parametrize("scenario", sample(SCENARIOS, 1))
def test_the_same_seed_gives_the_same_run(scenario: str) -> None:
    outcomes = [run_seed(seed, scenario) for seed in (3, 3, 4)]
    assert [outcome.error for outcome in outcomes] == ["", "", ""]
    first, again, other = (outcome.digest for outcome in outcomes)
    assert first == again != other


def test_the_command_runs_seeds_and_shows_how_to_replay(capsys: Any) -> None:
    assert main(["run", "--seeds", "2", "--first", "5", "--jobs", "1"]) == 0
    output = capsys.readouterr().out
    assert "seeds 5 to 6" in output
    assert "all passed" in output


def test_the_command_prints_the_trace_of_a_seed_that_fails(
    capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reads_what_is_not_there(_: Any) -> bool:
        raise Violation("this run must fail")

    monkeypatch.setattr(Invariants, "all_read", reads_what_is_not_there)
    assert main(["run", "--seeds", "1", "--first", "3", "--jobs", "1"]) == 1
    output = capsys.readouterr().out.split("this run must fail")[1].splitlines()
    trace = [line.strip() for line in output if line.startswith("    ")]
    assert trace == [line.strip() for line in run_seed(3).trace]
    assert 100 < len(trace) <= KEPT_LINES
    assert "replay 3" in output[-1]


def test_the_command_replays_a_seed_with_its_trace(capsys: Any) -> None:
    assert main(["replay", "3", "--scenario", "consumer"]) == 0
    output = capsys.readouterr().out
    assert "member 1: starts" in output
    assert run_seed(3, "consumer").digest in output
