"""The results of groups: a report and all samples."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from benchmarks.groups.plan import BROKER, GroupPlan
from benchmarks.readers.catalogue import CATALOGUE, OURS
from benchmarks.report import Results, about, failures, loads, tables

__all__ = ["write_groups"]

_METHOD = (
    "One broker with the settings of `packages/testing/tandem_kafka_testing/kafka/settings.py` and "
    "{settings}. Every member has a separate process and the defaults of its client, except for a "
    "heartbeat interval of a second in the classic protocol. Medians of {runs} runs for the first "
    "record and of {pauses} for the pause, with the clients taking turns. Topics have {partitions} "
    "partitions, and the steady stream has {per_second:,.0f} records a second. “times” compares "
    "the figure that orders the table with that of {ours}: above 1, {ours} is better by "
    "this factor."
)


def write_groups(results: Results, plan: GroupPlan, folder: Path) -> list[str]:
    """Write `groups.md` and `groups.json`; returns their names."""
    settings = ", ".join(f"`{name}={value}`" for name, value in BROKER.items())
    method = _METHOD.format(settings=settings, ours=CATALOGUE[OURS].title, **asdict(plan))
    parts = ["# Benchmarks of groups", about("--only groups"), loads(results), method]
    parts += tables(results)
    parts += failures(results)
    (folder / "groups.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    content = results.content({**asdict(plan), "broker": BROKER})
    (folder / "groups.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return ["groups.md", "groups.json"]
