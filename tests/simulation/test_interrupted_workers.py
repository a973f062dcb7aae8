"""Runs of all workers that are interrupted or cancelled, perhaps again while they end.

The same workers run again afterwards. They lose nothing, handle no record twice within a run or a
delivery, and all of them still work.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from tandem_kafka.runtime import Random, Runtime
from tandem_kafka.workers import AsyncShareWorkers, ShareWorkers
from tandem_kafka.workers.executors import ExecutorCrew
from tandem_kafka.workers.share_attempts import ShareAttempts
from tandem_kafka_testing import Simulation
from tests.scenarios.cancelling import MODES, Canceller
from tests.scenarios.numbered_records import produce
from tests.scenarios.simulated_executor import SimulatedExecutor
from tests.simulation.sharing import LOCK_MS, sharing, started
from tests.simulation.simulated_workers import simulated_workers
from tests.simulation.test_async_workers import workers_on
from tests.simulation.test_positions_of_workers import check_commit
from tests.simulation.test_workers import OPTIONS, TP, reader
from tests.tier import sample

WORKERS = 4
#: How long a handler takes.
HANDLER_MS = 400
FIRST, MORE = 40, 10
#: How long the second run may take. Locks that nobody releases last longer.
SOON_MS = LOCK_MS // 2
KEYED: dict[str, Any] = {"order": "none", "commit_interval_ms": 500, "max_in_flight": 20}


class Ledger:
    """What handlers have done.

    Attributes:
        runs: The number of the present run.
        done: The offsets of the records that were handled.
    """

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.runs = 1
        self.done: set[int] = set()
        self._handled: Counter[Any] = Counter()
        self._busy = self.most_busy = 0

    def begin(self) -> None:
        self._busy += 1
        self.most_busy = max(self.most_busy, self._busy)

    def end(self) -> None:
        self._busy -= 1

    def note(self, record: Any, run: int) -> None:
        """Note that a record was handled, perhaps by a handler that has outlasted its run."""
        self.done.add(record.offset)
        self._handled[run, getattr(record, "delivery_count", 0), record.offset] += 1

    def enough(self) -> bool:
        """Whether the first run has handled enough."""
        return len(self.done) >= 12

    def again(self) -> Any:
        """Check the first run, and return the end of the second one."""
        check_commit(self.simulation, self.done)
        produce(self.simulation, TP, MORE)
        self.runs, self.most_busy = 2, 0
        end_ms = self.simulation.clock.now_ms() + SOON_MS
        return lambda: len(self.done) == FIRST + MORE or self.simulation.clock.now_ms() > end_ms

    def check(self) -> None:
        assert self.done == set(range(FIRST + MORE))
        assert set(self._handled.values()) == {1}, self._handled.most_common(1)
        assert self.most_busy == WORKERS, "the others no longer work"
        check_commit(self.simulation, self.done)


@contextmanager
def world(seed: object, *, share: bool) -> Iterator[tuple[Simulation, Any]]:
    """A topic with records; for a share group, also how to start a member."""
    if share:
        with sharing(f"{seed}", brokers=1, count=FIRST) as found:
            yield found
        return
    with Simulation(f"{seed}") as simulation:
        simulation.cluster.create_topic("orders", 1)
        produce(simulation, TP, FIRST)
        yield simulation, None


# --- threads -------------------------------------------------------------------------------------


class Interrupts:
    """Raises KeyboardInterrupt in the waits of these numbers."""

    def __init__(self, driver: Any, numbers: set[int]) -> None:
        self._wait = driver.wait
        self._numbers = numbers
        self.count = 0
        driver.wait = self.wait

    def wait(self, *arguments: Any) -> bool:
        self.count += 1
        if self.count in self._numbers:
            raise KeyboardInterrupt
        return bool(self._wait(*arguments))


class SimulatedShareWorkers(ShareWorkers[Any, Any]):
    """Their handlers take simulated time, in an executor."""

    def __init__(self, simulation: Simulation, executor: Any, *arguments: Any, **options: Any):
        super().__init__(*arguments, workers=WORKERS, **options)
        self._executor = executor
        driver = self._consumer._core.driver
        self._runtime = Runtime(simulation.clock, driver, Random(1))

    def _crew_of(self, attempts: ShareAttempts) -> Any:
        settings: Any = replace(self._settings, workers=self._executor)
        return ExecutorCrew(attempts, settings, self._runtime.driver, self._executor)


class CountingExecutor(SimulatedExecutor):
    """Tells the ledger how many calls run."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(ledger.simulation, WORKERS, self._begun)
        self._ledger = ledger

    def submit(self, fn: Any, /, *arguments: Any, **_: Any) -> Any:
        return super().submit(partial(fn, *arguments, self._ledger.runs))

    def _begun(self) -> int:
        self._ledger.begin()
        return HANDLER_MS

    def _finish(self, *call: Any) -> None:
        self._ledger.end()
        super()._finish(*call)


