"""The process of a member, in Python or Java, for the suite."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

from benchmarks.readers.catalogue import JAVA
from tandem_kafka_testing.kafka.java import compiled, java_command

__all__ = ["MemberProcess"]

_JAVA: Final = Path(__file__).with_name("Member.java")
_HEAP: Final = "-Xmx512m"  # as Kafka's own scripts start it
_PATIENCE_S: Final = 60.0


def _java_command(*arguments: str) -> list[str]:
    classes = compiled(_JAVA)
    return java_command(_JAVA.stem, *arguments, options=[_HEAP], log_level="warn", classes=classes)


class MemberProcess:
    """A context manager that starts a member; the arguments are those of `member.py`."""

    def __init__(self, client: str, *arguments: str) -> None:
        command = (
            _java_command(*arguments)
            if client == JAVA
            else [sys.executable, "-m", "benchmarks.groups.member", client, *arguments]
        )
        self._client = client
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("no pipes to the member")
        self._input = self._process.stdin
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        reader = threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True)
        reader.start()

    def _read(self, output: IO[str]) -> None:
        with output:
            for line in output:
                self._lines.put(line)
        self._lines.put("")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._input.close()
        self._process.kill()
        self._process.wait()

    def go(self) -> None:
        """Tell the process to take the next step."""
        self._input.write("\n")
        self._input.flush()

    def next(self, name: str) -> dict[str, Any]:
        """Return the next entry that has `name`."""
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            entry = self._entry(deadline, name)
            if name in entry:
                return entry

    def _entry(self, deadline: float, name: str) -> dict[str, Any]:
        try:
            line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            raise TimeoutError(f"{self._client}: no {name} in {_PATIENCE_S:.0f} s") from None
        if not line:
            raise RuntimeError(f"{self._client}: the process ended before {name!r}")
        # Other lines, for example warnings of a client, are ignored.
        found: dict[str, Any] = json.loads(line) if line.startswith("{") else {}
        return found

    def wait(self) -> None:
        """Wait until it has left the group and ended."""
        if self._process.wait(_PATIENCE_S):
            raise RuntimeError(f"{self._client}: ended with {self._process.returncode}")
