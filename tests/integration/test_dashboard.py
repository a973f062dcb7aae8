"""The Grafana dashboard names only metrics and labels that the collector exports."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from pathlib import Path

import pytest

from tandem_kafka.testing.kafka import RealKafka
from tests.integration.polling import Consume, poll_until, read_all

pytest.importorskip("prometheus_client")

from prometheus_client import CollectorRegistry

from tandem_kafka.prometheus import ConsumerCollector

DASHBOARD = Path(__file__).parents[2] / "dashboards" / "tandem-kafka.json"
_METRIC = re.compile(r"kafka_consumer_\w+")


def test_every_metric_of_the_dashboard_is_exported(
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
    wanted = {name for target in panels for name in _METRIC.findall(target["expr"])}
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
