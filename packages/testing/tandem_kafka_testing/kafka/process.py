"""The process of one broker: format its storage, start, stop, kill, pause and resume it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final
from weakref import WeakSet

from tandem_kafka_testing.kafka.java import java_command
from tandem_kafka_testing.kafka.security import scram_credentials

_READY = "Kafka Server started"
_START_S = 180.0
_STOP_S = 60.0

#: Starts a broker after its process id is in a folder, where the watchdog finds it.
_LAUNCH: Final = 'echo $$ >"$0/id" && [ -e "$0/id" ] && exec "$@"'
#: When its input ends: takes that folder away, so that no broker starts any more, kills the one
#: that has started, and removes all of the cluster.
_WATCH: Final = 'cat >/dev/null; mv "$0" "$0-taken"; kill -9 "$(cat "$0-taken/id")"; rm -rf "$1"'


class BrokerProcess:
    """A Kafka broker; its ports and data survive a restart."""

    def __init__(
        self,
        properties: Path,
        log: Path,
        options: Sequence[str],
        classes: Path | None,
        version: str,
    ) -> None:
        self._version = version
        self._classes = classes
        self._properties = properties
        self._log = log
        self._gate = properties.with_name("process")
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None
        self._log_start = 0
        _all.add(self)

    @property
    def running(self) -> bool:
        """Whether the process exists, paused or not."""
        return self._process is not None and self._process.poll() is None

    def format(self, cluster_id: str) -> None:
        """Prepare the storage and create the SCRAM users."""
        self._watchdog = self._watch()
        users = [part for user in scram_credentials() for part in ("--add-scram", user)]
        command = java_command(
            "kafka.tools.StorageTool",
            *("format", "--cluster-id", cluster_id, "--config", str(self._properties)),
            *users,
            options=["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"],
            version=self._version,
        )
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"cannot format a broker's storage:\n{done.stdout}{done.stderr}")

    def launch(self) -> None:
        """Start the process; `wait_ready` waits until it serves requests."""
        if self.running:
            raise RuntimeError("the broker is running")
        self._log_start = self._log.stat().st_size if self._log.exists() else 0
        command = java_command(
            "kafka.Kafka",
            str(self._properties),
            options=self._options,
            classes=self._classes,
            version=self._version,
        )
        # Invariant: the watchdog comes first. If this process is killed or interrupted afterwards,
        # the watchdog finds a process id, or the broker does not start.
        self._gate.mkdir(exist_ok=True)
        (self._gate / "id").unlink(missing_ok=True)
        self._watchdog = self._watchdog or self._watch()
        with self._log.open("ab") as log:
            # A new process session: Ctrl-C only reaches the tests, which then stop their brokers.
            self._process = subprocess.Popen(
                ["sh", "-c", _LAUNCH, str(self._gate), *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait_ready(self) -> None:
        """Wait until the broker serves requests; the error has the end of its log."""
        deadline = time.monotonic() + _START_S
        while _READY not in self._log_since_launch():
            if not self.running:
                raise RuntimeError(f"the broker ended while starting:\n{self._causes()}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"not started after {_START_S:.0f} s:\n{self.log_tail()}")
            time.sleep(0.05)

    def ask_to_stop(self) -> None:
        """Start a graceful stop; `wait_stopped` waits for its end."""
        self.resume()
        self._signal(signal.SIGTERM)

    def wait_stopped(self) -> None:
        """Wait until the process has ended; kill it after a timeout."""
        if self._process is None:
            return
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_STOP_S)
        self.kill()

    def kill(self) -> None:
        """Kill the process, like a crash."""
        if self._process is None:
            if self._watchdog is not None:  # it was formatted, or `launch` was interrupted
                self._watchdog.communicate()
                self._watchdog = None
            return
        self._process.kill()
        self._dismiss_watchdog()  # before the process id can be used again
        self._process.wait()
        self._process = None

    def _dismiss_watchdog(self) -> None:
        """End the watchdog."""
        if self._watchdog is not None:
            self._watchdog.kill()
            self._watchdog.communicate()
            self._watchdog = None

    def pause(self) -> None:
        """Pause the process: its connections stay open, but it does not respond."""
        self._signal(signal.SIGSTOP)
        if self._process is not None and self.running:
            # Its threads stop shortly after the signal; one could still respond.
            os.waitpid(self._process.pid, os.WUNTRACED)

    def resume(self) -> None:
        """Continue after `pause`."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self.running:
            os.kill(self._process.pid, number)

    def log_tail(self, lines: int = 40) -> str:
        """Return the last lines of the log."""
        return "\n".join(self._log_since_launch().splitlines()[-lines:])

    def _causes(self) -> str:
        """Return the errors in the log, and its last lines."""
        lines = self._log_since_launch().splitlines()
        errors = [line for line in lines if "ERROR" in line or "Exception" in line]
        return "\n".join([*errors[:20], "...", self.log_tail()])

    def _log_since_launch(self) -> str:
        with self._log.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace")

    def _watch(self) -> subprocess.Popen[bytes]:
        """Start a watchdog for the end of this process, whose pipe closes however it ends."""
        return subprocess.Popen(
            ["sh", "-c", _WATCH, str(self._gate), str(self._properties.parents[1])],
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def let_go(self) -> None:
        """Leave the broker to the process that has started it: this one was forked from that."""
        if self._watchdog is not None and self._watchdog.stdin is not None:
            self._watchdog.stdin.close()


#: The brokers of this process.
_all: Final = WeakSet[BrokerProcess]()


def _let_all_go() -> None:
    for broker in tuple(_all):
        broker.let_go()


if hasattr(os, "register_at_fork"):  # not on Windows, where commands import this too
    os.register_at_fork(after_in_child=_let_all_go)
