"""Which topics and partitions the driver of a query finds, without a session or a real broker."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

import packages.spark.tests.session  # noqa: F401 - skips all of this without pyspark
from packages.spark.tests.simulated import simulated
from tandem_kafka_testing import Simulation
from tests.scenarios.numbered_records import create_topic

from pyspark_tandem_kafka.cluster import Cluster, UnknownTopicError  # isort: skip
from pyspark_tandem_kafka.options import SourceOptions  # isort: skip

#: The address of the simulated broker.
SERVERS = "10.0.0.1:9092"


@pytest.fixture
def simulation() -> Iterator[Simulation]:
    """A cluster with three topics; the source's consumers connect to it."""
    with simulated("spark topics") as simulation:
        create_topic(simulation, "orders", 2)
        create_topic(simulation, "orders-archive", 1)
        create_topic(simulation, "users", 1)
        assert simulation.cluster.bootstrap() == SERVERS
        yield simulation


def planner(**options: str) -> Cluster:
    given = {"kafka.bootstrap.servers": SERVERS, **options}
    return Cluster(SourceOptions.parse(given, streaming=True))


def found(cluster: Cluster) -> list[tuple[str, int]]:
    return sorted((tp.topic, tp.partition) for tp in cluster.partitions())


@pytest.mark.usefixtures("simulation")
def test_the_partitions_of_named_topics() -> None:
    with planner(subscribe="orders,users") as cluster:
        assert found(cluster) == [("orders", 0), ("orders", 1), ("users", 0)]
    with planner(assign='{"orders": [1]}') as cluster:
        assert found(cluster) == [("orders", 1)]


def test_a_pattern_finds_the_topics_of_the_moment(simulation: Simulation) -> None:
    with planner(subscribePattern="orders.*") as cluster:
        assert found(cluster) == [("orders", 0), ("orders", 1), ("orders-archive", 0)]
        create_topic(simulation, "orders-new", 1)
        assert ("orders-new", 0) in found(cluster)


@pytest.mark.usefixtures("simulation")
@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("ders", ["orders", "orders-archive"]),
        ("^orders$", ["orders"]),
        (" archive ", ["orders-archive"]),
        ("Orders", []),
    ],
)
def test_a_pattern_may_match_a_part_of_a_name(pattern: str, expected: list[str]) -> None:
    """Like that of Spark's connector, which also strips it."""
    with planner(subscribePattern=pattern) as cluster:
        assert sorted({name for name, _ in found(cluster)}) == expected


@pytest.mark.usefixtures("simulation")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"subscribe": "orders,ordes"},
            (
                "subscribe: there is no ordes-0, because there is no topic ordes at "
                "kafka.bootstrap.servers=10.0.0.1:9092; did you mean orders?"
            ),
        ),
        (
            {"assign": '{"users": [0, 7]}'},
            "assign: there is no users-7; users has the partitions 0: correct the option",
        ),
    ],
)
def test_an_unknown_topic_is_named(options: dict[str, str], message: str) -> None:
    with (
        planner(**options) as cluster,
        pytest.raises(UnknownTopicError, match=re.escape(message)),
    ):
        cluster.partitions()
