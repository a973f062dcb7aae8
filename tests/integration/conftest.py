"""Fixtures of the integration tests: consumers that are closed, clusters with peculiarities."""

from __future__ import annotations

import gc
import signal
import uuid
import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tandem_kafka import ShareConsumer
from tandem_kafka_testing.kafka import RealKafka
from tests.implementations import IMPLEMENTATIONS, require_implementation
from tests.integration.brokers import Brokers, Cluster, choose_brokers, started
from tests.integration.raw_worlds import RawWorld
from tests.integration.share.share_members import LOCK_MS, Share
from tests.integration.share.sharing import require_share_groups


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests on several kinds of brokers."""
    choose_brokers(metafunc)


@pytest.fixture
def with_kafka_python() -> Iterator[None]:
    """kafka-python's consumer leaves sockets open; collect them before the next test."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        yield
        gc.collect()


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """SIGINT raises KeyboardInterrupt, also where the tests run in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(params=IMPLEMENTATIONS)
def implementation(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The implementation of the transport that consumers use."""
    name = str(request.param)
    require_implementation(name)
    monkeypatch.setattr("tandem_kafka.network.implementation.native_available", name == "native")
    return name


@pytest.fixture
def brokers(request: pytest.FixtureRequest) -> Iterator[Brokers]:
    """Simulated, served or real brokers, as `choose_brokers` says."""
    with started(request) as made:
        yield made


@pytest.fixture
def raw(brokers: Brokers) -> RawWorld:
    """A group of raw members."""
    return RawWorld(brokers)


@pytest.fixture
def group(kafka: Cluster) -> str:
    """A share group that begins with the first records."""
    if isinstance(kafka, RealKafka):
        require_share_groups()
    name = f"sharers-{uuid.uuid4().hex[:8]}"
    kafka.admin.configure_group(
        name,
        {
            "share.auto.offset.reset": "earliest",
            "share.record.lock.duration.ms": str(LOCK_MS),
        },
    )
    return name


@pytest.fixture
def share(kafka: Cluster, group: str, topic: str) -> Iterator[Share]:
    """Makes members of the group, and closes them."""
    with ExitStack() as stack:

        def make(**options: Any) -> ShareConsumer:
            given = {"bootstrap_servers": kafka.bootstrap(), "group_id": group, **options}
            consumer: ShareConsumer = ShareConsumer(topic, **given)
            stack.callback(consumer.close)
            return consumer

        yield make
