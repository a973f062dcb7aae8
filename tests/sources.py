"""The sources of this repository's packages, for tests that look at all of them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

__all__ = ["FOLDERS", "PACKAGES", "PYTHONPATH", "ROOT", "TESTS", "modules"]

ROOT: Final = Path(__file__).resolve().parents[1]

#: What is imported from each distribution, in its folder.
PACKAGES: Final = tuple(
    sorted(
        each.parent
        for folder in (".", "packages/*")
        for each in ROOT.glob(f"{folder}/*tandem_kafka*/__init__.py")
    )
)

#: The folders of the distributions, that of tandem-kafka first.
FOLDERS: Final = (ROOT, *sorted(each.parent for each in ROOT.glob("packages/*/pyproject.toml")))
#: The folders of tests.
TESTS: Final = tuple(each / "tests" for each in FOLDERS)
#: For programs that tests start.
PYTHONPATH: Final = os.pathsep.join(map(str, FOLDERS))


def modules(*folders: Path) -> list[Path]:
    """Return the Python files below some folders; of all packages by default."""
    return sorted(path for folder in folders or PACKAGES for path in folder.rglob("*.py"))
