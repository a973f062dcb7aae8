"""`metric_reporters`: kafka-python's interface, called by the polling thread."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest
from kafka.metrics import DictReporter
from kafka.metrics.metrics_reporter import AbstractMetricsReporter

from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka_testing import Simulation
from tests.unit.consumer.conftest import make

__all__ = ["make"]


class Written(AbstractMetricsReporter):
    """Records its calls and their threads."""

    made: list[Written] = []  # noqa: RUF012 - emptied by each test

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.present: dict[tuple[str, str, str], Any] = {}
        self.threads: set[int] = set()
        Written.made.append(self)

    def _note(self, call: str) -> None:
        self.threads.add(threading.get_ident())
        self.calls.append(call)

    def init(self, metrics: list[Any]) -> None:
        assert metrics == []
        self._note("init")

    def metric_change(self, metric: Any) -> None:
        self._note("change")
        self.present[_key(metric)] = metric

    def metric_removal(self, metric: Any) -> None:
        self._note("removal")
        del self.present[_key(metric)]

    def configure(self, configs: Any) -> None:
        raise AssertionError(f"kafka-python does not call it: {configs}")

    def close(self) -> None:
        self._note("close")


def _key(metric: Any) -> tuple[str, str, str]:
    name = metric.metric_name
    return name.group, name.name, str(sorted(name.tags.items()))


@pytest.fixture
def written() -> type[Written]:
    Written.made.clear()
    return Written


def test_added_and_removed_metrics_are_reported(written: type[Written]) -> None:
    with Simulation(seed=1) as simulation:
        simulation.cluster.create_topic("orders", 1)
        tp = TopicPartition("orders", 0)
        simulation.cluster.produce(tp, b"one", b"two")
        consumer = simulation.consumer(
            auto_offset_reset="earliest", metric_reporters=[written, DictReporter]
        )
        (reporter,) = written.made
        assert reporter.calls[:2] == ["init", "change"]
        at_first = len(reporter.present)
        consumer.assign([tp])
        assert len(consumer.poll(1_000)[tp]) == 2
        consumer.poll(0)
        values = {key[:2]: metric.value() for key, metric in reporter.present.items()}
        assert values["consumer-fetch-manager-metrics", "records-consumed-total"] == 2
        assert any(group.startswith("consumer-node-metrics.") for group, _ in values)
        assert len(reporter.present) > at_first
        assert len(reporter.present) == len(consumer.metrics(raw=True))
        assert "removal" not in reporter.calls
        consumer.unsubscribe()
        consumer.assign([TopicPartition("orders", 0)])
        consumer.close()
        assert "removal" in reporter.calls
        assert reporter.calls.count("close") == 1
        assert reporter.calls[-1] == "close"


def test_reporters_are_called_by_the_thread_that_uses_the_consumer(
    make: Any, written: type[Written]
) -> None:
    consumer: KafkaConsumer = make(metric_reporters=[written])
    consumer.assign([TopicPartition("orders", 0)])
    consumer.poll(timeout_ms=200)
    consumer.close()
    (reporter,) = written.made
    assert reporter.threads == {threading.get_ident()}
    assert any(group.startswith("consumer-node-metrics.") for group, *_ in reporter.present)


def test_a_reporter_that_raises_is_logged(make: Any, caplog: pytest.LogCaptureFixture) -> None:
    class Failing(Written):
        def metric_change(self, metric: Any) -> None:
            raise ValueError(metric)

        def close(self) -> None:
            raise ValueError("never")

    consumer = make(metric_reporters=[Failing, DictReporter()])
    consumer.close()
    lines = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert {line.getMessage().partition("] ")[2] for line in lines} == {
        "metric_change() of a metric reporter failed; ignored",
        "close() of a metric reporter failed; ignored",
    }


def test_a_reporter_that_cannot_be_created_fails_the_constructor(make: Any) -> None:
    def broken() -> Any:
        raise LookupError("no such place")

    with pytest.raises(LookupError):
        make(metric_reporters=[broken])


def test_without_metrics_there_are_no_reporters(make: Any, written: type[Written]) -> None:
    make(metric_reporters=[written], metrics_enabled=False)
    assert written.made == []
