"""Seconds on the clock and seconds of processors: of the JVMs, and of the Python below them."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tests.spark.processes import descendants

__all__ = ["Cost", "Processors", "costs", "percentile"]

K = TypeVar("K")
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Cost:
    """What one act took, in seconds."""

    wall: float
    jvm: float
    children: float

    @property
    def processors(self) -> float:
        """Of all processes together."""
        return self.jvm + self.children


@dataclass(frozen=True, slots=True)
class _Process:
    parent: int
    is_jvm: bool
    #: Its own, and of children that it has waited for.
    seconds: float
    waited_for: float


class Processors:
    """Seconds of Spark's processes. The broker and this process are not among them."""

    def __init__(self, jvm: int) -> None:
        self._jvm = jvm
        #: Workers that were there when somebody looked last. Nobody waits for those that end.
        self._workers: dict[int, _Process] = {}

    def spent(self) -> tuple[float, float]:
        """Return seconds of the JVMs and of what is below them, since they began."""
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
        # A parent that waits for a child takes over its seconds.
        below += sum(each.waited_for for each in there.values())
        return jvm, below + sum(each.seconds for each in ended)

    def cost(self, act: Callable[[], object]) -> Cost:
        """Do something, and return what it took.

        Workers that begin and end meanwhile take their seconds along.
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
    """Have all take turns, each second round backwards, and return the medians of each.

    Args:
        processors: Of the session.
        acts: What is measured, by name.
        rounds: That count.
        before: What is done before each act, and not counted.
        warm_up: Rounds before them, that do not count.
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
    """Return the value that so many of a hundred do not exceed."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share / 100))]
