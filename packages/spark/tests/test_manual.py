"""The Spark blocks of the manual run as they stand, on a real broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from packages.spark.tests.session import since  # skips all of this without pyspark
from tandem_kafka_testing.kafka import RealKafka
from tests.docs.conftest import PARTITIONS, TOPICS, orders_arrive, run_python
from tests.docs.pages import PAGES, blocks

pytestmark = [pytest.mark.broker, pytest.mark.full("starts Spark")]

#: This page also registers the source, which Spark 4.0 rejects because it has found it.
_REFERENCE = "docs/reference/spark.md"
_PAGES = [
    pytest.param(page, marks=since(4, 1, "sources registered again") if page == _REFERENCE else ())
    for page in PAGES
    if any(block.kind == "spark" for block in blocks(page))
]


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    """A broker with the topics that the pages name."""
    with RealKafka() as kafka:
        for topic in (*TOPICS, "totals"):
            kafka.admin.create_topic(topic, PARTITIONS)
        with orders_arrive(kafka.bootstrap()):
            yield kafka.bootstrap()


@pytest.mark.parametrize("page", _PAGES)
def test_a_page_runs(page: str, bootstrap: str, tmp_path: Path) -> None:
    module = ("-m", "tests.docs.page_run", page, "spark", bootstrap)
    run_python(tmp_path, *module, timeout_s=240)
