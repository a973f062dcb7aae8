"""Connections for raw requests of a test, to a real or a simulated coordinator."""

from __future__ import annotations

import selectors
import socket
import time
from abc import ABC, abstractmethod
from typing import Any

from tandem_kafka_testing import Simulation

__all__ = ["Connection", "RealConnection", "SimulatedConnection"]

#: Long enough for a slow machine; a passing test never waits that long.
_TIMEOUT_S = 60.0


class Connection(ABC):
    """One connection to the coordinator."""

    @abstractmethod
    def send(self, frame: bytes) -> None:
        """Send a request that begins with its length."""

    @abstractmethod
    def has_response(self, within_s: float) -> bool:
        """Wait for a response; return False if none arrives in time."""

    @abstractmethod
    def receive(self) -> bytes:
        """Return the oldest response that has arrived, without its length."""

    @abstractmethod
    def sleep(self, seconds: float) -> None:
        """Let time pass."""

    def send_request(self, request: Any, version: int) -> None:
        """Send a request."""
        request.with_header(correlation_id=1, client_id="raw")
        self.send(request.encode(version=version, header=True, framed=True))

    def receive_response(self, kind: Any, version: int) -> Any:
        """Wait for a response and return it, decoded as `kind`."""
        assert self.has_response(_TIMEOUT_S), "no response"
        return kind.decode(self.receive(), version=version, header=True)

    def exchange(self, request: Any, kind: Any, version: int) -> Any:
        """Send a request and return its response."""
        self.send_request(request, version)
        return self.receive_response(kind, version)


class RealConnection(Connection):
    """A connection to the only broker of a cluster."""

    def __init__(self, bootstrap: str) -> None:
        host, port = bootstrap.split(":")
        self._socket = socket.create_connection((host, int(port)), _TIMEOUT_S)

    def close(self) -> None:
        self._socket.close()

    def send(self, frame: bytes) -> None:
        self._socket.sendall(frame)

    def has_response(self, within_s: float) -> bool:
        # Not `select`: it takes no descriptor above 1023, and the members of a test hold hundreds.
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


class SimulatedConnection(Connection):
    """A connection to a broker of a simulated cluster, without a simulated network."""

    open = True

    def __init__(self, simulation: Simulation, number: int = 0, node_id: int = 1) -> None:
        self.number = number
        self._node_id = node_id
        self._simulation = simulation
        self._responses: list[bytes] = []

    def reply(self, data: bytes, _delay_ms: int) -> None:
        self._responses.append(data)

    def send(self, frame: bytes) -> None:
        broker: Any = self._simulation.cluster.brokers[self._node_id]
        broker.receive(self, frame[4:])

    def has_response(self, within_s: float) -> bool:
        end_ms = self._simulation.clock.now_ms() + round(within_s * 1_000)
        while not self._responses and self._simulation.clock.now_ms() < end_ms:
            self._simulation.sleep(10)
        return bool(self._responses)

    def receive(self) -> bytes:
        return self._responses.pop(0)

    def sleep(self, seconds: float) -> None:
        self._simulation.sleep(round(seconds * 1_000))
