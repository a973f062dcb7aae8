"""A connection to a token endpoint, with one limit for everything that happens on it."""

from __future__ import annotations

import http.client
import io
import socket
import ssl
from typing import TYPE_CHECKING, Any

from tandem_kafka.runtime import Clock

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


class TimeLimit:
    """The end of an exchange.

    Args:
        clock: The clock.
        limit_ms: The time from now to the end.
    """

    def __init__(self, clock: Clock, limit_ms: int) -> None:
        self._clock = clock
        self._end_ms = clock.now_ms() + limit_ms

    def left_ms(self) -> int:
        """Return the time until the end, at least 0."""
        return max(0, self._end_ms - self._clock.now_ms())

    def apply(self, sock: socket.socket, *, parts: int = 1) -> None:
        """Let the next operation of a socket end in time, or after a part of the time.

        Raises:
            TimeoutError: The end is reached.
        """
        left_ms = self.left_ms()
        if left_ms == 0:
            raise TimeoutError
        sock.settimeout(left_ms / 1000 / parts)


class LimitedConnection(http.client.HTTPConnection):
    """An HTTP connection whose limit covers all of it.

    The timeout of `http.client` is one for each read. An endpoint that sends a byte now and then,
    in a status line, headers, interim responses or trailers, would hold the thread forever.

    Args:
        host: The endpoint's host.
        port: Its port; None for that of the protocol.
        context: The TLS context; None for a connection without TLS.
        limit: The time limit.
    """

    def __init__(
        self, host: str, port: int | None, context: ssl.SSLContext | None, limit: TimeLimit
    ) -> None:
        self.default_port = http.client.HTTP_PORT if context is None else http.client.HTTPS_PORT
        super().__init__(host, port)
        self._tls = context
        self._limit = limit
        self._opened: socket.socket | None = None

    def connect(self) -> None:
        """Connect to the first address that accepts."""
        problem: OSError = OSError(f"{self.host} has no address")
        found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
        for tried, (family, kind, protocol, _, address) in enumerate(found):
            self._shut()
            self._opened = socket.socket(family, kind, protocol)
            try:
                self._limit.apply(self._opened, parts=len(found) - tried)
                self._opened.connect(address)
            except OSError as error:
                problem = error
                continue
            if self._tls is not None:
                self._limit.apply(self._opened)
                self._opened = self._tls.wrap_socket(self._opened, server_hostname=self.host)
            self.sock: Any = _LimitedSocket(self._opened, self._limit)
            return
        raise problem

    def _shut(self) -> None:
        if self._opened is not None:
            self._opened.close()

    def shut(self) -> None:
        """Close the connection and its socket; responses cannot be read any more."""
        self.close()
        self._shut()


class _LimitedSocket:
    """The part of a socket that `http.client` uses."""

    def __init__(self, sock: socket.socket, limit: TimeLimit) -> None:
        self._sock = sock
        self._limit = limit

    def sendall(self, data: bytes) -> None:
        self._limit.apply(self._sock)
        self._sock.sendall(data)

    def makefile(self, mode: str) -> io.BufferedReader:  # noqa: ARG002 - as http.client calls it
        return io.BufferedReader(_LimitedReader(self._sock, self._limit))

    def close(self) -> None:
        """Do nothing: `http.client` closes it before the body is read (`shut` closes it)."""


class _LimitedReader(io.RawIOBase):
    def __init__(self, sock: socket.socket, limit: TimeLimit) -> None:
        super().__init__()
        self._sock = sock
        self._limit = limit

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        self._limit.apply(self._sock)
        return self._sock.recv_into(buffer)
