"""The results of the start: a report and all samples."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from benchmarks.report import Results, about, failures, loads, tables, targets

__all__ = ["write_start"]

_METHOD: Final = (
    "Medians of {runs} processes per row, with the rows taking turns. One broker runs on the same "
    "machine. Every client has its defaults."
)


def write_start(results: Results, runs: int, folder: Path) -> list[str]:
    """Write `start.md` and `start.json`; returns their names."""
    parts = ["# Benchmarks of the start", about("--only start"), loads(results)]
    parts += [_METHOD.format(runs=runs), *targets(results), *tables(results), *failures(results)]
    (folder / "start.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    content = json.dumps(results.content({"runs": runs}), indent=1) + "\n"
    (folder / "start.json").write_text(content, encoding="utf-8")
    return ["start.md", "start.json"]
