"""Every Python block of the manual runs as it stands, and can be pasted alone."""

from __future__ import annotations

import itertools
import re
from importlib import import_module
from pathlib import Path

import pytest

from docs.generated import PARTS
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.served import ServedKafka
from tests.docs.conftest import PARTITIONS, TOPICS, orders_arrive, run_python
from tests.docs.pages import PAGES, ROOT, blocks, undefined
from tests.tier import sample


def _pages_with(*kinds: str) -> list[str]:
    return [page for page in PAGES if {block.kind for block in blocks(page)} & {*kinds}]


_REAL = _pages_with("broker")
_SIMULATED = [page for page in _pages_with("simulated") if page not in _REAL]


@pytest.mark.parametrize("page", sample(_SIMULATED, 2))
def test_a_page_runs_on_a_simulated_cluster(page: str, tmp_path: Path) -> None:
    with ServedKafka() as kafka:
        for topic in TOPICS:
            kafka.create_topic(topic, PARTITIONS)
        with orders_arrive(kafka.bootstrap):
            run_python(tmp_path, "-m", "tests.docs.page_run", page, "simulated", kafka.bootstrap)


@pytest.mark.broker
@pytest.mark.parametrize("page", sample(_REAL, 0))
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


@pytest.mark.sources
@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)])
def test_a_block_can_be_pasted_alone(page: str) -> None:
    for block in blocks(page):
        head = itertools.takewhile(lambda line: line.startswith("#"), block.code.splitlines())
        missing = undefined(block.code) - set(re.findall(r"\w+", " ".join(head)))
        assert not missing, (
            f"{page}:{block.line}: import or define {sorted(missing)}, or name them in a comment "
            "at the head of the block: what they are, or which block it continues"
        )


@pytest.mark.sources
def test_every_generated_part_has_its_place() -> None:
    text = "".join((ROOT / page).read_text(encoding="utf-8") for page in PAGES)
    assert sorted(re.findall(r"`python -m docs\.generated ([\w-]+)`", text)) == sorted(PARTS)


@pytest.mark.sources
def test_the_examples_that_pages_name_exist() -> None:
    for page in PAGES:
        text = (ROOT / page).read_text(encoding="utf-8")
        for name in re.findall(r"`(examples/[\w/.]+)`", text):
            assert (ROOT / name).exists(), f"{page}: {name}"


def test_names_that_a_block_does_not_define_are_found() -> None:
    assert undefined("import json\nx = json.loads(y)\n") == {"y"}
    assert undefined("def f(a):\n    return [a + b for _ in g(a)]\n") == {"b", "g"}
    assert undefined("class C:\n    def m(self):\n        return print(time)\n") == {"time"}


@pytest.mark.sources
def test_dead_letters_have_the_headers_of_the_workers() -> None:
    source = (ROOT / "tandem_kafka/workers/dead_letters.py").read_text(encoding="utf-8")
    names = {
        f"dead-letter-{name}" for name in re.findall(r'^        "(\w+)": ', source, re.MULTILINE)
    }
    assert len(names) == 6
    text = (ROOT / "docs/how-to/dead-letters.md").read_text(encoding="utf-8")
    used = set(re.findall(r"[\"`](dead-letter-\w+)[\"`]", text))
    assert used
    assert used <= names


@pytest.mark.sources
@pytest.mark.parametrize(
    "module",
    [
        "",
        ".observability",
        ".tables",
        ".workers",
    ],
)
def test_every_public_name_is_in_the_api_pages(module: str) -> None:
    pages = (ROOT / "docs" / "reference" / "api").glob("*.md")
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    names = {*import_module(f"tandem_kafka{module}").__all__} - {"__version__"}
    assert [name for name in names if not re.search(rf"\b{name}\b", text)] == []
