"""The results of workers: a report, all samples, and a plot."""

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

__all__ = ["write_workers"]

_METHOD: Final = (
    "Medians of {runs} runs, with the rows taking turns. One broker and one member of a group "
    "share the machine."
)
_LOOP: Final = "workers-loop"


def _compared(results: Results) -> Iterator[str]:
    """Yield a table row for each figure that is compared with the loop."""
    for measure in results.measures():
        medians = results.medians(measure)
        loop = medians.pop(_LOOP, {})
        for name, found in medians.items():
            for figure in ("records_per_s", "cpu_us_per_record", "above_idle_mb"):
                if loop.get(figure) and figure in found:
                    times = f"{found[figure] / loop[figure]:.2f}x"
                    yield f"| {measure.title} | {CATALOGUE[name].title} | {figure} | {times} |"


def write_workers(results: Results, plan: Plan, folder: Path) -> list[str]:
    """Write `workers.md`, `workers.json` and `workers.png`; returns their names."""
    rows = ["| work | way | figure | times that of the loop |", "| --- | --- | --- | ---: |"]
    parts = ["# Benchmarks of workers", about("--only workers"), loads(results)]
    parts += [_METHOD.format(runs=plan.runs), "\n".join([*rows, *_compared(results)])]
    parts += ["![plot](workers.png)", *tables(results), *failures(results)]
    (folder / "workers.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    content = json.dumps(results.content(asdict(plan)), indent=1) + "\n"
    (folder / "workers.json").write_text(content, encoding="utf-8")
    plot(results, folder / "workers.png")
    return ["workers.md", "workers.json", "workers.png"]
