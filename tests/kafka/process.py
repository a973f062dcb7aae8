"""One broker's process: format its storage, start, stop, kill, pause and resume it."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from tests.kafka.jars import classpath
from tests.kafka.security import scram_credentials

__all__ = ["BrokerProcess", "java_command"]

_LOG4J = Path(__file__).with_name("log4j2.properties")
_READY = "Kafka Server started"
_START_S = 180.0
_STOP_S = 60.0


def java_command(
    main_class: str, *arguments: str, options: Sequence[str] = (), log_level: str = "info"
) -> list[str]:
    """The command that runs a class of Kafka; it logs to its standard output."""
    java = shutil.which("java")
    if java is None:
        raise RuntimeError("Java 17 or newer is needed to run Kafka: no 'java' on the PATH")
    log = (f"-Dlog4j2.configurationFile={_LOG4J}", f"-Dtests.log.level={log_level}")
    return [java, *options, *log, "-cp", classpath(), main_class, *arguments]


class BrokerProcess:
    """A Kafka broker; its ports and data outlive a restart."""

    def __init__(self, properties: Path, log: Path, options: Sequence[str]) -> None:
        self._properties = properties
        self._log = log
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None
        self._log_start = 0
        atexit.register(self.kill)

    @property
    def running(self) -> bool:
        """Whether the process lives, paused or not."""
        return self._process is not None and self._process.poll() is None

    def format(self, cluster_id: str) -> None:
        """Prepare the storage and create the SCRAM users."""
        users = [part for user in scram_credentials() for part in ("--add-scram", user)]
        command = java_command(
            "kafka.tools.StorageTool",
            *("format", "--cluster-id", cluster_id, "--config", str(self._properties)),
            *users,
            options=["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"],
        )
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"cannot format a broker's storage:\n{done.stdout}{done.stderr}")

    def launch(self) -> None:
        """Start the process; `wait_ready` tells when it serves."""
        if self.running:
            raise RuntimeError("the broker is running")
        self._log_start = self._log.stat().st_size if self._log.exists() else 0
        command = java_command("kafka.Kafka", str(self._properties), options=self._options)
        with self._log.open("ab") as log:
            # A session of its own: Ctrl-C is for the tests, which then stop their brokers.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._watchdog = _watch(self._process.pid)

    def wait_ready(self) -> None:
        """Wait until the broker serves; raise with the end of its log if it does not."""
        deadline = time.monotonic() + _START_S
        while _READY not in self._log_since_launch():
            if not self.running:
                raise RuntimeError(f"the broker ended while starting:\n{self.log_tail()}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"not started after {_START_S:.0f} s:\n{self.log_tail()}")
            time.sleep(0.05)

    def ask_to_stop(self) -> None:
        """Begin to stop it in order; `wait_stopped` tells when it ended."""
        self.resume()
        self._signal(signal.SIGTERM)

    def wait_stopped(self) -> None:
        """Wait until it ended; kill it if it does not."""
        if self._process is None:
            return
        self._dismiss_watchdog()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process = None

    def kill(self) -> None:
        """End it as a crash would."""
        if self._process is None:
            return
        self._dismiss_watchdog()
        self._process.kill()
        self._process.wait()
        self._process = None

    def _dismiss_watchdog(self) -> None:
        """Before the broker's process is gone for good, as its number may then be another's."""
        if self._watchdog is not None:
            self._watchdog.kill()
            self._watchdog.communicate()
            self._watchdog = None

    def pause(self) -> None:
        """Freeze it: its connections stay open and nothing answers."""
        self._signal(signal.SIGSTOP)
        if self._process is not None and self.running:
            # Its threads stop a moment after the signal; one could still answer.
            os.waitpid(self._process.pid, os.WUNTRACED)

    def resume(self) -> None:
        """Let it go on after `pause`."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self.running:
            os.kill(self._process.pid, number)

    def log_tail(self, lines: int = 40) -> str:
        """The last lines of its log."""
        return "\n".join(self._log_since_launch().splitlines()[-lines:])

    def _log_since_launch(self) -> str:
        with self._log.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace")


def _watch(pid: int) -> subprocess.Popen[bytes]:
    """Kill a process when this one dies, however it dies: only then does the pipe end."""
    return subprocess.Popen(
        ["sh", "-c", 'cat >/dev/null; kill -9 "$0"', str(pid)],
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
