"""Elapsed seconds and CPU seconds, of the JVMs and of their child processes."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from benchmarks.spark.processes import descendants

__all__ = ["Cost", "Processors", "costs", "percentile"]

K = TypeVar("K")
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one act, in seconds."""

    wall: float
    jvm: float
    children: float

    @property
    def processors(self) -> float:
        """CPU seconds of all processes."""
        return self.jvm + self.children


@dataclass(frozen=True, slots=True)
class _Process:
    parent: int
    is_jvm: bool
    #: Its own, and those of children that it has waited for.
    seconds: float
    waited_for: float


class Processors:
    """CPU seconds of Spark's processes, without the broker and this process."""

    def __init__(self, jvm: int) -> None:
        self._jvm = jvm
        #: The workers at the last check. No process waits for ended ones, so they are kept here.
        self._workers: dict[int, _Process] = {}

    def spent(self) -> tuple[float, float]:
        """Return the CPU seconds of the JVMs and of their descendants since their start."""
        everyone = _processes()
        parents = {pid: each.parent for pid, each in everyone.items()}
        family = {self._jvm} | descendants(self._jvm, parents)
        there = {pid: everyone[pid] for pid in family if pid in everyone}
        self._workers |= {
            pid: each
            for pid, each in there.items()
            if each.parent in there and not each.is_jvm and not there[each.parent].is_jvm
        }
        ended = [each for pid, each in self._workers.items() if pid not in there]
        jvm = sum(each.seconds for each in there.values() if each.is_jvm)
        below = sum(each.seconds for each in there.values() if not each.is_jvm)
        # The seconds of a child move to the parent that waits for it.
        below += sum(each.waited_for for each in there.values())
        return jvm, below + sum(each.seconds for each in ended)

    def cost(self, act: Callable[[], object]) -> Cost:
        """Run `act`, and return its cost.

        The seconds of workers that start and end in the meantime are lost.
        """
        jvm, children = self.spent()
        begin = time.perf_counter()
        act()
        wall = time.perf_counter() - begin
        jvm_after, children_after = self.spent()
        return Cost(wall, jvm_after - jvm, max(0.0, children_after - children))


def _processes() -> dict[int, _Process]:
    found = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            text = (folder / "stat").read_text(encoding="utf-8")
        except OSError:
            continue
        name = text[text.index("(") + 1 : text.rindex(")")]
        fields = text[text.rindex(")") + 2 :].split()
        own, waited_for = (
            sum(int(field) for field in fields[at : at + 2]) / _TICKS for at in (11, 13)
        )
        found[int(folder.name)] = _Process(int(fields[1]), name == "java", own, waited_for)
    return found


def costs(
    processors: Processors,
    acts: Mapping[K, Callable[[], object]],
    rounds: int,
    *,
    before: Callable[[], object] = lambda: None,
    warm_up: int = 1,
) -> dict[K, Cost]:
    """Run the acts in turns, every second round in reverse order, and return the medians.

    Args:
        processors: The CPU seconds of the session.
        acts: The measured functions, by name.
        rounds: The number of measured rounds.
        before: Runs before each act, without being measured.
        warm_up: The number of rounds before the measured ones.
    """
    spent: dict[K, list[Cost]] = {name: [] for name in acts}
    for number in range(warm_up + rounds):
        for name in list(acts)[:: -1 if number % 2 else 1]:
            before()
            cost = processors.cost(acts[name])
            if number >= warm_up:
                spent[name].append(cost)
    return {name: _medians(each) for name, each in spent.items()}


def _medians(each: list[Cost]) -> Cost:
    return Cost(
        statistics.median(cost.wall for cost in each),
        statistics.median(cost.jvm for cost in each),
        statistics.median(cost.children for cost in each),
    )


def percentile(values: list[float], share: float) -> float:
    """Return a percentile of the values."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share / 100))]
