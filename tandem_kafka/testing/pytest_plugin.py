"""Fixtures for tests of code that consumes from Kafka; pytest loads this plugin by itself.

Nothing is imported before a fixture is used, so that other test runs do not become slower.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tandem_kafka.testing.laboratory import SimulatedKafka
    from tandem_kafka.testing.served import ServedKafka

__all__ = ["kafka_broker", "kafka_cluster"]


_MARKER = "kafka_cluster(seed=0, brokers=2, kafka=None, racks=()): arguments of the fixture"


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", _MARKER)


@pytest.fixture
def kafka_cluster(request: pytest.FixtureRequest) -> Iterator[SimulatedKafka]:
    """A simulated cluster: no threads, no sockets, no waiting, and the same run every time.

    `@pytest.mark.kafka_cluster(brokers=3, kafka="2.8")` passes arguments to `SimulatedKafka`.
    """
    from tandem_kafka.testing.laboratory import SimulatedKafka

    marker = request.node.get_closest_marker("kafka_cluster")
    kafka = SimulatedKafka() if marker is None else SimulatedKafka(*marker.args, **marker.kwargs)
    yield kafka
    kafka.close()


@pytest.fixture(scope="session")
def kafka_broker() -> Iterator[ServedKafka]:
    """A cluster over TCP: that of TANDEM_KAFKA_TEST_BROKERS, or a simulated one."""
    from tandem_kafka.testing.served import ServedKafka, named_cluster

    with ServedKafka(named_cluster()) as kafka:
        yield kafka
