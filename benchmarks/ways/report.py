"""The results of the usual ways of reading: a report, all samples, and a plot."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Final

from benchmarks.plan import Plan
from benchmarks.plot import plot
from benchmarks.readers.catalogue import CATALOGUE
from benchmarks.report import Results, about, failures, loads, tables
from benchmarks.ways.plan import GOALS

__all__ = ["goals", "write_columns", "write_ways"]

_METHOD: Final = (
    "Medians of {runs} runs, with the rows taking turns. One broker and one reader at a time share "
    "the machine. Every reader has a separate process and reads four partitions without a group. "
    "confluent-kafka is tuned as in “Throughput”. kafka-python has the crc32c package."
)


def goals(results: Results) -> Iterator[tuple[str, str, str, str, str]]:
    """Yield each measured target: work, way, target, measured factor, verdict."""
    known = {measure.name: measure for measure in results.measures()}
    for goal in GOALS:
        if goal.measure not in known:
            continue
        medians = results.medians(known[goal.measure])
        if goal.way in medians and goal.other in medians:
            rates = [medians[name]["records_per_s"] for name in (goal.way, goal.other)]
            found = rates[0] / rates[1]
            target = f"at least {goal.factor:g}x {CATALOGUE[goal.other].title}"
            verdict = "met" if found >= goal.factor else "**missed**"
            title = known[goal.measure].title
            yield title, CATALOGUE[goal.way].title, target, f"{found:.2f}x", verdict


def write_columns(results: Results, plan: Plan, folder: Path) -> list[str]:
    """Write the results of the ways to Arrow columns; returns the names of the files."""
    return write_ways(results, plan, folder, "columns")


def write_ways(results: Results, plan: Plan, folder: Path, name: str = "ways") -> list[str]:
    """Write `ways.md`, `ways.json` and `ways.png`; returns their names."""
    rows = ["| work | way | target | measured |  |", "| --- | --- | --- | --- | --- |"]
    rows += [f"| {' | '.join(row)} |" for row in goals(results)]
    parts = ["# Benchmarks of the usual ways of reading", about(f"--only {name}"), loads(results)]
    parts += [_METHOD.format(runs=plan.runs), "\n".join(rows), f"![plot]({name}.png)"]
    parts += [*tables(results), *failures(results)]
    (folder / f"{name}.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    content = json.dumps(results.content(asdict(plan)), indent=1) + "\n"
    (folder / f"{name}.json").write_text(content, encoding="utf-8")
    plot(results, folder / f"{name}.png")
    return [f"{name}.{suffix}" for suffix in ("md", "json", "png")]
