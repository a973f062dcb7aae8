"""One Spark session for all of these tests, with Spark's own connector if it is available."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tandem_kafka_testing.kafka import RealKafka
from tests.sources import PYTHONPATH

#: The fixtures that start it.
_SPARK = {"standalone", "jobs", "spark", "tables"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give these tests more time: Spark alone takes seconds to start.

    One job runs every day, marked so; the others that start Spark do not. PySpark before 4.2 leaves
    some of its sockets open.
    """
    ours = [item for item in items if Path(__file__).parent in item.path.parents]
    if not ours:
        return  # there may be no PySpark
    from packages.spark.tests.session import SPARK

    for item in ours:
        item.add_marker(pytest.mark.timeout(300))
        item.add_marker(pytest.mark.leaves("Spark, and the consumers that its workers keep"))
        starts_spark = not _SPARK.isdisjoint(getattr(item, "fixturenames", ()))
        if starts_spark and not item.get_closest_marker("everyday"):
            item.add_marker(pytest.mark.full("starts Spark"))
        if SPARK < (4, 2):
            item.add_marker(pytest.mark.filterwarnings("ignore:.*unclosed <socket"))
            unraisable = "ignore:.*socket:pytest.PytestUnraisableExceptionWarning"
            item.add_marker(pytest.mark.filterwarnings(unraisable))


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A session with two cores; its workers import this package from the source tree."""
    from packages.spark.tests.session import start

    # The JVM inherits them. The session outlives this file, and the next one must not see them.
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PYSPARK_PYTHON", sys.executable)
        environment.setenv("PYTHONPATH", PYTHONPATH)
        session = start()
    yield session
    session.stop()


@pytest.fixture
def tables(spark: Any, kafka: RealKafka, tmp_path: Path) -> Iterator[Any]:
    """Reads and writes the topics of the test's cluster; stops remaining streams."""
    from packages.spark.tests.session import Tables

    yield Tables(spark, kafka.bootstrap(), tmp_path)
    for query in spark.streams.active:
        query.stop()


@pytest.fixture
def jobs() -> Iterator[list[Any]]:
    """The started jobs; those that still run at the end of the test are killed."""
    from packages.spark.tests.jobs import kill_driver

    started: list[Any] = []
    yield started
    for job in started:
        kill_driver(job)


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A standalone cluster with two workers."""
    from packages.spark.tests.standalone import StandaloneCluster

    with StandaloneCluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running
