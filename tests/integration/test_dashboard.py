"""Dashboard, alert rules and runbook name only metrics and labels that the collector exports."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from pathlib import Path

import pytest

from tandem_kafka_testing.kafka import RealKafka
from tests.integration.polling import Consume, poll_until, read_all

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
_METRIC = re.compile(r"kafka_consumer_\w+")


def test_every_metric_that_is_named_is_exported(
    kafka: RealKafka, topic: str, consume: Consume
) -> None:
    kafka.admin.produce(topic, [b"x"] * 10)
    consumer = consume(topic, group_id=f"group-of-{topic}")
    read_all(consumer, 10)
    consumer.commit()
    registry = CollectorRegistry()
    registry.register(ConsumerCollector(consumer))

    def labels() -> dict[str, set[str]]:
        return {
            sample.name: set(sample.labels)
            for family in registry.collect()
            for sample in family.samples
        }

    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    panels = [target for panel in dashboard["panels"] for target in panel["targets"]]
    assert len(panels) >= len(dashboard["panels"]) > 10
    rules = ALERTS.read_text(encoding="utf-8").split("- alert: ")[1:]
    expressions = RUNBOOK.read_text(encoding="utf-8").splitlines()
    assert len(rules) > 5
    texts = [*(target["expr"] for target in panels), *rules, *expressions]
    wanted = {name for text in texts for name in _METRIC.findall(text)}
    with suppress(AssertionError):  # maxima appear with their first measurement
        poll_until(consumer, lambda: wanted <= labels().keys())
    exported = labels()
    assert wanted - exported.keys() == set()
    for target in panels:
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
