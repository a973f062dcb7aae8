"""Names, selection and values of pushed metrics; their compression."""

from __future__ import annotations

import gzip

import cramjam
import pytest

from tandem_kafka.config import Config
from tandem_kafka.metrics import CONSUMER, ConsumerMetrics
from tandem_kafka.records.compression import decompress
from tandem_kafka.request_managers.telemetry.compression import compress
from tandem_kafka.request_managers.telemetry.measurements import Measurements, is_requested
from tandem_kafka.request_managers.telemetry.otlp import Point
from tandem_kafka_testing import SimClock

CONSUMED = "org.apache.kafka.consumer.fetch.manager.records.consumed.total"
DATA = b"records.consumed.total" * 5_000


class Measured:
    def __init__(self, **options: object) -> None:
        self.clock = SimClock()
        config = Config.from_options({"bootstrap_servers": "localhost:1", **options})
        self.metrics = ConsumerMetrics(config, self.clock)
        self.measurements = Measurements(self.metrics, config.metric_group_prefix, self.clock)

    def points(self, *prefixes: str, delta: bool = False) -> dict[str, Point]:
        return {each.name: each for each in self.measurements.points(prefixes, delta=delta)}


@pytest.mark.parametrize(
    ("prefixes", "requested"),
    [
        (("*",), True),
        (("",), True),
        ((CONSUMED,), True),
        (("org.apache.kafka.producer.", "org.apache.kafka.consumer.fetch"), True),
        (("org.apache.kafka.producer.",), False),
        (("*", "org.apache.kafka.producer."), False),
        ((), False),
    ],
)
def test_prefixes(prefixes: tuple[str, ...], requested: bool) -> None:
    assert is_requested(CONSUMED, prefixes) is requested


@pytest.mark.parametrize("prefix", ["consumer", "mine-own"])
def test_names_are_those_of_the_java_client(prefix: str) -> None:
    measured = Measured(metric_group_prefix=prefix)
    measured.metrics.traffic("7")
    measured.metrics.gauge("connection-count", CONSUMER, "open connections", lambda: 2)
    names = measured.points("*")
    assert {
        CONSUMED,
        "org.apache.kafka.consumer.connection.count",
        "org.apache.kafka.kafka.count.count",
        "org.apache.kafka.consumer.connection.creation.rate",
        "org.apache.kafka.consumer.coordinator.rebalance.latency.avg",
        "org.apache.kafka.consumer.poll.idle.ratio.avg",
        "org.apache.kafka.consumer.node.request.latency.max",
    } <= names.keys()
    assert names["org.apache.kafka.consumer.node.request.latency.max"].attributes == {
        "node_id": "node-7"
    }
    assert not names[CONSUMED].attributes


def test_tags_of_a_topic() -> None:
    measured = Measured()
    measured.metrics.record_topic("records", "orders", 5)
    found = list(measured.measurements.points((CONSUMED,), delta=False))
    assert [(dict(each.attributes), each.value) for each in found] == [
        ({}, 0.0),
        ({"topic": "orders"}, 5.0),
    ]


def test_a_sum_is_cumulative_or_a_difference_and_a_gauge_never_is() -> None:
    measured = Measured()
    began_ns = measured.clock.wall_ms() * 1_000_000
    average = "org.apache.kafka.consumer.fetch.manager.fetch.size.avg"
    found: list[tuple[bool, Point]] = []
    for delta in (False, True, True):
        measured.clock.advance_to(measured.clock.now_ms() + 1_000)
        measured.metrics.record("records", 10)
        measured.metrics.record("fetch-size", 100)
        points = measured.points(CONSUMED, average, delta=delta)
        assert (points[average].value, points[average].start_ns) == (100.0, None)
        found.append((delta, points[CONSUMED]))
    assert [(delta, each.value, each.delta) for delta, each in found] == [
        (False, 10.0, False),
        (True, 20.0, True),
        (True, 10.0, True),
    ]
    times = [(each.start_ns, each.time_ns) for _, each in found]
    assert times[0][0] == times[1][0] == began_ns
    assert times[2][0] == times[1][1] == times[2][1] - 1_000_000_000


def test_an_unmeasured_maximum_is_zero() -> None:
    name = "org.apache.kafka.consumer.fetch.manager.fetch.latency.max"
    assert Measured().points(name)[name].value == 0.0


@pytest.mark.parametrize(
    ("accepted", "chosen"),
    [((4, 3, 1, 2), 4), ((3, 1), 1), ((2, 4), 2), ((3,), 0), ((9,), 0), ((), 0)],
)
def test_the_first_supported_compression(accepted: tuple[int, ...], chosen: int) -> None:
    kind, packed = compress(DATA, accepted)
    assert kind == chosen
    readers = {
        0: bytes,
        1: gzip.decompress,
        2: lambda data: bytes(decompress(2, memoryview(data), len(DATA))),
        4: lambda data: bytes(cramjam.zstd.decompress(data)),
    }
    assert readers[kind](packed) == DATA
    assert kind == 0 or len(packed) < len(DATA) / 2
