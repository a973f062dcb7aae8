"""Every group and name that kafka-python measures is measured here too."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.admin import Record
from tests.integration.polling import Consume, read_all
from tests.integration.reference import in_kafka_python

pytestmark = pytest.mark.full("takes long on a real broker")

Values = dict[str, dict[str, float]]

READ = """
count = 0
while count < 100:
    count += sum(map(len, consumer.poll(timeout_ms=1_000).values()))
consumer.commit()
consumer.poll(timeout_ms=3_500)
raw = [(name.group, name.name, sorted(name.tags.items())) for name in consumer.metrics(raw=True)]
result = [consumer.metrics(), sorted(raw)]
"""


@pytest.mark.parametrize("grouped", [True, False])
def test_names_and_tags(kafka: RealKafka, consume: Consume, grouped: bool) -> None:
    topic = kafka.admin.create_topic(f"of.metrics-{grouped}", 2)
    records = [Record(b"x" * 100, partition=partition) for partition in (0, 1)] * 50
    kafka.admin.produce(topic, records)
    options: dict[str, Any] = {
        "bootstrap_servers": kafka.bootstrap(),
        "client_id": "measured",
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
    }
    program = READ if grouped else READ.replace("consumer.commit()", "")
    group = f"reference-{topic}" if grouped else None
    theirs, their_names = in_kafka_python(program, topic, group_id=group, **options)

    consumer = consume(topic, group_id=f"ours-{topic}" if grouped else None, **options)
    assert len(read_all(consumer, 100)) == 100
    if grouped:
        consumer.commit()
    consumer.poll(timeout_ms=3_500)
    ours = consumer.metrics()
    our_names = [
        [name.group, name.name, [list(tag) for tag in sorted(name.tags.items())]]
        for name in consumer.metrics(raw=True)
    ]
    assert [name for name in their_names if name not in our_names] == []
    for group_name, values in theirs.items():
        assert values.keys() <= ours[group_name].keys()
    assert_plausible(theirs, ours)


def assert_plausible(theirs: Values, ours: Values) -> None:
    """Compare the metrics of both after the same reads."""
    fetching = "consumer-fetch-manager-metrics"
    assert ours[fetching]["records-lag-max"] == theirs[fetching]["records-lag-max"] == 0
    for group, name in (
        (fetching, "bytes-consumed-rate"),
        (fetching, "records-consumed-rate"),
        (fetching, "fetch-latency-max"),
        ("consumer-metrics", "incoming-byte-rate"),
        ("consumer-metrics", "outgoing-byte-rate"),
        ("consumer-metrics", "request-latency-max"),
        ("consumer-metrics", "request-size-avg"),
        ("consumer-node-metrics.node-1", "request-rate"),
        ("consumer-node-metrics.node-bootstrap-0", "response-rate"),
    ):
        assert ours[group][name] > 0, name
        assert 1 / 10 < ours[group][name] / theirs[group][name] < 10, name
    total, nodes = (
        ours["consumer-metrics"],
        [values for group, values in ours.items() if group.startswith("consumer-node-metrics.")],
    )
    for name in ("request-rate", "response-rate"):
        assert math.isclose(total[name], sum(node[name] for node in nodes), rel_tol=0.1)
    operations = total["request-rate"] + total["response-rate"]
    assert math.isclose(total["network-io-rate"], operations, rel_tol=0.1)


def test_records_lag_max_is_the_lag_behind_a_poll(
    kafka: RealKafka, topic: str, consume: Consume
) -> None:
    kafka.admin.produce(topic, [b"x"] * 50)
    consumer = consume(topic, group_id=f"group-of-{topic}", max_poll_records=10)
    read_all(consumer, 10)
    fetching = consumer.metrics()["consumer-fetch-manager-metrics"]
    assert fetching["records-lag-max"] == 40
    read_all(consumer, 40)
    fetching = consumer.metrics()["consumer-fetch-manager-metrics"]
    assert fetching["records-lag-max"] == 40  # the highest of the window
