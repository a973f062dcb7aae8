"""One story: members of a group live through faults, the faults stop, and all comes to rest."""

from __future__ import annotations

import traceback
from dataclasses import dataclass, field
from pathlib import Path

from tandem_kafka.runtime import Random
from tandem_kafka.testing.simulation import Simulation
from tandem_kafka.testing.stories.acts import FEWEST, Applications
from tandem_kafka.testing.stories.faults import Faults
from tandem_kafka.testing.stories.members import Members
from tandem_kafka.testing.stories.numbered import create_topic, produce
from tandem_kafka.testing.stories.scenarios import GROUP, Scenario, scenario_for

__all__ = ["HOSTILE_MS", "KEPT_LINES", "SETTLE_MS", "Outcome", "live", "tell"]

#: So many lines of a story's trace are kept for the case that it fails.
KEPT_LINES = 400
#: So long there are faults.
HOSTILE_MS = 50_000
#: So long after them everything is assigned and read: a session, a rebalance that waits for who
#: is stuck behind a request of the hostile time, and what was held up on its way.
SETTLE_MS = 90_000
#: Who went without a word is forgotten by then.
SESSION_MS = 10_000


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a story went.

    Attributes:
        virtual_ms: Simulated time that passed.
        turns: Of all network threads.
        settled_ms: How long it took to come to rest when the faults stopped.
        digest: Fingerprint of the trace: the same for every run of the seed.
        faults: How often each fault happened.
        error: Empty if all went well.
        trace: The last lines, or all of them if that was asked for.
    """

    seed: int
    scenario: str
    virtual_ms: int
    events: int
    turns: int
    settled_ms: int
    digest: str
    faults: dict[str, int] = field(default_factory=dict)
    error: str = ""
    trace: tuple[str, ...] = ()


def live(simulation: Simulation, scenario: Scenario) -> tuple[int, dict[str, int]]:
    """Live through a story; returns how long it took to settle, and the faults.

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
    # Of its own source: what is drawn before and after stays what it was.
    delay = Random(f"{simulation.seed}/rebalance delay")
    cluster.configure_group(GROUP, initial_rebalance_delay_ms=delay.choice([0, 3_000]))
    epochs = Random(f"{simulation.seed}/commit epochs")
    cluster.configure_group(GROUP, commit_epochs=epochs.choice(["exact", "assigned"]))
    if scenario.local:
        # A short one brings results that nobody waits for any more.
        cluster.configure_group(GROUP, computation_timeout_ms=random.choice([300, 5_000]))
    members = Members(simulation, scenario, scenario.drawn(random), partitions)
    faults = Faults(members)
    faults.weather()
    applications = Applications(members, faults)
    for _ in range(random.randrange(FEWEST, FEWEST + 3)):
        members.join()
    until_ms = simulation.clock.now_ms() + HOSTILE_MS
    while simulation.clock.now_ms() < until_ms:
        applications.act()
    faults.heal()
    settled_ms = members.settle(SETTLE_MS)
    applications.conclude(SETTLE_MS)
    for member in list(members.listeners):
        applications.close(member, "leave")
    return settled_ms, faults.counts


def tell(seed: int, name: str | None = None, *, whole_trace: bool = False) -> Outcome:
    """Live through the story of a seed, and say how it went; never raises what the story did."""
    scenario = scenario_for(seed, name)
    simulation = Simulation(
        f"{scenario.name} {seed}",
        brokers=2 + seed // 7 % 2,
        racks=scenario.racks,
        trace_lines=None if whole_trace else KEPT_LINES,
    )
    began_ms = simulation.clock.now_ms()
    settled_ms, error = 0, ""
    faults: dict[str, int] = {}
    try:
        with simulation:
            settled_ms, faults = live(simulation, scenario)
    except Exception as raised:  # noqa: BLE001 - whatever it is, the caller gets it with the seed
        error = _explain(raised)
    trace = simulation.trace
    return Outcome(
        seed=seed,
        scenario=scenario.name,
        virtual_ms=simulation.clock.now_ms() - began_ms,
        events=trace.count,
        turns=sum(driver.turns for driver in simulation.drivers),
        settled_ms=settled_ms,
        digest=trace.digest,
        faults=faults,
        error=error,
        trace=tuple(trace.lines) if whole_trace or error else (),
    )


def _explain(error: Exception) -> str:
    """Say what was raised and where, without the trace that is in its notes."""
    lines = []
    link: BaseException | None = error
    while link is not None:
        calls = traceback.extract_tb(link.__traceback__)[-4:]
        where = " > ".join(f"{Path(c.filename).name}:{c.lineno} {c.name}" for c in calls)
        lines.append(f"{type(link).__name__}: {link} ({where})")
        link = link.__cause__ or link.__context__
    return "; because of ".join(lines)
