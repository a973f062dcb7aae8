"""A folder of the user for what is made once, such as downloads, and used by all projects."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

__all__ = ["cache", "made_once"]


def cache() -> Path:
    """Return the folder: `tandem-kafka` in $XDG_CACHE_HOME or in `~/.cache`."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "tandem-kafka"


def made_once(folder: Path, make: Callable[[Path], None]) -> Path:
    """Return a folder; if it is not there, `make` fills it first.

    Invariant: an existing folder is complete, because it got its name after it was filled. Two
    processes do not fill it at once; what a process left that was killed is removed.
    """
    import fcntl  # noqa: PLC0415 - Windows lacks it, and commands that name a version import this

    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # it ends with the process
        if not folder.is_dir():
            unfinished = folder.parent / f"{folder.name}.unfinished"
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir()
            try:
                make(unfinished)
                unfinished.rename(folder)
            finally:
                shutil.rmtree(unfinished, ignore_errors=True)
    return folder
