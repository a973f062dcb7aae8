"""Examples as processes: run to their end, or started and stopped by a signal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from tests.integration.polling import wait_until

__all__ = ["ROOT", "RunningExample", "new_group", "options_of", "require", "run"]

ROOT = Path(__file__).parents[2]

_END_S = 60


def new_group() -> str:
    """Return the name of a group that does not exist yet."""
    return f"g{uuid.uuid4().hex[:8]}"


def options_of(bootstrap: str, topic: str, group: str) -> list[str]:
    """Return the options that nearly all examples take."""
    return ["--bootstrap", bootstrap, "--topic", topic, "--group", group]


def require(*libraries: str) -> None:
    """Skip the test if a library is not installed."""
    for name in libraries:
        if find_spec(name) is None:
            pytest.skip(f"{name} is not installed (it is in the extra `test`)")


def run(folder: Path, example: str, options: Sequence[str]) -> str:
    """Run an example to its end in a folder; returns its output."""
    with RunningExample(folder, example, options) as running:
        return running.end()


class RunningExample:
    """An example that runs in a folder, with its output in files there."""

    def __init__(
        self,
        folder: Path,
        example: str,
        options: Sequence[str] = (),
        settings: dict[str, str] | None = None,
    ) -> None:
        self._output, self._errors = folder / "stdout", folder / "stderr"
        command = [sys.executable, str(ROOT / "examples" / example), *options]
        environment = {
            "PATH": os.environ.get("PATH", ""),
            "PYTHONPATH": str(ROOT),
            "PYTHONUNBUFFERED": "1",
            "PYTHONWARNINGS": "ignore",
            **(settings or {}),
        }
        with self._output.open("w") as output, self._errors.open("w") as errors:
            self._process = subprocess.Popen(
                command, cwd=folder, env=environment, stdout=output, stderr=errors
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

        def ready_or_ended() -> bool:
            return bool(ready()) or self._process.poll() is not None

        wait_until(ready_or_ended, what)
        assert self._process.poll() is None, self.errors

    def address(self) -> str:
        """Wait for the first line, and return its first word: the URL that a server prints."""
        self.wait_until(lambda: "\n" in self.output, "the address")
        return self.output.split()[0]

    def end(self, number: signal.Signals | None = None) -> str:
        """Send a signal, if any, and wait for the end; returns the output.

        The example must exit with status 0 and without a traceback.
        """
        if number is not None:
            self._process.send_signal(number)
        status = self._process.wait(_END_S if number is not None else 150)
        assert status == 0, self.errors
        assert "Traceback" not in self.errors, self.errors
        return self.output
