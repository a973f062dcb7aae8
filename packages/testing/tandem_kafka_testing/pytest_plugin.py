"""Fixtures for tests of code that consumes from Kafka; pytest loads this plugin by itself.

Nothing is imported before a fixture is used, so that other test runs do not become slower.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tandem_kafka_testing.kafka import RealKafka
    from tandem_kafka_testing.laboratory import SimulatedKafka
    from tandem_kafka_testing.served import ServedKafka

__all__ = ["kafka", "kafka_broker", "kafka_cluster", "kafka_topic", "why_no_kafka"]

_MARKERS = (
    "kafka_cluster(seed=0, brokers=2, kafka=None, racks=()): arguments of the fixture",
    "kafka_topic(partitions): how many partitions the fixture gives its topic (default 1)",
)


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers."""
    for marker in _MARKERS:
        config.addinivalue_line("markers", marker)


@pytest.fixture
def kafka_cluster(request: pytest.FixtureRequest) -> Iterator[SimulatedKafka]:
    """A simulated cluster: no threads, no sockets, no waiting, and the same run every time.

    `@pytest.mark.kafka_cluster(brokers=3, kafka="2.8")` passes arguments to `SimulatedKafka`.
    """
    from tandem_kafka_testing.laboratory import SimulatedKafka

    marker = request.node.get_closest_marker("kafka_cluster")
    kafka = SimulatedKafka() if marker is None else SimulatedKafka(*marker.args, **marker.kwargs)
    yield kafka
    kafka.close()


@pytest.fixture(scope="session")
def kafka_broker() -> Iterator[ServedKafka]:
    """A cluster over TCP: that of TANDEM_KAFKA_TEST_BROKERS, or a simulated one."""
    from tandem_kafka_testing.served import ServedKafka, named_cluster

    with ServedKafka(named_cluster()) as kafka:
        yield kafka


def why_no_kafka() -> str:
    """Download Kafka if it is not in the cache; returns why it cannot be had, or "".

    Raises:
        DownloadError: It cannot be had, and TANDEM_KAFKA_TEST_KAFKA is `require`.
        pytest.UsageError: TANDEM_KAFKA_TEST_KAFKA has another value.
    """
    from tandem_kafka_testing.kafka import DownloadError
    from tandem_kafka_testing.kafka.jars import classpath

    wanted = os.environ.get("TANDEM_KAFKA_TEST_KAFKA", "")
    if wanted not in {"", "require"}:
        raise pytest.UsageError(f"TANDEM_KAFKA_TEST_KAFKA={wanted!r}: may only be 'require'")
    try:
        classpath()
    except DownloadError as error:
        if wanted:
            raise
        return str(error)
    return ""


@pytest.fixture(scope="session")
def kafka() -> Iterator[RealKafka]:
    """A real Kafka of one broker for the whole run.

    Where it cannot be had, the test is skipped; with TANDEM_KAFKA_TEST_KAFKA=require it fails.
    """
    pytest.importorskip("trustme", reason="pip install 'tandem-kafka[kafka]'")
    reason = why_no_kafka()
    if reason:
        pytest.skip(reason)
    from tandem_kafka_testing.kafka import RealKafka

    with RealKafka() as cluster:
        yield cluster


@pytest.fixture
def kafka_topic(kafka: RealKafka, request: pytest.FixtureRequest) -> str:
    """A new topic of `kafka`, named after the test.

    `@pytest.mark.kafka_topic(4)` gives it four partitions.
    """
    marker = request.node.get_closest_marker("kafka_topic")
    args, kwargs = (marker.args, marker.kwargs) if marker else ((), {})
    return kafka.admin.new_topic(request.node.name, *args, **kwargs)
