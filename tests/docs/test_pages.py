"""Every Python block of the manual runs as it stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from tandem_kafka.testing.kafka import RealKafka
from tandem_kafka.testing.served import ServedKafka
from tests.docs.conftest import PARTITIONS, TOPICS, orders_arrive, run_python
from tests.docs.pages import PAGES, blocks


def _pages_with(*kinds: str) -> list[str]:
    return [page for page in PAGES if {block.kind for block in blocks(page)} & {*kinds}]


_REAL = _pages_with("broker")
_SIMULATED = [page for page in _pages_with("simulated") if page not in _REAL]


@pytest.mark.parametrize("page", _SIMULATED)
def test_a_page_runs_on_a_simulated_cluster(page: str, tmp_path: Path) -> None:
    with ServedKafka() as kafka:
        for topic in TOPICS:
            kafka.create_topic(topic, PARTITIONS)
        with orders_arrive(kafka.bootstrap):
            run_python(tmp_path, "-m", "tests.docs.page_run", page, "simulated", kafka.bootstrap)


@pytest.mark.broker
@pytest.mark.parametrize("page", _REAL)
def test_a_page_runs_on_a_real_broker(page: str, tmp_path: Path) -> None:
    with RealKafka(properties={"auto.create.topics.enable": "true"}) as kafka:
        for topic in TOPICS:
            kafka.admin.create_topic(topic, PARTITIONS)
        with orders_arrive(kafka.bootstrap()):
            run_python(
                tmp_path, "-m", "tests.docs.page_run", page, "simulated,broker", kafka.bootstrap()
            )


@pytest.mark.parametrize("page", _pages_with("pytest"))
def test_the_tests_that_a_page_shows_pass(page: str, tmp_path: Path) -> None:
    shown = [block for block in blocks(page) if block.kind == "pytest"]
    for number, block in enumerate(shown):
        (tmp_path / f"test_block_{number}.py").write_text(block.code, encoding="utf-8")
    run_python(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path))


@pytest.mark.parametrize("page", _pages_with("no"))
def test_a_block_that_does_not_run_says_why(page: str) -> None:
    for block in blocks(page):
        if block.kind == "no":
            print(f"{block.page}:{block.line} does not run: {block.reason}")
            compile(block.code, block.page, "exec")
