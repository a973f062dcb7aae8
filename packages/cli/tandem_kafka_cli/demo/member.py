"""The process of a member: start, reports, end, kill."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from importlib.util import find_spec
from typing import IO

from tandem_kafka_cli.demo.ledger import Ledger

#: The program of a member.
CONSUME = "tandem_kafka_cli.demo.consume"


class Member:
    """A member of the group in a separate process.

    Attributes:
        name: Shown in the view.
        owns: Its partitions.
        closed: Whether it left the group.
        killed: Whether `kill` ended it.

    """

    def __init__(self, name: str, program: str, *arguments: str) -> None:
        self.name = name
        self.owns: list[int] = []
        self.closed = False
        self.killed = False
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._process = subprocess.Popen(
            [sys.executable, "-m", program, *arguments],
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        if self._process.stdout is None:
            raise RuntimeError("no pipe to the member")
        self._reader = threading.Thread(
            target=self._take_lines, args=(self._process.stdout,), daemon=True
        )
        self._reader.start()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def owned(self) -> str:
        """Its partitions, separated by commas."""
        return ",".join(map(str, self.owns)) or "-"

    @property
    def gone(self) -> bool:
        """Whether it left the group or was killed."""
        return self.closed or self.killed

    @property
    def finished(self) -> bool:
        """Whether the process ended and all of its reports have arrived."""
        return self._process.poll() is not None and not self._reader.is_alive()

    def _take_lines(self, pipe: IO[str]) -> None:
        with pipe:
            for line in pipe:
                self._lines.put(line)

    def enter_reports(self, ledger: Ledger) -> None:
        """Enter the reports since the last call."""
        while not self._lines.empty():
            line = self._lines.get()
            if line.endswith("\n"):  # a kill may leave half a line
                self._enter(json.loads(line), ledger)

    def _enter(self, entry: dict[str, object], ledger: Ledger) -> None:
        match entry:
            case {"read": int(partition), "offset": int(offset), "numbers": list(numbers)}:
                ledger.read(partition, offset, numbers)
            case {"committed": dict(offsets)}:
                ledger.committed({int(number): offset for number, offset in offsets.items()})
            case {"owns": list(partitions)}:
                self.owns = partitions
            case {"closed": True}:
                self.closed, self.owns = True, []
            case _:  # an idle member reports that it is alive
                pass

    def kill(self) -> None:
        """Send SIGKILL: the member neither commits nor leaves.

        Its last reports can still be entered.
        """
        self.killed = True
        self._process.kill()
        self._process.wait()
        self._reader.join()

    def ask_to_end(self) -> None:
        """Send SIGTERM: the member commits and leaves the group."""
        self._process.terminate()


def environment() -> dict[str, str]:
    """Return the environment of members: `make demo` builds no extension, and needs no warning."""
    given = dict(os.environ)
    if find_spec("tandem_kafka._native") is None:
        given.setdefault("TANDEM_KAFKA_IMPL", "python")
    return given
