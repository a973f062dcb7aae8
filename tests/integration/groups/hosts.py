"""Processes with members that can be stopped and killed, real and simulated ones."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any, Protocol, cast

from tandem_kafka import KafkaConsumer
from tandem_kafka_testing import Simulation
from tandem_kafka_testing.scheduler import ParkedLoop
from tests.integration.polling import Listener

__all__ = ["Host", "RealHost", "SimulatedHost"]

_ROOT = Path(__file__).resolve().parents[3]
_FOREVER_MS = 10**9


class Host(Protocol):
    """A process. Its members must not be used while it is stopped, or after it was killed."""

    def consumer(self, **options: Any) -> KafkaConsumer: ...

    def stop(self) -> None:
        """Stop both threads of its members; their connections stay open."""

    def resume(self) -> None:
        """Continue after `stop`."""

    def kill(self) -> None:
        """Kill the process; its connections close."""


class SimulatedHost:
    """Consumers of a simulation whose network threads can be stopped."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._consumers: list[KafkaConsumer] = []

    def consumer(self, **options: Any) -> KafkaConsumer:
        self._consumers.append(self._simulation.consumer(**options))
        return self._consumers[-1]

    def stop(self) -> None:
        for parked in self._parked():
            parked.stalled_until_ms = self._simulation.clock.now_ms() + _FOREVER_MS

    def resume(self) -> None:
        for parked in self._parked():
            parked.stalled_until_ms = 0

    def kill(self) -> None:
        self.stop()
        for parked in self._parked():
            parked.transport.close()
        for consumer in self._consumers:
            consumer._core.closed = True  # a killed process does not close it

    def _parked(self) -> list[ParkedLoop]:
        return [consumer._core.driver.parked for consumer in self._consumers]  # type: ignore[attr-defined]


class RealHost:
    """A real process."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "tests.integration.groups.hosted"],
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def consumer(self, **options: Any) -> KafkaConsumer:
        number = self.order(-1, "make", bootstrap_servers=self._bootstrap, **options)[0]
        return cast(KafkaConsumer, _Far(self, number))

    def order(self, number: int, method: str, *arguments: Any, **options: Any) -> Any:
        """Run a command; returns its result and the calls of the consumer's listener."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        pickle.dump((number, method, arguments, options), self._process.stdin)
        self._process.stdin.flush()
        worked, result, calls = pickle.load(self._process.stdout)
        if not worked:
            raise result
        return result, calls

    def stop(self) -> None:
        self._process.send_signal(signal.SIGSTOP)
        os.waitpid(self._process.pid, os.WUNTRACED)  # it stops a moment after the signal

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


class _Far:
    """A consumer in another process; its listener here copies the calls of the one there."""

    def __init__(self, host: RealHost, number: int) -> None:
        self._host = host
        self._number = number
        self._listener: Listener | None = None

    def _order(self, method: str, *arguments: Any, **options: Any) -> Any:
        result, calls = self._host.order(self._number, method, *arguments, **options)
        if self._listener is not None:
            self._listener.calls[:] = calls
        return result

    def subscribe(self, topics: list[str], *, listener: Listener) -> None:
        self._listener = listener
        self._order("subscribe", topics)

    def __getattr__(self, method: str) -> Any:
        if method.startswith("_"):
            raise AttributeError(method)
        return partial(self._order, method)
