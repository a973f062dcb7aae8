"""The cluster of these tests: simulated, and the same test on a real one."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from tandem_kafka_testing.served import ServedKafka


@pytest.fixture(scope="session")
def served() -> Iterator[ServedKafka]:
    """A simulated cluster for all tests that cause no faults."""
    with ServedKafka() as kafka:
        yield kafka


@pytest.fixture(
    params=[
        "simulated",
        pytest.param("real", marks=[pytest.mark.broker, pytest.mark.full("compares the two")]),
    ]
)
def cluster(request: pytest.FixtureRequest) -> ServedKafka:
    """The simulated cluster, then a real one: both must give the same results."""
    if request.param == "simulated":
        served: ServedKafka = request.getfixturevalue("served")
        return served
    return ServedKafka(request.getfixturevalue("kafka").bootstrap())


@pytest.fixture
def topic(cluster: ServedKafka) -> str:
    """A new topic with two partitions."""
    return cluster.create_topic(f"matrix-{uuid.uuid4()}", 2)
