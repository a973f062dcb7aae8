"""Fixtures of the integration tests: consumers that are closed, clusters with peculiarities."""

from __future__ import annotations

import gc
import signal
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tandem_kafka import KafkaConsumer, ShareConsumer, TopicPartition
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.served import ServedKafka
from tests.implementations import IMPLEMENTATIONS, require_implementation
from tests.integration.broker_choice import BROKERS, chosen_broker
from tests.integration.group_members import stop_all
from tests.integration.polling import Consume, wait_until
from tests.integration.raw_worlds import (
    PARTITIONS,
    RawWorld,
    real_world,
    simulated_world,
)
from tests.integration.share_members import LOCK_MS, Share
from tests.integration.sharing import require_share_groups
from tests.integration.simulated_cluster import Cluster, SimulatedCluster, choose_clusters
from tests.kafka.tokens import TokenIssuer
from tests.shared_brokers import shared_broker


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests on the simulated cluster too, where they are marked so."""
    choose_clusters(metafunc)


@pytest.fixture(scope="session")
def simulated() -> Iterator[Cluster]:
    """A simulated cluster, for all tests that are marked `both_clusters`."""
    with ServedKafka() as served:
        yield SimulatedCluster(served)


@pytest.fixture(scope="session")
def kafka(request: pytest.FixtureRequest) -> Cluster:
    """The real cluster of all tests, or the simulated one."""
    simulated = getattr(request, "param", None) == "simulated"
    cluster: Cluster = request.getfixturevalue("simulated" if simulated else "kafka")
    # Until a new cluster has coordinators: on a slow machine longer than a test may wait.
    with KafkaConsumer(bootstrap_servers=cluster.bootstrap(), group_id="nobody") as consumer:
        consumer.committed(TopicPartition("nothing", 0), timeout_ms=90_000)
    return cluster


@pytest.fixture
def consume(
    network_threads: Callable[[], list[str]], request: pytest.FixtureRequest
) -> Iterator[Consume]:
    """Makes consumers that start at the earliest offset, without auto-commit.

    They read from the shared broker, which only starts if it is needed.

    All are closed when the test ends, also those of members that a failed test left running.
    No thread of theirs may then exist.
    """
    made: list[KafkaConsumer] = []

    def make(*topics: str, **options: Any) -> KafkaConsumer:
        defaults: dict[str, Any] = {"auto_offset_reset": "earliest", "enable_auto_commit": False}
        if "bootstrap_servers" not in options:
            defaults["bootstrap_servers"] = request.getfixturevalue("kafka").bootstrap()
        consumer = KafkaConsumer(*topics, **{**defaults, **options})
        made.append(consumer)
        return consumer

    yield make
    stop_all()
    for consumer in made:
        consumer.close(autocommit=False, timeout_ms=5_000)
    wait_until(lambda: not network_threads(), "the end of all network threads")


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


@pytest.fixture(scope="session")
def _guarded_and_issuer(request: pytest.FixtureRequest) -> Iterator[tuple[RealKafka, TokenIssuer]]:
    with shared_broker(request.config, "guarded") as both:
        yield both


@pytest.fixture(scope="session")
def issuer(_guarded_and_issuer: tuple[RealKafka, TokenIssuer]) -> TokenIssuer:
    """Signs the tokens that the cluster of `guarded` accepts."""
    return _guarded_and_issuer[1]


@pytest.fixture(scope="session")
def guarded(_guarded_and_issuer: tuple[RealKafka, TokenIssuer]) -> RealKafka:
    """A cluster with an authorizer, with listeners for all logins.

    Metadata requests can create topics.
    """
    return _guarded_and_issuer[0]


@pytest.fixture(params=IMPLEMENTATIONS)
def implementation(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The implementation of the transport that consumers use."""
    name = str(request.param)
    require_implementation(name)
    monkeypatch.setattr("tandem_kafka.network.implementation.native_available", name == "native")
    return name


@pytest.fixture(scope="session")
def raw_topic(kafka: RealKafka) -> str:
    """A topic without records, for raw members."""
    return kafka.admin.create_topic(f"raw-{uuid.uuid4().hex[:8]}", PARTITIONS)


@pytest.fixture(params=BROKERS)
def raw(request: pytest.FixtureRequest) -> Iterator[RawWorld]:
    """A group of raw members, of a real coordinator and of the simulated one."""
    if chosen_broker(request) == "simulated":
        with simulated_world() as world:
            yield world
    else:
        kafka, topic = request.getfixturevalue("kafka"), request.getfixturevalue("raw_topic")
        with real_world(kafka, topic) as world:
            yield world


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
