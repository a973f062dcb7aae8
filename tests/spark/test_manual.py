"""The Spark blocks of the manual run as they stand, on a real broker."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import tests.spark.session  # noqa: F401 - skips all of this without pyspark
from tests.docs.conftest import PARTITIONS, TOPICS, orders_arrive
from tests.docs.pages import PAGES, ROOT, blocks
from tests.kafka.broker import KafkaCluster

_PAGES = [page for page in PAGES if any(block.kind == "spark" for block in blocks(page))]


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    """A broker with the topics that the pages name."""
    with KafkaCluster() as kafka:
        for topic in (*TOPICS, "totals"):
            kafka.admin.create_topic(topic, PARTITIONS)
        with orders_arrive(kafka.bootstrap()):
            yield kafka.bootstrap()


@pytest.mark.parametrize("page", _PAGES)
def test_a_page_runs(page: str, bootstrap: str, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, "-m", "tests.docs.page_run", page, "spark", bootstrap]
    ran = subprocess.run(
        command,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
