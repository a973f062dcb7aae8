"""Measurements are collected before they are written, but readers see all of them."""

from __future__ import annotations

import threading
from contextlib import suppress
from math import isfinite

import pytest
from kafka.metrics import MetricConfig
from kafka.metrics import stats as theirs

from tandem_kafka.config import Config
from tandem_kafka.metrics import FLUSH_MS, ConsumerMetrics, ReaderMeasurements
from tandem_kafka.metrics import statistics as ours
from tandem_kafka.metrics.statistics import Batch
from tandem_kafka.network.pool import NetworkMeter
from tandem_kafka.network.request import Purpose
from tests.tier import bytecodes
from tests.unit.interrupts import Interrupter

MEASURED = [3.0, 11.0, 4.0, 0.5]
CONFIG = MetricConfig(samples=2, time_window_ms=30_000)


class Time:
    def __init__(self) -> None:
        self.ms = 1_000_000

    def now_ms(self) -> int:
        return self.ms

    def after_ms(self, duration_ms: float) -> int:
        return self.now_ms() + int(duration_ms)

    def wall_ms(self) -> int:
        return self.ms


@pytest.mark.parametrize(
    ("mine", "other"),
    [
        (ours.Avg, theirs.Avg),
        (ours.Max, theirs.Max),
        (ours.Total, theirs.Total),
        (ours.rate, theirs.Rate),
        (ours.occurrence_rate, lambda: theirs.Rate(sampled_stat=theirs.Count())),
    ],
    ids=["avg", "max", "total", "rate", "occurrence rate"],
)
def test_a_batch_equals_its_measurements(mine, other) -> None:
    many, single = mine(), other()
    for now_ms in (1_000, 20_000, 45_000, 80_000, 200_000):  # windows start and end between them
        many.record(CONFIG, Batch(len(MEASURED), sum(MEASURED), max(MEASURED)), now_ms)
        for value in MEASURED:
            single.record(CONFIG, value, now_ms)
        assert many.measure(CONFIG, now_ms + 7) == pytest.approx(single.measure(CONFIG, now_ms + 7))


def test_two_threads_meet_a_new_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread of poll() and any that reads metrics, which collects standing fetches."""
    metrics = ConsumerMetrics(Config.from_options({}), Time())
    registry = metrics._registry
    remove = registry.remove_metric
    sizes = (2, 30, 20)
    other = threading.Thread(target=lambda: metrics.record_all("fetch-size", sizes, "orders"))
    met: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", met.append)

    def meet(name: object) -> None:
        remove(name)
        if not other.ident:
            other.start()
            other.join(0.2)  # it cannot end before this thread has created the sensor

    monkeypatch.setattr(registry, "remove_metric", meet)
    metrics.record_all("fetch-size", sizes, "orders")
    other.join()
    assert met == []
    values = metrics.values() or {}
    assert values["consumer-fetch-manager-metrics.topic-orders"]["fetch-size-avg"] == 15


def test_occurrences_are_counted_whatever_is_measured() -> None:
    occurrences = ours.Occurrences()
    occurrences.record(CONFIG, Batch(4, 18.5, 11.0), 1_000)
    assert occurrences.measure(CONFIG, 1_000) == 4


def test_measurements_are_visible_when_metrics_are_read() -> None:
    time = Time()
    metrics = ConsumerMetrics(Config.from_options({"bootstrap_servers": "localhost:1"}), time)
    for value in MEASURED:  # the first is written immediately, the others wait
        metrics.record("records", value)
        metrics.record_topic("records", "orders", value)
    time.ms += FLUSH_MS // 2
    values = metrics.values()
    assert values is not None
    for group in ("fetch-manager-metrics", "fetch-manager-metrics.topic-orders"):
        found = values[f"consumer-{group}"]
        assert found["records-consumed-total"] == sum(MEASURED)
        assert found["records-per-request-avg"] == pytest.approx(sum(MEASURED) / len(MEASURED))


def test_a_metric_object_held_by_a_reporter_is_at_most_a_moment_old() -> None:
    time = Time()
    metrics = ConsumerMetrics(Config.from_options({"bootstrap_servers": "localhost:1"}), time)
    (total,) = [
        metric for name, metric in metrics.raw().items() if name.name == "records-consumed-total"
    ]
    metrics.record("records", 5)
    time.ms += FLUSH_MS
    metrics.record("records", 6)
    assert total.value(time.ms) == 11


def test_metrics_of_a_topic_survive_an_interrupt_while_they_are_made() -> None:
    for at in bytecodes():
        metrics = ConsumerMetrics(Config(), Time())
        interrupter = Interrupter(at)
        with suppress(KeyboardInterrupt):
            interrupter.call(metrics.record_topic, "records", "orders", 1)
        metrics.record_topic("records", "orders", 2)
        group = metrics.values()["consumer-fetch-manager-metrics.topic-orders"]
        assert group["records-consumed-total"] in {2, 3}
        if interrupter.frame is None:
            break
    assert at > 500


def test_traffic_is_measured_per_broker_and_in_total() -> None:
    time = Time()
    metrics = ConsumerMetrics(Config.from_options({"bootstrap_servers": "localhost:1"}), time)
    meter = NetworkMeter(metrics)
    for node_id, purpose, size in (
        (-1, Purpose.MAIN, 10),
        (7, Purpose.FETCH_0, 20),
        (7, Purpose.MAIN, 30),
        (7, Purpose.GROUP, 40),
    ):
        traffic = meter.of(node_id, purpose)
        traffic.sent(size)
        traffic.received(10 * size)
        traffic.responded(size, 0)
        time.ms += 1
    values = metrics.values()
    sizes = {
        group.removeprefix("consumer-"): (found["request-size-avg"], found["request-size-max"])
        for group, found in values.items()
        if "request-size-avg" in found
    }
    assert sizes == {
        "metrics": (25, 40),
        "node-metrics.node-bootstrap-0": (10, 10),
        "node-metrics.node-7": (25, 30),
        "node-metrics.node-coordinator-7": (40, 40),
    }
    total = values["consumer-metrics"]
    assert total["request-latency-max"] == 40
    assert total["throttle-time-max"] == 0
    assert total["network-io-rate"] == pytest.approx(2 * total["request-rate"])
    assert total["incoming-byte-rate"] == pytest.approx(10 * total["outgoing-byte-rate"])


def test_traffic_is_not_measured_without_metrics() -> None:
    config = Config.from_options({"bootstrap_servers": "localhost:1", "metrics_enabled": False})
    metrics = ConsumerMetrics(config, Time())
    traffic = NetworkMeter(metrics).of(1, Purpose.MAIN)
    traffic.sent(1)
    traffic.received(1)
    traffic.responded(1, 1)
    assert metrics.values() is None
    NetworkMeter().of(1, Purpose.MAIN).sent(1)


def test_every_value_is_a_finite_number() -> None:
    metrics = ConsumerMetrics(Config.from_options({}), Time())
    groups = metrics.values()
    assert groups is not None
    assert groups["consumer-metrics"]["time-between-poll-max"] == 0
    assert all(isfinite(value) for group in groups.values() for value in group.values())


def test_without_metrics_no_measurement_of_poll_is_kept() -> None:
    measured = ReaderMeasurements(ConsumerMetrics())
    for number in range(1, 1_000):
        measured.note_poll((number, 0))
        measured.note_records(("orders", number, None))
    assert not measured._polls
    assert not measured._records
