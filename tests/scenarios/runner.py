"""Many seeds on several processes."""

from __future__ import annotations

import gc
import logging
import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.pool import IMapIterator, Pool

from tandem_kafka.runtime import Clock
from tests.scenarios.run import Outcome, run_seed

__all__ = ["Totals", "run_seeds", "silence"]

#: Seeds that a process takes at a time.
CHUNK = 4
REPORT_MS = 1_000


@dataclass(slots=True)
class Totals:
    """Sums over many runs.

    Attributes:
        failures: Outcomes of the runs that failed.
        longest_ms: The longest time that a group took to settle.
    """

    seeds: int = 0
    virtual_ms: int = 0
    events: int = 0
    iterations: int = 0
    longest_ms: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    account: dict[str, int] = field(default_factory=dict)
    failures: list[Outcome] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        """Add one run."""
        self.seeds += 1
        self.virtual_ms += outcome.virtual_ms
        self.events += outcome.events
        self.iterations += outcome.iterations
        self.longest_ms = max(self.longest_ms, outcome.settled_ms)
        for sums, counts in ((self.faults, outcome.faults), (self.account, outcome.account)):
            for name, count in counts.items():
                sums[name] = sums.get(name, 0) + count
        if outcome.error:
            self.failures.append(outcome)


def run_seeds(
    seeds: range, scenario: str | None, jobs: int, clock: Clock, report: Callable[[Totals], None]
) -> Totals:
    """Run these seeds; `report` is called once per second of real time."""
    if jobs == 1:
        with silence():
            return _gather((run_seed(seed, scenario) for seed in seeds), clock, report)
    with _processes(jobs) as pool:
        chunks = [seeds[at : at + CHUNK] for at in range(0, len(seeds), CHUNK)]
        outcomes = pool.imap_unordered(_Worker(scenario), chunks)
        return _gather(_ticking(outcomes), clock, report)


def _prepare() -> None:
    """Prepare a process for runs: no logging, garbage collection only between runs."""
    logging.disable(logging.CRITICAL)
    gc.freeze()
    gc.disable()


@contextmanager
def silence() -> Iterator[None]:
    """Disable logging: members log every fault."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


@dataclass(frozen=True, slots=True)
class _Worker:
    """Runs seeds, possibly in another process."""

    scenario: str | None

    def __call__(self, seeds: range) -> list[Outcome]:
        return [self._run(seed) for seed in seeds]

    def _run(self, seed: int) -> Outcome:
        outcome = run_seed(seed, self.scenario)
        # A finished run leaves reference cycles. Collected at once, their memory serves the next
        # run while it is still in the processor's caches. Only caches of the code remain.
        gc.collect()
        gc.freeze()
        return outcome


@contextmanager
def _processes(jobs: int) -> Iterator[Pool]:
    with multiprocessing.get_context("spawn").Pool(jobs, _prepare) as pool:
        yield pool


def _ticking(chunks: IMapIterator[list[Outcome]]) -> Iterator[Outcome | None]:
    """Yield outcomes, and None after each second without one."""
    while True:
        try:
            yield from chunks.next(REPORT_MS / 1_000)
        except multiprocessing.TimeoutError:
            yield None
        except StopIteration:
            return


def _gather(
    outcomes: Iterator[Outcome | None], clock: Clock, report: Callable[[Totals], None]
) -> Totals:
    totals = Totals()
    next_ms = clock.now_ms() + REPORT_MS
    for outcome in outcomes:
        if outcome is not None:
            totals.add(outcome)
        if clock.now_ms() >= next_ms:
            next_ms += REPORT_MS
            report(totals)
    return totals
