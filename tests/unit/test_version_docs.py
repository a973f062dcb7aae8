"""docs/reference/versions.md agrees with the code, pyproject.toml and the broker of the tests."""

from __future__ import annotations

import re
import tomllib
from typing import Final

import pytest

from tandem_kafka.testing.kafka.jars import KAFKA_VERSION
from tests.unit.api_versions import table
from tests.unit.messages import ROOT

#: It reads the sources of the package.
pytestmark = pytest.mark.sources

PAGE: Final = (ROOT / "docs" / "reference" / "versions.md").read_text(encoding="utf-8")
PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_requests_are_those_of_the_code():
    assert table() in PAGE, "print it with: python -m tests.unit.api_versions"


def test_the_packages_are_those_of_the_project():
    extras = PROJECT["optional-dependencies"]
    wanted = [*PROJECT["dependencies"], *extras["arrow"], *extras["spark"]]
    by_name = dict(re.findall(r"^\| `([\w-]+)` \| ([^ ;]+)", PAGE, re.MULTILINE))
    assert by_name.pop("pyspark") in "".join(wanted)
    for name, versions in by_name.items():
        assert f"{name}{versions}" in wanted
    assert f"| Python | {PROJECT['requires-python']} " in PAGE


def test_the_broker_and_the_compiler_are_named():
    assert f"| {KAFKA_VERSION} |" in PAGE
    manifest = tomllib.loads((ROOT / "rust" / "Cargo.toml").read_text(encoding="utf-8"))
    assert f"| Rust | {manifest['package']['rust-version']} or newer |" in PAGE
