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
from tandem_kafka.testing.stories.story import Outcome, tell

__all__ = ["Totals", "run", "silence"]

#: A process takes so many seeds at a time.
CHUNK = 4
REPORT_MS = 1_000


@dataclass(slots=True)
class Totals:
    """What a run has come to.

    Attributes:
        failures: Stories that broke an invariant.
        longest_ms: The longest time to settle after the faults.
    """

    seeds: int = 0
    virtual_ms: int = 0
    events: int = 0
    turns: int = 0
    longest_ms: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    failures: list[Outcome] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        """Count one story."""
        self.seeds += 1
        self.virtual_ms += outcome.virtual_ms
        self.events += outcome.events
        self.turns += outcome.turns
        self.longest_ms = max(self.longest_ms, outcome.settled_ms)
        for name, count in outcome.faults.items():
            self.faults[name] = self.faults.get(name, 0) + count
        if outcome.error:
            self.failures.append(outcome)


def run(
    seeds: range, scenario: str | None, jobs: int, clock: Clock, report: Callable[[Totals], None]
) -> Totals:
    """Tell the stories of these seeds; `report` is called once a second of real time."""
    if jobs == 1:
        with silence():
            return _gather((tell(seed, scenario) for seed in seeds), clock, report)
    with _processes(jobs) as pool:
        chunks = [seeds[at : at + CHUNK] for at in range(0, len(seeds), CHUNK)]
        outcomes = pool.imap_unordered(_Teller(scenario), chunks)
        return _gather(_ticking(outcomes), clock, report)


def _prepare() -> None:
    """Have a process do nothing but tell stories: no logging, collections only in between."""
    logging.disable(logging.CRITICAL)
    gc.freeze()
    gc.disable()


@contextmanager
def silence() -> Iterator[None]:
    """Keep what members log about faults to themselves, for a while."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


@dataclass(frozen=True, slots=True)
class _Teller:
    """Tells stories, perhaps in another process."""

    scenario: str | None

    def __call__(self, seeds: range) -> list[Outcome]:
        return [self._tell(seed) for seed in seeds]

    def _tell(self, seed: int) -> Outcome:
        outcome = tell(seed, self.scenario)
        # What a story leaves behind is in cycles; taken away at once, the next one gets the same
        # memory, which the processor still has at hand. What stays are caches.
        gc.collect()
        gc.freeze()
        return outcome


@contextmanager
def _processes(jobs: int) -> Iterator[Pool]:
    with multiprocessing.get_context("spawn").Pool(jobs, _prepare) as pool:
        yield pool


def _ticking(chunks: IMapIterator[list[Outcome]]) -> Iterator[Outcome | None]:
    """Yield what comes, and None when nothing has come for a second."""
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