def interrupted(kind: str, numbers: set[int]) -> int:
    """Interrupt one run in its waits of these numbers, run again; return how many waits it had."""
    share = kind == "ShareWorkers"
    with world(0, share=share) as (simulation, start):
        ledger = Ledger(simulation)
        executor = CountingExecutor(ledger)
        workers: Any
        if share:
            consumer = start()
            workers = SimulatedShareWorkers(
                simulation, executor, consumer, ledger.note, drain_timeout_ms=5_000
            )
        else:
            consumer = reader(simulation)
            workers = simulated_workers(
                simulation, consumer, ledger.note, drain_timeout_ms=5_000, **KEYED
            )
            workers._settings = replace(workers._settings, workers=executor)
            workers._letters = executor
        interrupts = Interrupts(consumer._core.driver, numbers)
        with suppress(KeyboardInterrupt):
            workers.run(until=ledger.enough)
        waits = interrupts.count
        numbers.clear()
        workers.run(until=ledger.again())
        ledger.check()
        return waits


@pytest.mark.parametrize("kind", ["KeyedWorkers", "ShareWorkers"])
@pytest.mark.parametrize("following", sample([0, 1, 2, 3, 5, 9], 3))
def test_a_run_that_is_interrupted_and_again_while_it_ends(kind: str, following: int) -> None:
    waits = interrupted(kind, set())
    assert waits > 20
    for number in range(1, waits):
        interrupted(kind, {number, number + following})


@pytest.mark.parametrize("kind", ["KeyedWorkers", "ShareWorkers"])
def test_a_run_whose_end_is_interrupted_again_and_again(kind: str) -> None:
    """The third Ctrl-C ends what gives back the rest; the next run does it."""
    waits = interrupted(kind, set())
    for number in range(waits // 2, waits):
        interrupted(kind, set(range(number, number + 4)))


# --- asyncio -------------------------------------------------------------------------------------


def cancelled(kind: str, at: int, mode: str) -> bool:
    """Cancel one run at a suspension, run again; return whether there was such a suspension."""
    canceller = Canceller(at, mode)
    share = kind == "AsyncShareWorkers"
    with world(at, share=share) as (simulation, _):
        ledger = Ledger(simulation)

        async def handle(record: Any) -> None:
            ledger.begin()
            run = ledger.runs
            try:
                await asyncio.sleep(HANDLER_MS / 1_000)
                ledger.note(record, run)
            finally:
                ledger.end()

        async def use(workers: Any) -> None:
            try:
                await canceller.attempt(workers.run(until=ledger.enough))
            except asyncio.CancelledError:
                assert canceller.struck
            assert len(asyncio.all_tasks()) == 1, "a task is left"
            await workers.run(until=ledger.again())
            assert len(asyncio.all_tasks()) == 1, "a task is left"

        async def main() -> None:
            if not share:
                async with simulation.async_consumer("orders", **OPTIONS) as consumer:
                    options = {"workers": WORKERS, "drain_timeout_ms": 5_000, **KEYED}
                    await use(workers_on(simulation, consumer, handle, **options))
                return
            member = await started(simulation)
            workers = AsyncShareWorkers(member, handle, workers=WORKERS, drain_timeout_ms=5_000)
            workers._runtime = replace(workers._runtime, clock=simulation.clock)
            try:
                await use(workers)
            finally:
                await member.close()

        simulation.run(main())
        ledger.check()
    return canceller.done


@pytest.mark.parametrize("kind", ["AsyncKeyedWorkers", "AsyncShareWorkers"])
@pytest.mark.parametrize("mode", MODES)
def test_a_run_that_is_cancelled_and_again_while_it_ends(kind: str, mode: str) -> None:
    at = 1
    while cancelled(kind, at, mode):
        at += 1
    assert at > 20
