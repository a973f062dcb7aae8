"""Examples as processes: run to their end, or started and stopped by a signal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from tests.waiting import until

__all__ = ["EXAMPLES", "RunningExample", "require"]

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"

_TIMEOUT_S = 60.0


def require(*libraries: str) -> None:
    """Skip the test if a library is not installed."""
    for name in libraries:
        if find_spec(name) is None:
            pytest.skip(f"{name} is not installed")


class RunningExample:
    """A program that runs in a folder, with its output in files there.

    Args:
        folder: The folder.
        arguments: The arguments of Python: an example and its own, or `-m` and a module.
        settings: Variables of its environment.
    """

    def __init__(
        self, folder: Path, *arguments: str | Path, settings: Mapping[str, str] | None = None
    ) -> None:
        self._output, self._errors = folder / "stdout", folder / "stderr"
        environment = {
            "PATH": os.environ.get("PATH", ""),
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
            "PYTHONUNBUFFERED": "1",
            **(settings or {}),
        }
        with self._output.open("w") as output, self._errors.open("w") as errors:
            self._process = subprocess.Popen(
                [sys.executable, *arguments],
                cwd=folder,
                env=environment,
                stdout=output,
                stderr=errors,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    @property
    def output(self) -> str:
        """The output so far."""
        return self._output.read_text()

    @property
    def errors(self) -> str:
        """The text on stderr so far."""
        return self._errors.read_text()

    def wait_until(self, ready: Callable[[], object], what: str) -> None:
        """Wait until `ready()`; fail at once if the example has ended before."""

        def told() -> str:
            return f"{what} did not happen\n{self.output}\n{self.errors}"

        for _ in until(ready, told):
            assert self._process.poll() is None, told()
            time.sleep(0.05)

    @property
    def threads(self) -> int:
        """The number of its threads, on Linux."""
        return len(list(Path(f"/proc/{self._process.pid}/task").iterdir()))

    @property
    def children(self) -> list[Path]:
        """The folders of its child processes in /proc, on Linux."""
        tasks = Path(f"/proc/{self._process.pid}/task").glob("*/children")
        return [Path(f"/proc/{pid}") for task in tasks for pid in task.read_text().split()]

    def kill(self) -> None:
        """End it without a chance to clean up."""
        self._process.kill()
        self._process.wait()

    def end(self, number: signal.Signals | None = None, *, status: int = 0) -> str:
        """Send a signal, if any, and wait for the end; returns the output.

        The example must exit with this status and without a traceback.
        """
        if number is not None:
            self._process.send_signal(number)
        assert self._process.wait(_TIMEOUT_S) == status, self.errors
        assert "Traceback" not in self.errors, self.errors
        return self.output
