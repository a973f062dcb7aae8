"""What a notebook shows: counts instead of records, and nothing that would be HTML by itself."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest

from tandem_kafka import Health, TopicPartition
from tandem_kafka.consumer.health import PartitionHealth
from tandem_kafka.consumer.reading.records import ConsumerRecords
from tandem_kafka_testing.laboratory import SimulatedKafka


def test_a_batch_is_its_partitions(kafka_cluster: SimulatedKafka) -> None:
    kafka_cluster.create_topic("orders", 2)
    kafka_cluster.produce("orders", *[b"<secret>"] * 500, partition=1)
    consumer = kafka_cluster.consumer("orders", group_id="g", auto_offset_reset="earliest")
    shown = consumer.poll(30_000)._repr_html_()
    assert "<p>500 records</p>" in shown
    assert "<tr><td>orders-1</td><td>0</td><td>499</td><td>500</td></tr>" in shown
    assert "secret" not in shown
    assert "orders-0" not in shown


def test_names_cannot_change_the_page() -> None:
    name = '<script>"&\u202e\x1b[2J'
    batch: Any = ConsumerRecords()
    batch[TopicPartition(name, 0)] = [SimpleNamespace(offset=3)]
    health = Health(
        not_alive=(name,),
        not_ready=(name,),
        client_id=name,
        group_id=name,
        buffer_limit_bytes=1,
        partitions={TopicPartition(name, 0): PartitionHealth(None, None, False, name)},
        troubles=(name,),
    )
    for shown in (batch._repr_html_(), health._repr_html_()):
        assert "&lt;script&gt;" in shown
        assert not {"<script>", "\u202e", "\x1b", '"'} & {*shown, *re.findall("<.*?>", shown)}


def test_the_health_is_its_reasons_and_its_partitions() -> None:
    health = Health(
        not_alive=(),
        not_ready=("no leader for <b>",),
        client_id="c",
        group_id="g",
        buffer_limit_bytes=1,
        partitions={TopicPartition("orders", 0): PartitionHealth(None, 3, True, "no leader")},
    )
    shown = health._repr_html_()
    assert "c, group &#x27;g&#x27;: not ready" in shown
    assert "<li>no leader for &lt;b&gt;</li>" in shown
    assert "<td>unknown</td><td>3</td><td>paused; no leader</td>" in shown


@pytest.mark.parametrize(
    ("not_alive", "not_ready", "state"),
    [
        ((), (), "ready"),
        ((), ("no broker",), "not ready"),
        (("closed",), ("closed",), "not alive"),
    ],
)
def test_the_health_says_once_each_why(
    not_alive: tuple[str, ...], not_ready: tuple[str, ...], state: str
) -> None:
    health = Health(
        not_alive=not_alive,
        not_ready=not_ready,
        client_id="c",
        group_id=None,
        buffer_limit_bytes=1,
        troubles=("a slow handler", *not_ready),
    )
    shown = health._repr_html_()
    assert f"<p><b>c: {state}</b></p>" in shown
    reasons = dict.fromkeys((*not_alive, *not_ready, "a slow handler"))
    assert f"<ul>{''.join(f'<li>{each}</li>' for each in reasons)}</ul>" in shown
