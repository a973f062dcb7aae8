"""The results of options: a report, all samples, and the tables in docs/numbers/performance.md."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Final

from benchmarks.plan import Plan
from benchmarks.report import Results, about, failures, loads, tables

__all__ = ["write_options"]

_RESULTS: Final = Path(__file__).parents[1] / "results"
_PAGE: Final = Path(__file__).parents[2] / "docs" / "numbers" / "performance.md"
_BEGIN: Final = "<!-- written by `make bench`: begin -->\n"
_END: Final = "<!-- end -->"
_METHOD: Final = (
    "Medians of {runs} runs, with the rows taking turns. Each row is this consumer with one "
    "change; the row “tandem-kafka” has all defaults. “times” says how many times as fast the "
    "defaults are: below 1, the change is a gain."
)


def write_options(results: Results, plan: Plan, folder: Path) -> list[str]:
    """Write `options.md`, `options.json` and the tables in the docs; returns the names."""
    parts = [about("--only options"), loads(results), _METHOD.format(runs=plan.runs)]
    parts += [*tables(results), *failures(results)]
    text = "\n\n".join(["# Benchmarks of options", *parts]) + "\n"
    (folder / "options.md").write_text(text, encoding="utf-8")
    content = json.dumps(results.content(asdict(plan)), indent=1) + "\n"
    (folder / "options.json").write_text(content, encoding="utf-8")
    if folder.resolve() == _RESULTS:
        _into_page("\n\n".join(parts).replace("\n## ", "\n### "))
    return ["options.md", "options.json"]


def _into_page(text: str) -> None:
    page = _PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    _PAGE.write_text(f"{before}{_BEGIN}\n{text}\n\n{_END}{after}", encoding="utf-8")
