"""The results of share groups: a report and all samples."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Final

from benchmarks.report import Results, about, failures, loads, tables
from benchmarks.share.plan import SharePlan

__all__ = ["write_share"]

_METHOD: Final = (
    "Medians of {runs} processes per row, with {records:,} records each, and the rows taking "
    "turns. One broker runs on the same machine. Every client has its defaults; confluent-kafka's "
    "`ShareConsumer` is a preview."
)


def write_share(results: Results, plan: SharePlan, folder: Path) -> list[str]:
    """Write `share.md` and `share.json`; returns their names."""
    method = _METHOD.format(runs=plan.runs, records=plan.records)
    parts = ["# Benchmarks of share groups", about("--only share"), loads(results), method]
    parts += [*tables(results), *failures(results)]
    (folder / "share.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    content = json.dumps(results.content(asdict(plan)), indent=1) + "\n"
    (folder / "share.json").write_text(content, encoding="utf-8")
    return ["share.md", "share.json"]
