"""The crates of the native extension have exact versions: a sdist has no lock file."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

RUST = Path(__file__).resolve().parents[2] / "rust"
TREE = ("tree", "--target", "all", "--edges", "normal,build", "--prefix", "none")


@pytest.mark.sources
@pytest.mark.skipif(shutil.which("cargo") is None, reason="no cargo")
def test_each_crate_on_each_platform_has_an_exact_version() -> None:
    with (RUST / "Cargo.toml").open("rb") as file:
        manifest = tomllib.load(file)
    targets = [manifest, *manifest["target"].values()]
    pinned = set()
    for name, given in (item for each in targets for item in each["dependencies"].items()):
        table = {"version": given} if isinstance(given, str) else given
        pinned.add((table.get("package", name), table["version"]))
    tree = subprocess.run(("cargo", *TREE), cwd=RUST, check=True, capture_output=True, text=True)
    used = set(re.findall(r"^([\w-]+) v([\d.]+)", tree.stdout, re.MULTILINE))
    used.discard((manifest["package"]["name"], manifest["package"]["version"]))
    assert len(used) > 100
    assert {(name, f"={version}") for name, version in used} == pinned
