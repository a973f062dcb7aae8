"""Dashboard, alert rules and runbook name only metrics and labels that the collector exports."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.simulation.sharing import sharing, take

pytest.importorskip("prometheus_client")

from prometheus_client import CollectorRegistry

from tandem_kafka.observability import ConsumerCollector

ROOT = Path(__file__).parents[2]
DASHBOARD = ROOT / "dashboards" / "tandem-kafka.json"
#: One expression a line, whose labels are in braces, or after `by`.
ALERTS = ROOT / "dashboards" / "alerts.yml"
RUNBOOK = ROOT / "docs" / "how-to" / "lag-grows.md"
_LABELS = re.compile(r"\bby \(([\w, ]+)\)|\$labels\.(\w+)|[{,] ?(\w+)=")
#: Prometheus adds it.
_INSTANCE = "instance"
#: What each panel is chosen by.
CHOSEN = ['group_id=~"$group"', 'client_id=~"$client"']
#: Maxima are read by the clock of this machine, and measured by that of the simulation.
AGES = {"metrics_sample_window_ms": 10**15}
_METRIC = re.compile(r"kafka_consumer_\w+")


def labels_by_name() -> dict[str, set[str]]:
    """Return what a member of a group and one of a share group export, after some work."""
    with sharing("dashboard") as (simulation, start):
        member = simulation.consumer(
            "orders", group_id="billing", auto_offset_reset="earliest", **AGES
        )
        sharer = start(**AGES)
        member.poll(5_000)
        member.commit()
        for record in take(sharer, 3):
            record.accept()
        sharer.commit()
        member.poll(5_000)
        registry = CollectorRegistry()
        registry.register(ConsumerCollector(member, sharer))
        return {
            sample.name: set(sample.labels)
            for family in registry.collect()
            for sample in family.samples
        }


def test_every_metric_that_is_named_is_exported() -> None:
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    panels = [target for panel in dashboard["panels"] for target in panel["targets"]]
    assert len(panels) >= len(dashboard["panels"]) > 10
    rules = ALERTS.read_text(encoding="utf-8").split("- alert: ")[1:]
    expressions = RUNBOOK.read_text(encoding="utf-8").splitlines()
    assert len(rules) > 5
    texts = [*(target["expr"] for target in panels), *rules, *expressions]
    wanted = {name for text in texts for name in _METRIC.findall(text)}
    exported = labels_by_name()
    assert wanted - exported.keys() == set()
    for target in panels:
        assert re.findall(r"\w+=~\"\$\w+\"", target["expr"])[:2] == CHOSEN
        names = _METRIC.findall(target["expr"])
        assert names, target["expr"]
        used = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
        for name in names:
            assert used <= exported[name], target
    for text in [*rules, *expressions]:
        used = {
            label
            for found in _LABELS.findall(text)
            for label in re.findall(r"\w+", " ".join(found))
        }
        for name in _METRIC.findall(text):
            assert used <= exported[name] | {_INSTANCE}, text
