"""Processes of members that can be paused, killed and ended."""

from __future__ import annotations

import signal
import time

from tests.histories.operations import Operation, from_lines
from tests.histories.share_events import Event, event_of
from tests.reporting_process import ReportingProcess

__all__ = ["MemberProcess", "ShareProcess"]


class MemberProcess:
    """One process that runs `tests.chaos.member`.

    Attributes:
        operations: Its operations so far, in order.
        doubtful: Times at which it was paused or killed: its ownership is unknown from then on.
    """

    module = "tests.chaos.member"

    def __init__(self, name: str, protocol: str, arguments: list[str]) -> None:
        self.name = name
        self.protocol = protocol
        self.operations: list[Operation] = []
        self.doubtful: list[float] = []
        self._process = ReportingProcess(self.module, arguments, self._note)
        self._expected: set[int] = {0}

    def _note(self, line: str) -> None:
        self.operations += from_lines([line])

    @property
    def running(self) -> bool:
        return self._process.status is None

    def check(self) -> None:
        """Check that it runs, or ended as expected."""
        status = self._process.status
        if status is not None and status not in self._expected:
            complaints = "".join(self._process.errors[-40:])
            raise AssertionError(f"{self.name} ended with {status}:\n{complaints}")

    def pause(self) -> None:
        """Stop the process without notice."""
        self.doubtful.append(time.monotonic())
        self._process.send(signal.SIGSTOP)

    def resume(self) -> None:
        """Continue the process."""
        self._process.send(signal.SIGCONT)

    def kill(self) -> None:
        """Kill the process."""
        self.doubtful.append(time.monotonic())
        self._expected.add(-signal.SIGKILL)
        self._process.send(signal.SIGKILL)
        self._process.join(10.0)

    def end_faults(self) -> None:
        """Let the process know that no fault comes any more."""
        self._process.end_input()

    def ask_to_end(self) -> None:
        """Ask the process to close its consumer."""
        # Before its handler is installed, SIGTERM ends it with this status.
        self._expected.add(-signal.SIGTERM)
        self._process.send(signal.SIGTERM)

    def wait_ended(self) -> None:
        """Wait until it has closed its consumer."""
        self._process.join(90.0)
        self.check()


class ShareProcess(MemberProcess):
    """One process that runs `tests.chaos.share_member`.

    Attributes:
        events: What it has reported so far, in order.
    """

    module = "tests.chaos.share_member"

    def __init__(self, name: str, protocol: str, arguments: list[str]) -> None:
        self.events: list[Event] = []
        super().__init__(name, protocol, arguments)

    def _note(self, line: str) -> None:
        self.events.append(event_of(line))
