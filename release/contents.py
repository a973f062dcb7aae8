"""Checks what dist/ holds: `python -m release.contents`.

A wheel must hold the files of its packages and nothing else; an sdist must hold what a build needs.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from release.wheels import DIST, DISTRIBUTIONS, ROOT, tracked

EXTENSION: Final = "tandem_kafka/_native.abi3.so"
#: What pip needs to build a wheel from an sdist.
NEEDED_IN_SDIST: Final = ("LICENSE", "README.md", "pyproject.toml")
#: The most that a wheel may weigh, in MB.
WHEEL_MB: Final = 12.0


def main() -> int:
    """Check all files; returns the exit code."""
    files = sorted(DIST.glob("*.whl")) + sorted(DIST.glob("*.tar.gz"))
    if not files:
        print("dist/ is empty: run make wheels", file=sys.stderr)
        return 1
    subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", *map(str, files)], check=True
    )
    problems = [f"{path.name}: {problem}" for path in files for problem in _problems(path)]
    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"{len(files)} files, {len(problems)} problems")
    return 1 if problems else 0


def _problems(path: Path) -> Iterator[str]:
    if path.suffix == ".whl":
        yield from _of_wheel(path)
    else:
        yield from _of_sdist(path)


def _of_wheel(path: Path) -> Iterator[str]:
    with zipfile.ZipFile(path) as archive:
        names = set(archive.namelist())
        metadata = next(name for name in names if name.endswith(".dist-info/METADATA"))
        yield from _of_metadata(archive.read(metadata).decode())
    native = not path.name.endswith("-none-any.whl")
    expected = _own(path) | ({EXTENSION} if native else set())
    own = {name for name in names if ".dist-info/" not in name}
    yield from (f"{name} is missing" for name in sorted(expected - own))
    yield from (f"{name} does not belong in the wheel" for name in sorted(own - expected))
    if not any(name.endswith("licenses/LICENSE") for name in names):
        yield "the licence is missing"
    if native and not any(name.endswith("THIRD-PARTY-LICENSES") for name in names):
        yield "the licences of the Rust crates are missing"
    if native and not any(".dist-info/sboms/" in name for name in names):
        yield "the bill of materials of the Rust crates is missing"
    megabytes = path.stat().st_size / 1e6
    if megabytes > WHEEL_MB:
        yield f"{megabytes:.1f} MB, more than {WHEEL_MB}"


def _own(path: Path) -> set[str]:
    """Return the files of a distribution's packages, as they stand in its folder."""
    folder, packages = DISTRIBUTIONS[path.name.partition("-")[0]]
    within = ROOT / folder
    listed = tracked(*(str(within / each) for each in packages))
    return {str((ROOT / name).relative_to(within)) for name in listed}


def _of_metadata(text: str) -> Iterator[str]:
    """Yield links that lead nowhere from a package index."""
    dead = re.findall(r'\]\((?!https?:|#)([^)]+)\)|src(?:set)?="(?!https?:)([^"]+)"', text)
    if dead:
        yield f"{len(dead)} relative links: set TANDEM_KAFKA_REPOSITORY to the repository's address"


def _of_sdist(path: Path) -> Iterator[str]:
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    expected = _own(path) | set(NEEDED_IN_SDIST)
    if path.name.startswith("tandem_kafka-"):
        expected |= {"setup.py", *tracked(str(ROOT / "rust"))}
    yield from (f"{name} is missing" for name in sorted(expected - names))
    built = (name for name in names if "rust/target/" in name or name.endswith((".so", ".pyc")))
    yield from (f"{name} is a build product" for name in sorted(built))


if __name__ == "__main__":
    sys.exit(main())
