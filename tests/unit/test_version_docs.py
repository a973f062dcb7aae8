"""The pages about versions and limits agree with the code and the files of the project."""

from __future__ import annotations

import re
import tomllib
from typing import Final

import pytest

import tandem_kafka
from docs.generated.api_versions import table as requests
from docs.generated.options import table
from tandem_kafka.wire import messages
from tandem_kafka_testing.kafka.jars import KAFKA_VERSION
from tests.sources import FOLDERS, ROOT

#: It reads the sources of the package.
pytestmark = pytest.mark.sources

PAGE: Final = (ROOT / "docs" / "reference" / "versions.md").read_text(encoding="utf-8")
LIMITS: Final = (ROOT / "docs" / "numbers" / "limits.md").read_text(encoding="utf-8")
WORKFLOW: Final = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
README: Final = (ROOT / "README.md").read_text(encoding="utf-8")
PROJECTS: Final = [
    tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for folder in FOLDERS
]
PROJECT: Final = PROJECTS[0]


def test_the_packages_are_those_of_the_project():
    needed = [each for project in PROJECTS for each in project["dependencies"]]
    wanted = [*needed, *PROJECT["optional-dependencies"]["arrow"]]
    by_name = dict(re.findall(r"^\| `([\w-]+)` \| ([^ ;]+)", PAGE, re.MULTILINE))
    assert by_name.pop("pyspark") in "".join(wanted)
    for name, versions in by_name.items():
        assert f"{name}{versions}" in wanted
    assert f"| Python | {PROJECT['requires-python']} " in PAGE


def test_every_extra_for_users_is_in_the_installation():
    page = (ROOT / "docs" / "start" / "install.md").read_text(encoding="utf-8")
    of_the_project = {"audit", "bench", "docs", "lint", "pipeline", "release", "spark-test", "test"}
    extras = PROJECT["optional-dependencies"].keys() - of_the_project
    assert [name for name in extras if f"[{name}]" not in page] == []


def test_the_broker_and_the_compiler_are_named():
    assert f"| {KAFKA_VERSION} |" in PAGE
    manifest = tomllib.loads((ROOT / "rust" / "Cargo.toml").read_text(encoding="utf-8"))
    assert f"| Rust | {manifest['workspace']['package']['rust-version']} or newer |" in PAGE


def _kips(text: str) -> set[str]:
    return set(re.findall(r"KIP-\d+", text))


def test_a_kip_is_supported_or_not():
    supported = set(re.findall(r"^\| (KIP-\d+) \|", PAGE, re.MULTILINE))
    missing = _kips(PAGE.split("\nNot supported:")[1])
    assert missing
    assert not supported & missing
    assert _kips(LIMITS.split("## Not included\n")[1].split("\n## ")[0]) - supported == missing
    assert _kips(table()) <= supported


def test_the_versions_of_python_are_those_that_ci_tests():
    oldest = PROJECT["requires-python"].removeprefix(">=")
    (matrix,) = re.findall(r"^ +python: \[(.+)\]$", WORKFLOW, re.MULTILINE)
    tested = re.findall(r"[\d.]+", matrix)
    assert tested[0] == oldest
    section = LIMITS.split("## Tested with\n")[1].split("\n## ")[0]
    assert re.findall(r"CPython (\d[\d.]*\d)", section) == tested
    images = [
        found
        for path in (*(ROOT / "docs").rglob("*.md"), ROOT / "examples/container/Dockerfile")
        for found in re.findall(r"FROM python:([\d.]+)", path.read_text(encoding="utf-8"))
    ]
    assert len(images) > 1
    assert set(images) <= set(tested)


#: What a row of README's table promises, and the name that a program would import for it.
_PROMISED: Final = {
    "asyncio": "AsyncKafkaConsumer",
    "Arrow batches; Spark source and sink": "read",
    "share groups (KIP-932)": "ShareConsumer",
}


def test_the_readme_says_yes_to_what_the_package_has():
    rows = dict(re.findall(r"^\| (\w.+?) \| (yes|no)\b", README, re.MULTILINE))
    assert {row: rows[row] for row in _PROMISED} == {
        row: "yes" if name in tandem_kafka.__all__ else "no" for row, name in _PROMISED.items()
    }
    supported = set(re.findall(r"^\| (KIP-\d+) \|", PAGE, re.MULTILINE))
    for row, answer in rows.items():
        assert _kips(row) <= supported or answer == "no"
    missing = LIMITS.split("## Not included\n")[1].split("\n## ")[0]
    assert not _kips(missing) & supported - {"KIP-848"}  # its client-side assignors are missing


def test_every_request_that_is_sent_is_in_the_table():
    named = set()
    for folder in ("request_managers", "network"):
        for path in (ROOT / "tandem_kafka" / folder).rglob("*.py"):
            named |= set(re.findall(r"\b([A-Z]\w+)Request\b", path.read_text(encoding="utf-8")))
    listed = set(re.findall(r"^\| (\w+) \| \d+ \|", requests(), re.MULTILINE))
    kinds = {name for name in named if hasattr(messages, f"{name}Request")}
    simulated_only = {name for name in kinds if f"{name} (" in PAGE}
    assert kinds | {"Fetch"} == listed | simulated_only
