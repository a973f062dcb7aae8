"""Runs tests in a copy of the tree, and says whether they find a bug."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from importlib.util import find_spec
from pathlib import Path

from tests.mutants.bugs import Bug
from tests.mutants.planting import planted

#: The everyday tests that need no real broker. A file is in one process, in the order given.
_PYTEST = (
    *("-m", "pytest", "-x", "-q", "-n", "2", "--dist", "loadfile", "--no-loadscope-reorder"),
    *("-p", "no:cacheprovider", "-m", "not broker"),
)
#: pytest-xdist ends with 2, like an interrupt, where pytest alone ends with 1.
_PASSED, _FAILED, _STOPPED = 0, 1, 2
_FAILURE = re.compile(r"^(?:FAILED|ERROR) (\S+::.*?)(?: - .*)?$", re.MULTILINE)


class Result(Enum):
    """What became of a bug, or of the tests without one."""

    FOUND = "found"
    NOT_FOUND = "not found"
    NOT_DECIDED = "not decided"
    NOT_TRIED = "not tried"
    ERROR = "error"


@dataclass(frozen=True)
class Measured:
    """The result of a run of tests.

    Attributes:
        result: What became of the bug.
        seconds: How long the tests ran, without the build of the native extension.
        by: The first test that failed; or what else there is to say.
    """

    result: Result
    seconds: float = 0
    by: str = ""


def measure(copy: Path, bug: Bug, timeout_s: float) -> Measured:
    """Plant a bug, run its tests, and take it out again."""
    if missing := what_is_missing(bug):
        return Measured(Result.NOT_TRIED, by=f"needs {missing}")
    try:
        with planted(copy, bug):
            return run_tests(copy, bug.tests, timeout_s)
    except (ValueError, subprocess.CalledProcessError) as error:
        return Measured(Result.ERROR, by=str(error))


def what_is_missing(bug: Bug) -> str:
    """Return what is not installed here that a bug needs, or ""."""
    if bug.needs and find_spec(bug.needs.lower()) is None:
        return bug.needs
    return "cargo" if bug.is_rust and shutil.which("cargo") is None else ""


def what_is_imported(copy: Path) -> set[Path]:
    """Return the folders that the packages come from when the tests of a copy run."""
    names = [each.parent.name for each in copy.glob("packages/*/*tandem_kafka*/__init__.py")]
    # Found, not imported: there may be no PySpark.
    code = "import sys\nfrom importlib.util import find_spec\n"
    code += "for each in sys.argv[1:]: print(find_spec(each).origin)"
    printed = subprocess.run(
        [sys.executable, "-c", code, "tandem_kafka", *names],
        cwd=copy,
        env=_environment(copy),
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return {Path(line).resolve().parents[1] for line in printed.splitlines()}


def run_tests(copy: Path, tests: Sequence[str], timeout_s: float) -> Measured:
    """Run tests until the first one fails."""
    began_s = time.monotonic()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            [sys.executable, *_PYTEST, *tests],
            cwd=copy,
            env=_environment(copy),
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # so that its workers end with it
        )
        try:
            code = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return Measured(Result.NOT_DECIDED, time.monotonic() - began_s)
        finally:
            _end(process)
        output.seek(0)
        text = output.read().decode(errors="replace")
    return _judged(code, text, time.monotonic() - began_s)


def _judged(code: int, output: str, seconds: float) -> Measured:
    if code == _PASSED:
        return Measured(Result.NOT_FOUND, seconds)
    failed = _FAILURE.search(output)
    if failed is not None and (
        code == _FAILED or (code == _STOPPED and "stopping after" in output)
    ):
        return Measured(Result.FOUND, seconds, failed[1])
    last = "\n".join(output.strip().splitlines()[-10:])
    return Measured(Result.ERROR, seconds, f"pytest ended with {code}:\n{last}")


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _environment(copy: Path) -> dict[str, str]:
    """Programs that tests start import the copy as well."""
    folders = [copy, *sorted(copy.glob("packages/*"))]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))}
