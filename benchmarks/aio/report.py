"""The results of clients for asyncio: a report, all samples, and a plot."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Final

from benchmarks.plan import Plan
from benchmarks.plot import plot
from benchmarks.report import Results, about, failures, loads, tables, targets

__all__ = ["write_aio"]

_METHOD: Final = (
    "Medians of {runs} runs, with the rows taking turns. One broker and one reader at a time share "
    "the machine. Every reader has a separate process with asyncio's own event loop, and reads "
    "four partitions without a group. “tuned” stands for the settings of “Throughput”."
)


def write_aio(results: Results, plan: Plan, folder: Path) -> list[str]:
    """Write `aio.md`, `aio.json` and `aio.png`; returns their names."""
    parts = ["# Benchmarks of clients for asyncio", about("--only aio"), loads(results)]
    parts += [_METHOD.format(runs=plan.runs), *targets(results), "![plot](aio.png)"]
    parts += [*tables(results), *failures(results)]
    (folder / "aio.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    content = json.dumps(results.content(asdict(plan)), indent=1) + "\n"
    (folder / "aio.json").write_text(content, encoding="utf-8")
    plot(results, folder / "aio.png")
    return ["aio.md", "aio.json", "aio.png"]
