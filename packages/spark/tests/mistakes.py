"""Runs scripts with common mistakes; see test_mistakes.py."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.sources import PYTHONPATH

__all__ = ["first_line", "run_script", "without"]

#: Python imports this file at its start.
_BLOCK = """
import os, sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in os.environ.get("BLOCKED", "").split(","):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
"""


def without(folder: Path, *packages: str) -> dict[str, str]:
    """Return an environment in which Python does not find these packages."""
    (folder / "sitecustomize.py").write_text(_BLOCK)
    paths = os.pathsep.join((str(folder), PYTHONPATH))
    return {**os.environ, "BLOCKED": ",".join(packages), "PYTHONPATH": paths}


def run_script(
    script: Path, *arguments: str, environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a script like a user, with the Python of an environment that is not activated."""
    return subprocess.run(
        [sys.executable, str(script), *arguments],
        cwd=script.parent,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def first_line(error: BaseException | str) -> str:
    """Return the first line that is not a heading of Spark; it is above the traceback."""
    headings = ("An exception was thrown from the Python worker", "Job aborted")
    lines = (line.strip() for line in str(error).splitlines())
    return next((line for line in lines if line and not line.startswith(headings)), "")
