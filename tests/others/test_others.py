"""`make others` without a network: the table, the reading of results, and the verdict."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

import pytest

from tests.others import franz_go, kafka_python, page
from tests.others.kafka_python import unpack_tests
from tests.others.suite import LeftOut, Suite, problems, results
from tests.sources import ROOT

TESTS = """
import pytest

@pytest.fixture
def begins_badly():
    raise OSError

@pytest.fixture
def ends_badly():
    yield
    raise OSError

def test_good(): pass
def test_bad(): assert False
def test_of_no_use_here(): pytest.skip("no")
def test_that_begins_badly(begins_badly): pass
def test_that_ends_badly(ends_badly): pass
def test_skipped_that_ends_badly(ends_badly): pytest.skip("no")

@pytest.mark.parametrize("number", [1, 2])
def test_each(number): assert number == 1
"""

FILE = "test/test_it.py"
A_SUITE = Suite(
    "client",
    "with its own consumer",
    {FILE: 4},
    {
        f"{FILE}::test_private": LeftOut("reads a private attribute"),
        f"{FILE}::test_luck": LeftOut("expects a time", sometimes=True),
    },
)
ORIGINAL = {
    f"{FILE}::{name}": "passed" for name in ("test_one", "test_two", "test_private", "test_luck")
}
OURS = ORIGINAL | {f"{FILE}::test_private": "failed"}


def test_results_are_read_from_a_report_of_pytest(tmp_path: Path) -> None:
    (tmp_path / "test").mkdir()
    (tmp_path / FILE).write_text(TESTS)
    pytest_here = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", "."]
    subprocess.run(
        [*pytest_here, "-p", "no:cacheprovider", "--junit-xml", "report.xml", FILE],
        cwd=tmp_path,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        check=False,
        capture_output=True,
    )
    assert results(tmp_path / "report.xml") == {
        f"{FILE}::test_good": "passed",
        f"{FILE}::test_bad": "failed",
        f"{FILE}::test_of_no_use_here": "skipped",
        f"{FILE}::test_that_begins_badly": "failed",
        f"{FILE}::test_that_ends_badly": "failed",
        f"{FILE}::test_skipped_that_ends_badly": "failed",
        f"{FILE}::test_each[1]": "passed",
        f"{FILE}::test_each[2]": "failed",
    }


def test_results_as_in_the_table_are_no_problem() -> None:
    assert not [*problems(A_SUITE, ORIGINAL, OURS)]
    assert not [*problems(A_SUITE, ORIGINAL, OURS | {f"{FILE}::test_luck": "failed"})]


@pytest.mark.parametrize(
    ("original", "ours", "told"),
    [
        ({}, {"test_one": "failed"}, [f"{FILE}::test_one failed"]),
        ({}, {"test_one": "skipped"}, [f"{FILE}::test_one skipped"]),
        ({}, {"test_private": "passed"}, [f"{FILE}::test_private is left out, and passed"]),
        ({"test_two": "failed"}, {}, [f"{FILE}::test_two failed with its own consumer"]),
        (
            {"test_new": "passed"},
            {"test_new": "passed"},
            [f"{FILE} has 5 tests, and 4 in the table"],
        ),
        (
            {},
            {"test_two": None},
            [
                f"{FILE} has 3 tests, and 4 in the table",
                f"{FILE}::test_two ran once of two times",
            ],
        ),
        (
            {"test_luck": None},
            {"test_luck": None},
            [
                f"{FILE} has 3 tests, and 4 in the table",
                f"{FILE}::test_luck is left out, and does not exist",
            ],
        ),
    ],
)
def test_every_difference_from_the_table_is_told(
    original: dict[str, str | None], ours: dict[str, str | None], told: list[str]
) -> None:
    assert [*problems(A_SUITE, _changed(ORIGINAL, original), _changed(OURS, ours))] == told


def _changed(verdicts: dict[str, str], changes: dict[str, str | None]) -> dict[str, str]:
    changed = verdicts | {f"{FILE}::{name}": verdict for name, verdict in changes.items()}
    return {test: verdict for test, verdict in changed.items() if verdict is not None}


@pytest.mark.parametrize("suite", [kafka_python.SUITE, franz_go.SUITE])
def test_no_result_at_all_is_a_problem(suite: Suite) -> None:
    assert [*problems(suite, {}, {})]


def test_results_are_read_from_events_of_go() -> None:
    events = [
        {"Action": "start"},
        *({"Action": "run", "Test": f"Test{name}"} for name in ("A", "B", "C", "D")),
        {"Action": "fail", "Test": "TestA/part"},
        {"Action": "fail", "Test": "TestA"},
        {"Action": "pass", "Test": "TestB/part"},
        {"Action": "pass", "Test": "TestB"},
        {"Action": "skip", "Test": "TestC"},
        {"Action": "pass", "Test": "TestD/part"},
        {"Action": "fail"},
    ]
    assert franz_go.results(json.dumps(event).encode() for event in events) == {
        "pkg/kgo::TestA": "failed",
        "pkg/kgo::TestB": "passed",
        "pkg/kgo::TestC": "skipped",
        "pkg/kgo::TestD": "failed",
    }


def test_only_the_tests_of_a_source_distribution_are_unpacked(tmp_path: Path) -> None:
    source = tmp_path / "client-1.0"
    for path in ("test/test_it.py", "client/__init__.py", "test_more.py"):
        (source / path).parent.mkdir(parents=True, exist_ok=True)
        (source / path).touch()
    archive = tmp_path / "client-1.0.tar.gz"
    with tarfile.open(archive, "w:gz") as content:
        content.add(source, source.name)
    unpacked = tmp_path / "unpacked"
    unpack_tests(archive, unpacked)
    files = {str(path.relative_to(unpacked)) for path in unpacked.rglob("*") if path.is_file()}
    assert files == {"test/__init__.py", "test/test_it.py"}


@pytest.mark.parametrize(
    ("suite", "table"),
    [
        (kafka_python.SUITE, page.of_kafka_python()),
        (franz_go.SUITE, page.of_franz_go()),
    ],
)
def test_the_table_names_tests_of_its_files_and_a_reason_for_each(suite: Suite, table: str) -> None:
    for test, left_out in suite.left_out.items():
        file, _, name = test.partition("::")
        assert file in suite.tests
        assert name.lower().startswith("test")
        assert left_out.reason
        assert f"`{name}`" in table
        assert left_out.reason in table


def test_the_manual_names_the_releases_whose_tests_run() -> None:
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    (pinned,) = [line for line in groups["others"] if line.startswith("kafka-python[")]
    text = (ROOT / "docs/coming-from/kafka-python.md").read_text(encoding="utf-8")
    assert f"kafka-python's own tests ({pinned.partition('==')[2]})" in text
    text = (ROOT / "docs/explained/simulation.md").read_text(encoding="utf-8")
    assert f"franz-go, a client for Go ({franz_go.RELEASE})" in text
