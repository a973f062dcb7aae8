"""The Rust crates that the extension contains: their licences, and a bill of materials."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

__all__ = ["bill_of_materials", "third_party_licences"]

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
    texts: dict[str, int] = {}
    crates = [_crate(package, texts) for package in _linked_packages(rust, triple)]
    numbered = [f"{_RULE}\nText {number}\n{_RULE}\n{text}\n" for text, number in texts.items()]
    introduction = "The native extension contains these Rust crates. Their licence texts follow.\n"
    return "\n".join([introduction, *crates, "", *numbered])


def bill_of_materials(rust: Path, triple: str, version: str) -> str:
    """Returns a CycloneDX document about the linked crates, for `.dist-info/sboms` (PEP 770).

    Args:
        rust: The folder with Cargo.toml.
        triple: The target, in Rust's words.
        version: The version of tandem-kafka.
    """
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "metadata": {
            "component": {
                "type": "library",
                "name": "tandem-kafka",
                "version": version,
                "purl": f"pkg:pypi/tandem-kafka@{version}",
            }
        },
        "components": [
            {
                "type": "library",
                "name": package["name"],
                "version": package["version"],
                "purl": (purl := f"pkg:cargo/{package['name']}@{package['version']}"),
                "bom-ref": purl,
                "licenses": [{"expression": _expression(package)}],
            }
            for package in _linked_packages(rust, triple)
        ],
    }
    return json.dumps(document, indent=2) + "\n"


def _linked_packages(rust: Path, triple: str) -> list[dict[str, Any]]:
    command = ["cargo", "metadata", "--format-version=1", "--filter-platform", triple]
    output = subprocess.run(command, cwd=rust, check=True, capture_output=True).stdout
    metadata: dict[str, Any] = json.loads(output)
    linked = _linked(metadata)
    packages = [package for package in metadata["packages"] if package["id"] in linked]
    return sorted(packages, key=lambda package: (package["name"], package["id"]))


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


def _expression(package: dict[str, Any]) -> str:
    """Return a crate's licence as SPDX writes it; older crates have a slash for OR."""
    name, version = package["name"], package["version"]
    if not package["license"]:
        raise SystemExit(f"the crate {name} {version} names no licence")
    return str(package["license"]).replace("/", " OR ").replace("  ", " ")


def _crate(package: dict[str, Any], texts: dict[str, int]) -> str:
    """Return a crate's line, and add its licence texts to those that are there."""
    name, version = package["name"], package["version"]
    folder = Path(package["manifest_path"]).parent
    files = sorted({path for pattern in _NAMES for path in folder.glob(pattern) if path.is_file()})
    numbers = []
    for path in files:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        text = "\n".join(line.rstrip() for line in lines).strip("\n")
        numbers.append(texts.setdefault(text, len(texts) + 1))
    if not numbers:
        raise SystemExit(f"the crate {name} {version} has no licence text")
    return f"{name} {version}: {_expression(package)}; text {', '.join(map(str, numbers))}"
