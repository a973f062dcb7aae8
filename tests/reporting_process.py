"""A process that reports what it does as lines on its standard output."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

__all__ = ["ReportingProcess"]

_ROOT = Path(__file__).resolve().parents[1]


class ReportingProcess:
    """Runs a module.

    Args:
        module: Its name.
        arguments: Its arguments.
        note: Called with each line, on a thread.

    Attributes:
        errors: The lines on its standard error.
    """

    def __init__(
        self, module: str, arguments: Sequence[str], note: Callable[[str], object]
    ) -> None:
        self.errors: list[str] = []
        self._note = note
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", module, *arguments],
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._threads = [
            threading.Thread(target=self._listen, daemon=True),
            threading.Thread(target=self._listen_to_errors, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.endswith("\n"):  # else it was killed meanwhile
                self._note(line)

    def _listen_to_errors(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.errors.append(line)

    @property
    def status(self) -> int | None:
        """What it has ended with; None while it runs."""
        return self._process.poll()

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def end_input(self) -> None:
        """End its standard input."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def join(self, timeout_s: float) -> None:
        """Wait until it has ended and every line was noted."""
        self._process.wait(timeout_s)
        for thread in self._threads:
            thread.join(timeout_s)
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()
