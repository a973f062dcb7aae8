"""Processes of members that can be paused, killed and ended; each reports its events."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

__all__ = ["Event", "MemberProcess"]

_ROOT = Path(__file__).resolve().parents[2]

#: A time, an action and its arguments.
Event = tuple[float, str, list[object]]


class MemberProcess:
    """One process that runs `tests.chaos.member`, or another module that reports as it does.

    Attributes:
        events: Its reports so far, in order.
        doubtful: Times at which it was paused or killed: its ownership is unknown from then on.
    """

    def __init__(self, name: str, module: str, arguments: list[str]) -> None:
        self.name = name
        self.protocol = arguments[2]
        self.events: list[Event] = []
        self.doubtful: list[float] = []
        command = [sys.executable, "-W", "ignore", "-m", f"tests.chaos.{module}", *arguments]
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
            self.events.append((at, what, about))

    def _listen_to_complaints(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._complaints.append(line)

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def check(self) -> None:
        """Check that it runs, or ended as expected."""
        status = self._process.poll()
        if status is not None and status not in self._expected:
            complaints = "".join(self._complaints[-40:])
            raise AssertionError(f"{self.name} ended with {status}:\n{complaints}")

    def pause(self) -> None:
        """Stop the process without notice."""
        self.doubtful.append(time.monotonic())
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Continue the process."""
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """Kill the process."""
        self.doubtful.append(time.monotonic())
        self._expected.add(-signal.SIGKILL)
        self._process.kill()
        self._join(10.0)

    def ask_to_end(self) -> None:
        """Ask the process to close its consumer."""
        # Before its handler is installed, SIGTERM ends it with this status.
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
