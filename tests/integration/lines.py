"""Connections for requests that a test writes itself, to a real or a simulated coordinator."""

from __future__ import annotations

import selectors
import socket
import time
from abc import ABC, abstractmethod
from typing import Any

from tandem_kafka.testing import Simulation

__all__ = ["Line", "RealLine", "SimulatedLine"]

_PATIENCE_S = 10.0


class Line(ABC):
    """One connection to the coordinator."""

    @abstractmethod
    def send(self, frame: bytes) -> None:
        """Send a request with its length in front."""

    @abstractmethod
    def answered(self, within_s: float) -> bool:
        """Wait until there is an answer; False if none comes in time."""

    @abstractmethod
    def receive(self) -> bytes:
        """Return the oldest answer that has come, without its length."""

    @abstractmethod
    def sleep(self, seconds: float) -> None:
        """Let time pass."""

    def say(self, request: Any, version: int) -> None:
        """Send a request."""
        request.with_header(correlation_id=1, client_id="raw")
        self.send(request.encode(version=version, header=True, framed=True))

    def hear(self, kind: Any, version: int) -> Any:
        """Wait for an answer and return it, read as one of that kind."""
        assert self.answered(_PATIENCE_S), "no answer"
        return kind.decode(self.receive(), version=version, header=True)

    def ask(self, request: Any, kind: Any, version: int) -> Any:
        """Send a request and return its answer."""
        self.say(request, version)
        return self.hear(kind, version)


class RealLine(Line):
    """A connection to the only broker of a cluster."""

    def __init__(self, bootstrap: str) -> None:
        host, port = bootstrap.split(":")
        self._socket = socket.create_connection((host, int(port)), _PATIENCE_S)

    def close(self) -> None:
        self._socket.close()

    def send(self, frame: bytes) -> None:
        self._socket.sendall(frame)

    def answered(self, within_s: float) -> bool:
        # Not `select`: it takes no descriptor above 1023, and the members beside hold hundreds.
        with selectors.DefaultSelector() as selector:
            selector.register(self._socket, selectors.EVENT_READ)
            return bool(selector.select(within_s))

    def receive(self) -> bytes:
        return self._read(int.from_bytes(self._read(4), "big"))

    def _read(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            some = self._socket.recv(count - len(data))
            assert some, "the broker closed the connection"
            data += some
        return data

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class SimulatedLine(Line):
    """A link to the first broker of a simulated cluster, without a network in between."""

    open = True

    def __init__(self, simulation: Simulation, number: int = 0) -> None:
        self.number = number
        self._simulation = simulation
        self._answers: list[bytes] = []

    def reply(self, data: bytes, _delay_ms: int) -> None:
        self._answers.append(data)

    def send(self, frame: bytes) -> None:
        broker: Any = next(iter(self._simulation.cluster.brokers.values()))
        broker.receive(self, frame[4:])

    def answered(self, within_s: float) -> bool:
        end_ms = self._simulation.clock.now_ms() + round(within_s * 1_000)
        while not self._answers and self._simulation.clock.now_ms() < end_ms:
            self._simulation.sleep(10)
        return bool(self._answers)

    def receive(self) -> bytes:
        return self._answers.pop(0)

    def sleep(self, seconds: float) -> None:
        self._simulation.sleep(round(seconds * 1_000))
