"""The Python implementation and the native extension, for tests that must hold for both."""

from __future__ import annotations

import importlib
import os

import pytest

from tandem_kafka.consumer.consumer import KafkaConsumer
from tandem_kafka.consumer.reading import fetch_collector, poller
from tandem_kafka.consumer.reading.fetch_collector import FetchCollector
from tandem_kafka.consumer.reading.records import ConsumerRecords
from tandem_kafka.runtime.callers import run
from tandem_kafka.runtime.native import native_available

__all__ = [
    "IMPLEMENTATIONS",
    "collecting_in_python",
    "in_python",
    "require_implementation",
    "use_readers",
]

IMPLEMENTATIONS = ("python", "native")


def require_implementation(name: str) -> None:
    """Skip the test if the native extension is not there, unless it was asked to be."""
    if name == "native" and not native_available:
        if os.environ.get("TANDEM_KAFKA_IMPL") == "python":
            pytest.skip("TANDEM_KAFKA_IMPL=python: the native extension is not wanted")
        if os.environ.get("TANDEM_KAFKA_NATIVE") == "require":
            pytest.fail("TANDEM_KAFKA_NATIVE=require, but there is no native extension")
        pytest.skip("the native extension is not installed")


def use_readers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an implementation decode what is fetched."""
    answers, readers = {
        "python": ("fetch_response", "python"),
        "native": ("native_reader", "native_reader"),
    }[name]
    decoding = importlib.import_module(f"tandem_kafka.records.{answers}")
    reading = importlib.import_module(f"tandem_kafka.records.{readers}")
    managers = "tandem_kafka.request_managers.fetching"
    collector = "tandem_kafka.consumer.reading.fetch_collector"
    monkeypatch.setattr(
        f"{managers}.fetch_request_manager.decode_fetch_response", decoding.decode_fetch_response
    )
    monkeypatch.setattr(f"{managers}.response_handler.open_reader", reading.open_reader)
    monkeypatch.setattr(f"{collector}.join_records", reading.join_records)


class _PythonCollector(FetchCollector):
    """Collects in Python."""

    __slots__ = ()


def _collect(collector: FetchCollector, max_records: int) -> ConsumerRecords:
    in_python = type(collector) is _PythonCollector
    return (FetchCollector.collect if in_python else fetch_collector.collect)(
        collector, max_records
    )


def in_python(consumer: KafkaConsumer) -> None:
    """Let a consumer read in Python, as it does in all but the usual case."""
    reading = consumer._reading
    reading.poll_now = lambda *limits: run(reading.poll(*limits))
    reading.find_feed_now = lambda follow: run(reading.find_feed(follow))


def collecting_in_python(consumer: KafkaConsumer) -> None:
    """Let a consumer collect in Python as well.

    With several partitions, a limited batch then has other records: those of one partition first.
    """
    in_python(consumer)
    consumer._reading._collector.__class__ = _PythonCollector
    vars(poller)["collect"] = _collect
