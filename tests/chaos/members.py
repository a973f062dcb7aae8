"""Processes of members: started, paused, killed and ended, and what each of them told."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

__all__ = ["MemberProcess", "Told"]

_ROOT = Path(__file__).resolve().parents[2]

#: A time, what happened, and with what.
Told = tuple[float, str, list[object]]


class MemberProcess:
    """One process that runs `tests.chaos.member`.

    Attributes:
        told: What it said so far, in order.
        doubtful: Since when it cannot know what it owns: it was paused or killed.
    """

    def __init__(self, name: str, arguments: list[str]) -> None:
        self.name = name
        self.protocol = arguments[2]
        self.told: list[Told] = []
        self.doubtful: list[float] = []
        command = [sys.executable, "-W", "ignore", "-m", "tests.chaos.member", *arguments]
        self._process = subprocess.Popen(
            command, cwd=_ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self._complaints: list[str] = []
        self._threads = [
            threading.Thread(target=self._listen, daemon=True),
            threading.Thread(target=self._listen_to_complaints, daemon=True),
        ]
        for thread in self._threads:
            thread.start()
        self._expected: set[int] = {0}

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            at, what, *about = json.loads(line)
            self.told.append((at, what, about))

    def _listen_to_complaints(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._complaints.append(line)

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def check(self) -> None:
        """See that it runs, or ended as it was told to."""
        status = self._process.poll()
        if status is not None and status not in self._expected:
            complaints = "".join(self._complaints[-40:])
            raise AssertionError(f"{self.name} ended with {status}:\n{complaints}")

    def pause(self) -> None:
        """Stop it where it is; nobody is told."""
        self.doubtful.append(time.monotonic())
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it without a word."""
        self.doubtful.append(time.monotonic())
        self._expected.add(-signal.SIGKILL)
        self._process.kill()
        self._join(10.0)

    def ask_to_end(self) -> None:
        """Have it close its consumer."""
        # One that has not begun yet knows no better way than this.
        self._expected.add(-signal.SIGTERM)
        self._process.terminate()

    def wait_ended(self) -> None:
        """Wait until it has closed its consumer."""
        self._join(90.0)
        self.check()

    def _join(self, timeout_s: float) -> None:
        self._process.wait(timeout_s)
        for thread in self._threads:
            thread.join(timeout_s)
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()
