"""Every Python block of the manual runs as it stands."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tandem_kafka.testing.served import ServedKafka
from tests.docs.conftest import PARTITIONS, TOPICS, orders_arrive
from tests.docs.pages import PAGES, ROOT, blocks
from tests.kafka.broker import KafkaCluster

_RUN_HERE = {"embedded", "broker"}


def _pages_with(*kinds: str) -> list[str]:
    return [page for page in PAGES if {block.kind for block in blocks(page)} & {*kinds}]


_REAL = _pages_with("broker")
_EMBEDDED = [page for page in _pages_with("embedded") if page not in _REAL]


def _run(folder: Path, *command: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONFAULTHANDLER": "1"}
    ran = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=160,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("page", _EMBEDDED)
def test_a_page_runs_on_the_embedded_cluster(page: str, tmp_path: Path) -> None:
    with ServedKafka() as kafka:
        for topic in TOPICS:
            kafka.create_topic(topic, PARTITIONS)
        with orders_arrive(kafka.bootstrap):
            _run(tmp_path, "-m", "tests.docs.page_run", page, "embedded", kafka.bootstrap)


@pytest.mark.broker
@pytest.mark.parametrize("page", _REAL)
def test_a_page_runs_on_a_real_broker(page: str, tmp_path: Path) -> None:
    with KafkaCluster(config={"auto.create.topics.enable": "true"}) as kafka:
        for topic in TOPICS:
            kafka.admin.create_topic(topic, PARTITIONS)
        with orders_arrive(kafka.bootstrap()):
            _run(tmp_path, "-m", "tests.docs.page_run", page, "embedded,broker", kafka.bootstrap())


@pytest.mark.parametrize("page", _pages_with("pytest"))
def test_the_tests_that_a_page_shows_pass(page: str, tmp_path: Path) -> None:
    shown = [block for block in blocks(page) if block.kind == "pytest"]
    for number, block in enumerate(shown):
        (tmp_path / f"test_block_{number}.py").write_text(block.code, encoding="utf-8")
    _run(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path))


@pytest.mark.parametrize("page", _pages_with("no"))
def test_a_block_that_does_not_run_says_why(page: str) -> None:
    for block in blocks(page):
        if block.kind == "no":
            print(f"{block.page}:{block.line} does not run: {block.reason}")
            compile(block.code, block.page, "exec")
