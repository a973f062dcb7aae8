"""The fixtures of all tests, and the line that says what ran."""

from __future__ import annotations

import platform
import re
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import confluent_kafka
import hypothesis
import kafka as kafka_python
import pytest

from tandem_kafka.testing.kafka.broker import KafkaCluster
from tandem_kafka.testing.kafka.jars import KAFKA_VERSION, classpath

# No test asserts how fast a machine is.
hypothesis.settings.register_profile("any machine", deadline=None)
hypothesis.settings.load_profile("any machine")

_BROKER = "which coordinators run the scripts that are for both"
_WITH_BROKER = tuple(Path(__file__).with_name(name) for name in ("integration", "parity", "spark"))


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--broker`: where the scripts run that a real and the simulated coordinator agree on."""
    choices = ["simulated", "real", "both"]
    parser.addoption("--broker", choices=choices, default="both", help=_BROKER)


def pytest_report_header() -> str:
    """One line: the versions that matter for the result."""
    return (
        f"tandem-kafka on {platform.python_implementation()} {platform.python_version()}, "
        f"kafka-python {kafka_python.__version__}, "
        f"confluent-kafka {confluent_kafka.__version__}, broker {KAFKA_VERSION}"
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark everything that runs against a real broker."""
    for item in items:
        if any(folder in item.path.parents for folder in _WITH_BROKER):
            item.add_marker(pytest.mark.broker)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Download Kafka before the first test that needs it, outside of its timeout."""
    needed = any(item.get_closest_marker("broker") for item in session.items)
    if needed and not session.config.option.collectonly:
        classpath()


@pytest.fixture
def network_threads() -> Callable[[], list[str]]:
    """Names the consumers' threads that began in this test and still run.

    What a failed test left behind is its own failure, not that of every test after it.
    """
    before = set(threading.enumerate())

    def names() -> list[str]:
        began = set(threading.enumerate()) - before
        return [each.name for each in began if each.name.startswith("tandem-kafka-network")]

    return names


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaCluster]:
    """One broker for the whole run. A test that stops brokers starts its own cluster."""
    with KafkaCluster() as cluster:
        yield cluster


@pytest.fixture
def topic(kafka: KafkaCluster, request: pytest.FixtureRequest) -> str:
    """A new topic; `@pytest.mark.partitions(n)` gives it n partitions."""
    marker = request.node.get_closest_marker("partitions")
    partitions = marker.args[0] if marker else 1
    readable = re.sub(r"[^A-Za-z0-9_-]+", "-", request.node.name).strip("-")[:80]
    return kafka.admin.create_topic(f"{readable}-{uuid.uuid4().hex[:8]}", partitions)


@pytest.fixture
def producer(kafka: KafkaCluster) -> Iterator[confluent_kafka.Producer]:
    """A producer; what it still holds is sent when the test ends."""
    client = confluent_kafka.Producer({"bootstrap.servers": kafka.bootstrap(), "linger.ms": 0})
    yield client
    assert client.flush(30.0) == 0
