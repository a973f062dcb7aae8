"""The clusters of the tests: one real Kafka for all processes of a run, and a simulated one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka
import pytest

from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.served import ServedKafka
from tests.integration.brokers import Cluster, ServedCluster, choose_clusters
from tests.integration.group_members import stop_all
from tests.integration.polling import Consume
from tests.kafka.tokens import TokenIssuer
from tests.shared_brokers import shared_broker
from tests.waiting import wait_until


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests on the served cluster too, where they are marked so."""
    choose_clusters(metafunc)


@pytest.fixture(scope="session")
def served_cluster() -> Iterator[Cluster]:
    """A served simulated cluster, for all tests that run on one."""
    with ServedKafka() as served:
        yield ServedCluster(served)


@pytest.fixture(scope="session")
def _real(request: pytest.FixtureRequest) -> Iterator[RealKafka]:
    """A real Kafka of one broker, for all processes of the run."""
    with shared_broker(request.config, "open") as (cluster, _):
        # Until it has coordinators: on a slow machine longer than a test may wait.
        with KafkaConsumer(bootstrap_servers=cluster.bootstrap(), group_id="nobody") as consumer:
            consumer.committed(TopicPartition("nothing", 0), timeout_ms=90_000)
        yield cluster


@pytest.fixture(scope="session")
def kafka(request: pytest.FixtureRequest) -> Cluster:
    """The real cluster of all tests, or the simulated one."""
    simulated = getattr(request, "param", None) == "simulated"
    cluster: Cluster = request.getfixturevalue("served_cluster" if simulated else "_real")
    return cluster


@pytest.fixture
def topic(kafka: RealKafka, request: pytest.FixtureRequest) -> str:
    """A new topic; `@pytest.mark.partitions(n)` gives it n partitions."""
    marker = request.node.get_closest_marker("partitions")
    return kafka.admin.new_topic(request.node.name, *(marker.args if marker else ()))


@pytest.fixture
def producer(kafka: RealKafka) -> Iterator[confluent_kafka.Producer]:
    """A producer; what it still holds is sent when the test ends."""
    client = confluent_kafka.Producer({"bootstrap.servers": kafka.bootstrap(), "linger.ms": 0})
    yield client
    assert client.flush(30.0) == 0
    # A cycle may keep it, and then it prints and reconnects while other tests run.
    client.close()


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
