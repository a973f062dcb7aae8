"""The packages of this repository have one version, and need each other with it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tandem_kafka import __version__
from tests.sources import FOLDERS, PACKAGES

#: It reads the sources of the packages.
pytestmark = pytest.mark.sources

_REQUIREMENT = re.compile(r"([\w-]+)(?:\[[\w,-]+\])?(.*)")


def project(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    return found


@pytest.mark.parametrize("folder", FOLDERS[1:], ids=lambda folder: folder.name)
def test_each_package_has_the_version_of_tandem_kafka(folder: Path) -> None:
    assert project(folder)["version"] == __version__


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_they_need_each_other_with_that_version(folder: Path) -> None:
    """Only the extras of the same distribution need no version."""
    ours = {project(each)["name"] for each in FOLDERS}
    about = project(folder)
    extras = about.get("optional-dependencies", {}).values()
    needed = [*about["dependencies"], *(each for extra in extras for each in extra)]
    found = {each[1]: each[2] for each in map(_REQUIREMENT.match, needed) if each}
    pinned = {name: version for name, version in found.items() if name in ours - {about["name"]}}
    assert pinned == dict.fromkeys(pinned, f"=={__version__}")
    assert pinned, "the extras bring the packages, and they need tandem-kafka"


def test_a_package_has_the_name_of_its_distribution() -> None:
    names = {project(folder)["name"].replace("-", "_") for folder in FOLDERS}
    assert {package.name for package in PACKAGES} == names
