"""The Grafana dashboard names only metrics and labels that the collector exports."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.integration.polling import Consume, poll_until, read_all
from tests.kafka.broker import KafkaCluster

pytest.importorskip("prometheus_client")

from prometheus_client import CollectorRegistry

from tandem_kafka.prometheus import ConsumerCollector

DASHBOARD = Path(__file__).parents[2] / "dashboards" / "tandem-kafka.json"
_METRIC = re.compile(r"kafka_consumer_\w+")


def test_every_metric_of_the_dashboard_is_exported(
    kafka: KafkaCluster, topic: str, consume: Consume
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

    poll_until(consumer, lambda: "kafka_consumer_commit_latency_max" in labels())
    exported = labels()
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    panels = [target for panel in dashboard["panels"] for target in panel["targets"]]
    assert len(panels) >= len(dashboard["panels"]) > 10
    for target in panels:
        names = _METRIC.findall(target["expr"])
        assert names, target["expr"]
        for name in names:
            assert name in exported, f"{name} is not exported"
            used = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            assert used <= exported[name], target
