"""The results of options: a report and all samples."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Final

from benchmarks.plan import Plan
from benchmarks.report import Results, about, failures, loads, tables

__all__ = ["recorded", "write_options"]

_RESULTS: Final = Path(__file__).parents[1] / "results"
_METHOD: Final = (
    "Medians of {runs} runs, with the rows taking turns. Each row is this consumer with one "
    "change; the row “tandem-kafka” has all defaults. “times” says how many times as fast the "
    "defaults are: below 1, the change is a gain."
)


def write_options(results: Results, plan: Plan, folder: Path) -> list[str]:
    """Write `options.md` and `options.json`; returns the names."""
    parts = [about("--only options"), loads(results), _METHOD.format(runs=plan.runs)]
    parts += [*tables(results), *failures(results)]
    text = "\n\n".join(["# Benchmarks of options", *parts]) + "\n"
    (folder / "options.md").write_text(text, encoding="utf-8")
    content = json.dumps(results.content(asdict(plan)), indent=1) + "\n"
    (folder / "options.json").write_text(content, encoding="utf-8")
    return ["options.md", "options.json"]


def recorded() -> str:
    """Return the report that is kept, for a section of the manual."""
    _, _, report = (_RESULTS / "options.md").read_text(encoding="utf-8").partition("\n\n")
    return report.replace("\n## ", "\n### ")
