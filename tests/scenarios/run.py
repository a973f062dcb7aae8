"""One run of a scenario: a group under faults, which then stop, and the group settles."""

from __future__ import annotations

import asyncio
import traceback
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tandem_kafka.runtime import Random
from tandem_kafka_testing.simulation import Simulation
from tests.scenarios.applications import MIN_MEMBERS, Applications
from tests.scenarios.catalogue import GROUP, Scenario, scenario_for
from tests.scenarios.faults import Faults
from tests.scenarios.members import Members
from tests.scenarios.numbered_records import create_topic, produce
from tests.scenarios.shares import ShareMembers, run_shares
from tests.scenarios.workers import run_workers
from tests.scenarios.workers_soak import run_workers_soak

__all__ = ["FAULTS_MS", "KEPT_LINES", "SETTLE_MS", "Outcome", "run_scenario", "run_seed"]

#: Lines of the trace that are kept in case the run fails.
KEPT_LINES = 400
#: Duration of the faults.
FAULTS_MS = 50_000
#: Without faults, a scenario takes ten minutes, and for one seed in six an hour.
CALM_MS, LONG_CALM_MS = 600_000, 3_600_000
#: Time after the faults in which everything must be assigned and read. It covers a session timeout,
#: a rebalance that waits for a member with a request from before, and delayed frames.
SETTLE_MS = 90_000


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a run.

    Attributes:
        virtual_ms: Simulated time that passed.
        iterations: Iterations of all network loops.
        settled_ms: How long the group took to settle after the faults.
        digest: Fingerprint of the trace: the same for every run of the seed.
        faults: How often each fault happened.
        account: What became of the records of a share group.
        error: The error with its place; empty if the run passed.
        trace: The last lines of a failed run, or all lines if requested.
    """

    seed: int
    scenario: str
    virtual_ms: int
    events: int
    iterations: int
    settled_ms: int
    digest: str
    faults: dict[str, int] = field(default_factory=dict)
    account: dict[str, int] = field(default_factory=dict)
    error: str = ""
    trace: tuple[str, ...] = ()


def run_scenario(
    simulation: Simulation,
    scenario: Scenario,
    runner: asyncio.Runner | None = None,
    account: dict[str, int] | None = None,
) -> tuple[int, dict[str, int]]:
    """Run a scenario; returns how long it took to settle, and the number of faults by name.

    Args:
        simulation: The simulation.
        scenario: The kind of group.
        runner: For members that are asyncio consumers.
        account: Gets what became of the records of a share group.

    Raises:
        Violation: An invariant does not hold.
    """
    random, cluster = simulation.random, simulation.cluster
    partitions = create_topic(simulation, "orders", random.randrange(2, 10))
    for tp in partitions:
        produce(simulation, tp, random.randrange(8))
    cluster.configure_group(
        GROUP,
        assignment_interval_ms=random.choice([0, 1_000]),
        heartbeat_interval_ms=random.choice([500, 2_000]),
    )
    # A separate source of randomness keeps all other draws of the seed as they were.
    delay = Random(f"{simulation.seed}/rebalance delay")
    cluster.configure_group(GROUP, initial_rebalance_delay_ms=delay.choice([0, 3_000]))
    epochs = Random(f"{simulation.seed}/commit epochs")
    cluster.configure_group(GROUP, commit_epochs=epochs.choice(["exact", "assigned"]))
    if scenario.shares:
        shares = ShareMembers(simulation, scenario, partitions)
        calm_ms = delay.choice([*[CALM_MS] * 5, LONG_CALM_MS])
        working_ms = calm_ms if scenario.calm else FAULTS_MS
        return run_shares(shares, working_ms, SETTLE_MS, {} if account is None else account)
    if scenario.workers:
        soaks = scenario.asynchronous
        work = partial(run_workers_soak, runner=runner) if soaks else run_workers
        return work(simulation, scenario, partitions, FAULTS_MS, SETTLE_MS)
    if scenario.local:
        # With a short timeout, some results arrive too late.
        cluster.configure_group(GROUP, computation_timeout_ms=random.choice([300, 5_000]))
    members = Members(simulation, scenario, scenario.draw_options(random), partitions, runner)
    faults = Faults(members)
    faults.draw_conditions()
    applications = Applications(members, faults)
    for _ in range(random.randrange(MIN_MEMBERS, MIN_MEMBERS + 3)):
        members.join()
    until_ms = simulation.clock.now_ms() + FAULTS_MS
    while simulation.clock.now_ms() < until_ms:
        applications.step()
    faults.heal()
    settled_ms = members.settle(SETTLE_MS)
    applications.conclude(SETTLE_MS)
    for member in list(members.listeners):
        applications.close(member, "leave")
    members.history.check()
    return settled_ms, faults.counts


def run_seed(seed: int, name: str | None = None, *, whole_trace: bool = False) -> Outcome:
    """Run a seed and return its outcome; an error of the run is part of the outcome."""
    scenario = scenario_for(seed, name)
    simulation = Simulation(
        f"{scenario.name} {seed}",
        brokers=scenario.brokers(seed),
        racks=scenario.racks,
        trace_lines=None if whole_trace else KEPT_LINES,
    )
    began_ms = simulation.clock.now_ms()
    settled_ms, error = 0, ""
    faults: dict[str, int] = {}
    account: dict[str, int] = {}
    try:
        with simulation, simulation.runner() as runner:
            settled_ms, faults = run_scenario(simulation, scenario, runner, account)
    except Exception as raised:  # noqa: BLE001 - the outcome has the error and the seed
        error = _explain(raised)
    trace = simulation.trace
    return Outcome(
        seed=seed,
        scenario=scenario.name,
        virtual_ms=simulation.clock.now_ms() - began_ms,
        events=trace.count,
        iterations=sum(driver.iterations for driver in simulation.drivers),
        settled_ms=settled_ms,
        digest=trace.digest,
        faults=faults,
        account=account,
        error=error,
        trace=tuple(trace.lines) if whole_trace or error else (),
    )


def _explain(error: Exception) -> str:
    """Return the error with its place and its causes, without the trace in its notes."""
    lines = []
    link: BaseException | None = error
    while link is not None:
        calls = traceback.extract_tb(link.__traceback__)[-4:]
        where = " > ".join(f"{Path(c.filename).name}:{c.lineno} {c.name}" for c in calls)
        lines.append(f"{type(link).__name__}: {link} ({where})")
        link = link.__cause__ or link.__context__
    return "; because of ".join(lines)
