"""The licences of the Rust crates that the extension contains."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

__all__ = ["third_party_licences"]

_NAMES: Final = ("LICENSE*", "LICENCE*", "COPYING*", "UNLICENSE*", "NOTICE*")
_RULE: Final = "=" * 78


def third_party_licences(rust: Path, triple: str) -> str:
    """Returns the names, versions and licences of all linked crates, and each licence text once.

    Args:
        rust: The folder with Cargo.toml.
        triple: The target, in Rust's words.

    Raises:
        SystemExit: A crate names no licence, or has no licence text.
    """
    metadata = _metadata(rust, triple)
    packages = {package["id"]: package for package in metadata["packages"]}
    linked = sorted(_linked(metadata), key=lambda each: (packages[each]["name"], each))
    texts: dict[str, int] = {}
    crates = [_crate(packages[each], texts) for each in linked]
    numbered = [f"{_RULE}\nText {number}\n{_RULE}\n{text}\n" for text, number in texts.items()]
    introduction = "The native extension contains these Rust crates. Their licence texts follow.\n"
    return "\n".join([introduction, *crates, "", *numbered])


def _metadata(rust: Path, triple: str) -> dict[str, Any]:
    command = ["cargo", "metadata", "--format-version=1", "--filter-platform", triple]
    output = subprocess.run(command, cwd=rust, check=True, capture_output=True).stdout
    metadata: dict[str, Any] = json.loads(output)
    return metadata


def _linked(metadata: dict[str, Any]) -> set[str]:
    """The crates that are reached without dependencies for builds and tests, but ours."""
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    found: set[str] = set()
    waiting: list[str] = [metadata["resolve"]["root"]]
    while waiting:
        each = waiting.pop()
        if each not in found:
            found.add(each)
            waiting.extend(_dependencies(nodes[each]))
    return found - set(metadata["workspace_members"])


def _dependencies(node: dict[str, Any]) -> Iterator[str]:
    for dependency in node["deps"]:
        if any(kind["kind"] is None for kind in dependency["dep_kinds"]):
            yield dependency["pkg"]


def _crate(package: dict[str, Any], texts: dict[str, int]) -> str:
    """Return a crate's line, and add its licence texts to those that are there."""
    name, version = package["name"], package["version"]
    licence = package["license"] or package["license_file"]
    if not licence:
        raise SystemExit(f"the crate {name} {version} names no licence")
    folder = Path(package["manifest_path"]).parent
    files = sorted({path for pattern in _NAMES for path in folder.glob(pattern) if path.is_file()})
    numbers = []
    for path in files:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        text = "\n".join(line.rstrip() for line in lines).strip("\n")
        numbers.append(texts.setdefault(text, len(texts) + 1))
    if not numbers:
        raise SystemExit(f"the crate {name} {version} has no licence text")
    return f"{name} {version}: {licence}; text {', '.join(map(str, numbers))}"
