"""The crates of the native extension have exact versions: a sdist has no lock file."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

RUST = Path(__file__).resolve().parents[2] / "rust"
TREE = ("tree", "--workspace", "--target", "all", "--edges", "normal,build", "--prefix", "none")


def manifest(folder: Path) -> dict[str, Any]:
    return tomllib.loads((folder / "Cargo.toml").read_text(encoding="utf-8"))


def dependencies(crate: dict[str, Any], shared: dict[str, Any]) -> Iterator[tuple[str, str | None]]:
    """Yields the name and the version of each dependency that the crate names; a path has none."""
    for target in (crate, *crate.get("target", {}).values()):
        for name, given in target["dependencies"].items():
            inherited = isinstance(given, dict) and given.get("workspace")
            said = shared[name] if inherited else given
            table = {"version": said} if isinstance(said, str) else said
            yield table.get("package", name), table.get("version")


@pytest.mark.sources
@pytest.mark.skipif(shutil.which("cargo") is None, reason="no cargo")
def test_each_crate_on_each_platform_has_an_exact_version() -> None:
    workspace = manifest(RUST)["workspace"]
    crates = [manifest(RUST / folder) for folder in (".", *workspace["members"])]
    own = {crate["package"]["name"] for crate in crates}
    named = {each for crate in crates for each in dependencies(crate, workspace["dependencies"])}
    pinned = {(name, version) for name, version in named if name not in own}
    tree = subprocess.run(("cargo", *TREE), cwd=RUST, check=True, capture_output=True, text=True)
    found = re.findall(r"^([\w-]+) v([\d.]+)", tree.stdout, re.MULTILINE)
    used = {(name, f"={version}") for name, version in found if name not in own}
    assert len(used) > 100
    assert used == pinned
