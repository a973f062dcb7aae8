"""docs/reference/metrics.md lists exactly the metrics of a consumer."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from tandem_kafka_testing import Simulation
from tests.scenarios.numbered_records import create_topic, produce
from tests.simulation.sharing import sharing, take

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "reference" / "metrics.md"

#: A group, the names of its tags besides client-id, and a name.
Metric = tuple[str, tuple[str, ...], str]


def documented() -> set[Metric]:
    """Read the tables: the paragraph before each one names the group and the tags."""
    found: set[Metric] = set()
    paragraph = ""
    for block in PAGE.read_text(encoding="utf-8").split("\n\n"):
        if block.startswith("Group `"):
            paragraph = block
        elif paragraph and block.startswith("| name |"):
            group = re.match(r"Group `([a-z-]+)(\.node-<name>)?`", paragraph)
            tags = re.search(r"\(tags? ([^)]*)\)", paragraph)
            assert group is not None
            names = tuple(sorted(re.findall(r"`(\w+)`", tags[1]))) if tags else ()
            rows = re.findall(r"^\| `([a-z-]+)` \|", block, re.MULTILINE)
            found.update((group[1], names, name) for name in rows)
            paragraph = ""
    return found


def measured_by(consumer: Any) -> set[Metric]:
    """Return the metrics of a consumer."""
    return {
        (
            re.sub(r"\.node-.*", "", name.group),
            tuple(sorted(tag for tag in name.tags if tag != "client-id")),
            name.name,
        )
        for name in consumer.metrics(raw=True)
    }


def test_the_page_lists_the_metrics_of_a_share_consumer() -> None:
    with sharing("metrics") as (_, start):
        consumer = start()
        take(consumer, 3)
        measured = measured_by(consumer)
    listed = documented()
    own = ("consumer-share-fetch-manager-metrics", "consumer-share-coordinator-metrics")
    assert {each for each in measured if each[0] in own} == {
        each for each in listed if each[0] in own
    }
    others = {each for each in measured if each[0] not in own}
    others = {(group.replace("-share", ""), tags, name) for group, tags, name in others}
    assert others <= listed
    left_out = {each for each in listed - others if "-share" not in each[0]}
    left_out = {
        each for each in left_out if each[0] in ("consumer-metrics", "consumer-node-metrics")
    }
    assert left_out == {("consumer-metrics", (), "fetch-buffer-bytes")}


def test_the_page_lists_the_metrics_that_exist() -> None:
    with Simulation("metrics") as simulation:
        for partition in create_topic(simulation, "orders", 2):
            produce(simulation, partition, 10)
        consumer = simulation.consumer("orders", group_id="readers", auto_offset_reset="earliest")
        while not any(consumer.poll(500).values()):
            pass
        measured = measured_by(consumer)
    listed = {each for each in documented() if "-share" not in each[0]}
    assert measured - listed == set(), "metrics that the page lacks"
    assert listed - measured == set(), "metrics on the page that do not exist"
