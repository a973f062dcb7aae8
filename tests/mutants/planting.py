"""Plants a bug in a copy of the tree, and takes it out again.

The tree itself is never changed, so an interrupted run leaves nothing behind in it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import cache_from_source
from pathlib import Path

from tests.mutants.bugs import ROOT, Bug

#: Built, so git does not know them, but the tests and cargo need them.
_BUILT = ("tandem_kafka/_native*.so", "rust/Cargo.lock")
_LIBRARY = "lib_native.dylib" if sys.platform == "darwin" else "lib_native.so"
#: Not rust/target itself: what is built with a bug must not be taken for the tree's own library.
_TARGET = ROOT / "rust" / "target" / "mutants"


@contextmanager
def copied(tree: Path) -> Iterator[Path]:
    """Copy what git tracks or would track, and what is built, for the time of the context."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    known = subprocess.run(listed, cwd=tree, check=True, capture_output=True).stdout
    files = {tree / os.fsdecode(name) for name in known.split(b"\0") if name}
    files.update(path for pattern in _BUILT for path in tree.glob(pattern))
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = Path(folder).resolve()
        for path in sorted(files):
            if path.is_file():  # else it is deleted, and git is not told yet
                to = copy / path.relative_to(tree)
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, to)
        yield copy


@contextmanager
def planted(copy: Path, bug: Bug) -> Iterator[None]:
    """Plant a bug in a copy for the time of the context.

    Raises:
        ValueError: What it replaces does not occur once.
        subprocess.CalledProcessError: The native extension cannot be built with it.
    """
    path = copy / bug.file
    text = path.read_text(encoding="utf-8")
    if text.count(bug.old) != 1:
        raise ValueError(f"{bug.id}: `old` occurs {text.count(bug.old)} times in {bug.file}")
    libraries = {each: each.read_bytes() for each in copy.glob("tandem_kafka/_native*.so")}
    try:
        _write(path, text.replace(bug.old, bug.new))
        if bug.is_rust:
            _build(copy)
        yield
    finally:
        _write(path, text)
        if bug.is_rust:
            _replace_libraries(copy, libraries)


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    if path.suffix == ".py":  # it is valid for the same size in the same second
        Path(cache_from_source(str(path))).unlink(missing_ok=True)


def _build(copy: Path) -> None:
    environment = {**os.environ, "CARGO_TARGET_DIR": str(_TARGET)}
    command = ["cargo", "build", "--release", "--quiet"]
    subprocess.run(command, cwd=copy / "rust", env=environment, check=True)
    built = (_TARGET / "release" / _LIBRARY).read_bytes()
    _replace_libraries(copy, {copy / "tandem_kafka" / "_native.abi3.so": built})


def _replace_libraries(copy: Path, libraries: dict[Path, bytes]) -> None:
    for path in copy.glob("tandem_kafka/_native*.so"):
        path.unlink()
    for path, data in libraries.items():
        path.write_bytes(data)
